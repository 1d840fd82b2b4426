//! What is read of providers and models.

use super::*;
use signet_dialect::Api;
use signet_types::ModelName;
use std::time::Duration;

#[test]
fn targets_are_asked_in_the_order_of_the_list_unless_they_say_otherwise() {
    let text = "[[model]]\nname = 'm'\naliases = ['n', 'o']\nattempts_max = 2\nretry_wait_max_ms = 0\nmax_tokens_default = 512\ntargets = [
        { provider = 'openai', model = 'a' },
        { provider = 'openai', model = 'b', weight = 3 },
        { provider = 'openai', model = 'c', order = 0 },
    ]
    [[model]]\nname = 'p'\ntargets = [{ provider = 'openai', model = 'a' }]";
    let config = good(text, &[]);
    let places: Vec<_> = config.models[0].targets.iter().map(|to| (to.model.as_str(), to.weight, to.order)).collect();
    assert_eq!(places, [("a", 1, 0), ("b", 3, 1), ("c", 1, 0)]);
    let names: Vec<_> = config.models[0].names().map(ModelName::as_str).collect();
    assert_eq!(names, ["m", "n", "o"]);
    assert_eq!((config.models[0].attempts_max, config.models[0].retry_wait_max), (2, Duration::ZERO));
    assert_eq!((config.models[0].max_tokens_default, config.models[1].max_tokens_default), (Some(512), None));
    assert_eq!((config.models[1].attempts_max, config.models[1].retry_wait_max), (3, Duration::from_secs(10)));
}

#[test]
fn targets_that_share_an_order_speak_one_vendors_apis() {
    let text = |order: u32| {
        format!(
            "[[provider]]\nname = 'o'\nbase_url = 'http://o'\n[[provider]]\nname = 'a'\nkind = 'anthropic'\nbase_url = 'http://a'
            [[model]]\nname = 'm'\ntargets = [
                {{ provider = 'o', model = 'n', order = 0 }},
                {{ provider = 'o', model = 'p', order = 0 }},
                {{ provider = 'a', model = 'q', order = {order} }},
            ]"
        )
    };
    assert_eq!(good(&text(1), &[]).models[0].targets.len(), 3);
    assert!(fault(&text(0)).starts_with("model.0.targets: of one order must all be at openai and azure providers, or"));
    let azure = text(0).replace("kind = 'anthropic'", "kind = 'azure'\napi_version = '2024-10-21'");
    assert_eq!(good(&azure, &[]).models[0].targets.len(), 3);
}

#[test]
fn a_name_belongs_to_one_model_as_name_or_as_alias() {
    let target = "targets = [{ provider = 'openai', model = 'a' }]";
    for second in
        ["name = 'n'", "name = 'q'\naliases = ['m']", "name = 'q'\naliases = ['n']", "name = 'q'\naliases = ['q']"]
    {
        let text = format!("[[model]]\nname = 'm'\naliases = ['n']\n{target}\n[[model]]\n{second}\n{target}");
        assert!(fault(&text).contains("is the name of another model too"), "{second}");
    }
}

#[test]
fn the_usual_variables_make_the_provider_where_none_is_configured() {
    let config = good("", &[("OPENAI_BASE_URL", "http://localhost:9/v1"), ("OPENAI_API_KEY", "sk-1")]);
    assert_eq!(config.providers[0].base_url.as_str(), "http://localhost:9/v1");
    assert_eq!(config.providers[0].api_key.as_ref().expect("set").expose(), "sk-1");
    let fault = fault_with("", &[("OPENAI_BASE_URL", "localhost")]);
    assert!(fault.starts_with("provider.0.base_url") && fault.ends_with("(set by OPENAI_BASE_URL)"), "{fault}");
}

#[test]
fn the_usual_key_is_sent_to_its_own_origin_only_unless_it_is_named() {
    let has_key = |provider: &str| {
        let config = good(&format!("[[provider]]\nname = 'a'\n{provider}"), &[("OPENAI_API_KEY", "sk-1")]);
        config.providers[0].api_key.is_some()
    };
    assert!(has_key(""));
    assert!(!has_key("base_url = 'http://elsewhere/v1'"));
    assert!(has_key("base_url = 'http://elsewhere/v1'\napi_key_env = 'OPENAI_API_KEY'"));
    assert!(!has_key("api_key_env = ''"), "an empty name means no key");
}

#[test]
fn each_kind_of_provider_has_its_place_its_key_and_its_paths() {
    let text = "
        [[provider]]\nname = 'o'
        [[provider]]\nname = 'a'\nkind = 'anthropic'
        [[provider]]\nname = 'z'\nkind = 'azure'\nbase_url = 'https://r.openai.azure.com'\napi_version = '2024-10-21'
        [[provider]]\nname = 'v'\nkind = 'azure'\nbase_url = 'https://r.openai.azure.com/openai/v1'
        [[provider]]\nname = 'c'\nkind = 'anthropic'\nbase_url = 'http://c/v1'\napis = ['messages']";
    let config = good(text, &[("OPENAI_API_KEY", "sk-o"), ("ANTHROPIC_API_KEY", "sk-a")]);
    let told: Vec<String> = config
        .providers
        .iter()
        .map(|provider| {
            let api = if provider.kind.name() == "anthropic" { Api::Messages } else { Api::Chat };
            let path = format!("{}{}", provider.base_url.as_str().trim_end_matches('/'), provider.kind.path(api, "m"));
            format!("{path} {}", provider.api_key.as_ref().map_or("-", |key| key.expose()))
        })
        .collect();
    let expected = [
        "https://api.openai.com/v1/chat/completions sk-o",
        "https://api.anthropic.com/v1/messages sk-a",
        "https://r.openai.azure.com/openai/deployments/m/chat/completions?api-version=2024-10-21 -",
        "https://r.openai.azure.com/openai/v1/chat/completions -",
        "http://c/v1/messages -",
    ];
    assert_eq!(told, expected);
    assert_eq!((&config.providers[0].apis, &config.providers[4].apis), (&None, &Some(vec![Api::Messages])));
}

#[test]
fn kinds_and_headers_that_cannot_work_are_faults() {
    let rows = [
        ("kind = 'bedrock'", "provider.0.kind: \"bedrock\" is not supported"),
        ("kind = 'vertex'", "provider.0.kind: \"vertex\" is not supported"),
        ("kind = 'else'", "provider.0.kind: is not one of: openai, azure, anthropic"),
        ("kind = 'azure'", "provider.0.api_version: must be set for a base_url that does not end in /openai/v1"),
        ("api_version = '1'", "provider.0.api_version: is not a setting"),
        ("apis = ['chat', 'speech']", "provider.0.apis: is not a list of some of: chat, completions, responses"),
        ("apis = []", "provider.0.apis: is not a list"),
        ("forward_headers = ['Authorization']", "provider.0.forward_headers: \"authorization\" is not a header"),
        ("forward_headers = ['a b']", "provider.0.forward_headers: \"a b\" is not a header"),
        ("headers = { Cookie = 'a' }", "provider.0.headers.Cookie: is not a header that can be set"),
        ("headers = { x-team-key = 'a' }", "provider.0.headers.x-team-key: a secret must not stand here"),
        ("headers = { x-team = \"a\\nb\" }", "provider.0.headers.x-team: holds a character"),
        ("headers = { x-team_env = 'NONE' }", "provider.0.headers.x-team_env: names the variable NONE"),
    ];
    for (text, expected) in rows {
        let fault = fault(&format!("[[provider]]\nname = 'a'\nbase_url = 'http://a'\n{text}"));
        assert!(fault.starts_with(expected), "{fault}");
    }
}

#[test]
fn the_way_to_a_provider_may_have_a_proxy_roots_and_a_certificate() {
    let data = TempDir::new().expect("a folder");
    for name in ["ca", "cert", "key"] {
        std::fs::write(data.path().join(name), format!("{name}\n")).expect("written");
    }
    let text = "[[provider]]\nname = 'a'\nbase_url = 'https://a.internal'\nca_file = 'ca'\nclient_cert_file = 'cert'\n\
                client_key_file = 'key'\nproxy_url_env = 'PROXY'\nno_proxy = ['10.0.0.0/8', 'other.internal']";
    let folder = data.path().to_str().expect("text");
    let config = good(text, &[("SIGNET_DATA", folder), ("PROXY", "http://u:hunter2@proxy:3128")]);
    let provider = &config.providers[0];
    assert_eq!(provider.way.ca_pem.as_deref(), Some("ca"));
    let (cert, key) = provider.client_auth.as_ref().expect("both");
    assert_eq!((cert.as_str(), key.expose().as_str()), ("cert", "key"));
    assert_eq!(provider.way.proxy_url.as_ref().expect("set").expose(), "http://u:hunter2@proxy:3128");
    let shown = config.effective().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    assert!(!shown.contains("hunter2") && !format!("{config:?}").contains("hunter2"), "{shown}");
    let only = "[[provider]]\nname = 'a'\nbase_url = 'https://a'\nclient_key_file = 'key'";
    let fault = fault_with(only, &[("SIGNET_DATA", folder)]);
    assert!(fault.starts_with("provider.0.client_cert_file: goes together with client_key_file"), "{fault}");
    for url in ["https://proxy:1", "socks5://proxy:1", "proxy:1"] {
        let text = format!("[[provider]]\nname = 'a'\nbase_url = 'https://a'\nproxy_url = '{url}'");
        assert!(fault_with(&text, &[]).starts_with("provider.0.proxy_url: is not a URL of one of"), "{url}");
    }
}

#[test]
fn a_provider_may_be_exempt_from_its_proxy_by_name_and_by_network() {
    let proxied = |host: &str, exempt: &str| {
        let text = format!(
            "[[provider]]\nname = 'a'\nbase_url = 'http://{host}/v1'\nproxy_url = 'http://p:1'\nno_proxy = {exempt}"
        );
        good(&text, &[]).providers[0].way.proxy_url.is_some()
    };
    for (host, exempt, expected) in [
        ("a.example", "['*']", false),
        ("a.example", "['example']", false),
        ("a.example", "['.EXAMPLE']", false),
        ("example", "['.example']", false),
        ("anexample", "['example']", true),
        ("a.example", "['b.example', '10.0.0.0/8']", true),
        ("10.1.2.3", "['10.0.0.0/8']", false),
        ("10.1.2.3", "['10.1.2.4', '11.0.0.0/8']", true),
        ("[fd00::1]", "['fd00::/8']", false),
        ("10.1.2.3", "['3']", true),
        ("a.example", "[]", true),
    ] {
        assert_eq!(proxied(host, exempt), expected, "{host} {exempt}");
    }
}

#[test]
fn headers_for_a_provider_are_texts_or_name_their_secret() {
    let text = "[[provider]]\nname = 'a'\nbase_url = 'http://a'\nforward_headers = ['X-Team']\n\
                headers = { X-Site = 'ours', x-team-key_env = 'TEAM' }";
    let config = good(text, &[("TEAM", "hunter2")]);
    let provider = &config.providers[0];
    let headers: Vec<_> =
        provider.headers.iter().map(|(name, value)| (name.as_str(), value.expose().as_str())).collect();
    assert_eq!(headers, [("x-site", "ours"), ("x-team-key", "hunter2")]);
    assert_eq!(provider.forward_headers, ["x-team"]);
    let shown = config.effective().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ");
    assert!(shown.contains("provider.0.headers.X-Site=ours") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn an_embedder_and_an_anchor_are_reached_by_the_same_rules_as_a_provider() {
    let folder = TempDir::new().expect("a folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, "ca").expect("written");
    let ways = |more: &str| {
        use crate::settings::{AnchorPlace, Encoder};
        let way = format!("ca_file = '{}'\nproxy_url = 'http://proxy:3128'\n{more}", ca.display());
        let text = format!(
            "[semantic]\nsimilarity_min = 0.9\n[semantic.embedder]\nbase_url = 'http://e.test'\nmodel = 'e'\n{way}\
             [[lineage.anchor]]\nurl = 'https://a.test/x'\n{way}"
        );
        let config = good(&text, &[]);
        let Encoder::Endpoint { way: embedder, .. } = config.semantic.encoder else { panic!("an endpoint") };
        let [AnchorPlace::Http { way: anchor, .. }] = &config.lineage.anchors[..] else { panic!("an anchor") };
        [embedder, anchor.clone()]
    };
    for way in ways("") {
        let proxy = way.proxy_url.expect("a proxy");
        assert_eq!((way.ca_pem.as_deref(), proxy.expose().as_str()), (Some("ca"), "http://proxy:3128"));
    }
    assert!(ways("no_proxy = ['.test']\n").iter().all(|way| way.proxy_url.is_none()));
}
