//! Every kind of fault, who stands over whom, and what the defaults are.

use super::*;
use crate::{AuthMode, DEFAULT_TEXT, Questions, StoreLocation};
use proptest::prelude::*;
use std::io::Write;
use std::time::Duration;
use tempfile::{NamedTempFile, TempDir};

struct Vars(Vec<(String, String)>);

impl Env for Vars {
    fn vars(&self) -> Vec<(String, String)> {
        self.0.clone()
    }
}

fn vars(pairs: &[(&str, &str)]) -> Vars {
    Vars(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn load_with(text: &str, pairs: &[(&str, &str)], overrides: Overrides) -> Result<Config, Problems> {
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    Config::load(Some(file.path()), &vars(pairs), overrides)
}

fn good(text: &str, pairs: &[(&str, &str)]) -> Config {
    load_with(text, pairs, Overrides::default()).expect("no fault")
}

/// The one fault of `text`, as the operator sees it.
fn fault(text: &str) -> String {
    fault_with(text, &[])
}

fn fault_with(text: &str, pairs: &[(&str, &str)]) -> String {
    let Problems(problems) = load_with(text, pairs, Overrides::default()).expect_err("a fault");
    assert_eq!(problems.len(), 1, "{problems:?}");
    problems[0].to_string()
}

#[test]
fn no_file_and_no_variable_give_the_defaults_of_the_documentation() {
    let config = Config::load(None, &vars(&[]), Overrides::default()).expect("no fault");
    assert_eq!(config.data_dir, PathBuf::from("./signet-data"));
    assert_eq!(config.server.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.admin.listen.to_string(), "127.0.0.1:8081");
    assert_eq!(config.auth.mode, AuthMode::Passthrough);
    assert!(
        matches!(&config.store.location, StoreLocation::Sqlite(path) if *path == Path::new("./signet-data/signet.db"))
    );
    assert!(config.redis.is_none() && config.models.is_empty() && config.warnings.is_empty());
    assert_eq!(config.limits, Some(Limits { ip_rps: 50, ip_burst: 100 }));
    assert_eq!(config.lineage.dir, Path::new("./signet-data/lineage"));
    let [provider] = &config.providers[..] else { panic!("one provider") };
    assert_eq!(provider.base_url.as_str(), "https://api.openai.com/v1");
    assert!(provider.api_key.is_none());
    let expected = "admin.listen=127.0.0.1:8081 admin.token=not set admin.token_env=SIGNET_ADMIN_TOKEN auth.cache_ttl_s=60 \
         auth.mode=passthrough cache.l1_max_bytes=268435456 cache.lookup_timeout_ms=25 cache.max_entry_bytes=1048576 \
         cache.persist=true cache.stale_if_error_s=0 cache.ttl_max_s=604800 cache.ttl_s=3600 cache.volatile_ttl_s=60 limits.ip_burst=100 limits.ip_rps=50 \
         lineage.anchor_every_s=10 lineage.capture_days=30 lineage.capture_max_bytes=1048576 lineage.checkpoint_every_leaves=4096 lineage.checkpoint_every_s=1 lineage.dir=lineage \
         lineage.mode=spool lineage.on_full=reject lineage.origin=localhost/signet lineage.public=false \
         lineage.retain_bytes=2147483648 lineage.retain_days=0 lineage.root_threshold=0 lineage.spool_max_bytes=17179869184 provider.0.api_key=not set \
         provider.0.api_key_env=OPENAI_API_KEY provider.0.base_url=https://api.openai.com/v1 \
         provider.0.connect_timeout_ms=5000 provider.0.connection_age_max_s=600 provider.0.first_byte_timeout_ms=600000 provider.0.idle_timeout_ms=120000 \
         provider.0.inject_usage=true provider.0.kind=openai provider.0.name=openai provider.0.pool_idle_ms=50000 provider.0.total_timeout_ms=1800000 \
         semantic.backend=memory semantic.encoder=embedded semantic.judge= semantic.max_entries=100000 \
         semantic.max_false_share=0.01 semantic.mode=on semantic.model_dir=model semantic.question_log=off semantic.question_log_max_age_s=604800 \
         semantic.question_log_max_bytes=16777216 semantic.question_log_share=0.01 semantic.rescore_deadline_ms=50 semantic.sample_share=0.02 semantic.similarity_min=0.97 server.body_rate_min=1024 server.body_timeout_ms=30000 server.head_timeout_ms=10000 server.heartbeat_ms=15000 server.idle_timeout_ms=75000 server.listen=127.0.0.1:8080 server.lock_wait_s=30 server.max_body_bytes=33554432 \
         server.max_connections=10000 server.max_inflight=0 server.max_lag_ms=50 server.max_response_bytes=67108864 server.max_stream_bytes=268435456 server.reload_watch=true server.shutdown_grace_s=30 server.slow_reader_ms=10000 server.stream_buffer_bytes=8388608 server.trusted_proxies= server.write_stall_ms=60000 store.url=sqlite://signet.db";
    let effective: Vec<String> = config.effective().map(|(key, value)| format!("{key}={value}")).collect();
    assert_eq!(effective.join(" "), expected);
}

#[test]
fn the_default_text_means_the_same_commented_and_uncommented() {
    let plain = Config::load(None, &vars(&[]), Overrides::default()).expect("no fault");
    let uncommented: Vec<&str> = DEFAULT_TEXT
        .lines()
        .map(|line| line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c != ' ')).unwrap_or(line))
        .collect();
    let uncommented = uncommented.join("\n");
    for text in [DEFAULT_TEXT, uncommented.as_str()] {
        let config = good(text, &[]);
        assert_eq!(format!("{config:?}"), format!("{plain:?}"));
        assert_eq!(config.digest(), plain.digest());
    }
    // Every setting that holds by default is shown.
    let shown: toml::Table = uncommented.parse().expect("TOML");
    for (key, _) in plain.effective().filter(|(key, _)| !matches!(*key, "admin.token" | "provider.0.api_key")) {
        let parts: Vec<&str> = key.split('.').collect();
        let section = shown.get(parts[0]).expect("shown");
        let section = section.as_array().map_or(section, |items| &items[0]);
        assert!(section.get(parts[parts.len() - 1]).is_some(), "{key} is not shown");
    }
}

#[test]
fn a_flag_stands_over_a_variable_and_a_variable_over_the_file() {
    let (text, pairs) = ("[cache]\nttl_s = 1\n", &[("SIGNET_CACHE__TTL_S", "2")][..]);
    assert_eq!(good(text, &[]).cache.ttl, Duration::from_secs(1));
    assert_eq!(good(text, pairs).cache.ttl, Duration::from_secs(2));
    let flag = Overrides::default().set("cache.ttl_s", "3");
    assert_eq!(load_with(text, pairs, flag).expect("no fault").cache.ttl, Duration::from_secs(3));
}

#[test]
fn values_of_every_type_can_come_from_variables() {
    let config = good(
        "[[provider]]\nname = \"a\"\nbase_url = \"http://a\"\n",
        &[
            ("SIGNET_SERVER__TRUSTED_PROXIES", "10.0.0.0/8, fd00::/8"),
            ("SIGNET_CACHE__PERSIST", "false"),
            ("SIGNET_SEMANTIC__SIMILARITY_MIN", "0.99"),
            ("SIGNET_PROVIDER__0__NAME", "first"),
            ("SIGNET_PROVIDER__1__NAME", "second"),
            ("SIGNET_PROVIDER__1__BASE_URL", "http://b/v1"),
            ("SIGNET_MODEL__0__NAME", "m"),
            ("SIGNET_MODEL__0__TARGETS__0__PROVIDER", "second"),
            ("SIGNET_MODEL__0__TARGETS__0__MODEL", "n"),
        ],
    );
    assert_eq!(config.server.trusted_proxies.len(), 2);
    assert!(!config.cache.persist);
    assert!((config.semantic.similarity_min - 0.99).abs() < 1e-6);
    let names: Vec<&str> = config.providers.iter().map(|provider| provider.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
    assert_eq!(config.models[0].targets[0].provider.as_str(), "second");
}

#[test]
fn an_anchor_in_the_data_folder_is_taken_with_a_warning_and_one_elsewhere_without() {
    let inside = good("[[lineage.anchor]]\nfile = 'anchors'", &[]);
    assert!(matches!(&inside.lineage.anchors[..], [AnchorPlace::File(file)] if file.ends_with("anchors")));
    assert!(inside.warnings[0].contains("proves nothing"), "{:?}", inside.warnings);
    let pairs = [("SIGNET_LINEAGE__ANCHOR__0__URL", "https://w.example/put"), ("TOKEN", "t")];
    let named =
        [("SIGNET_LINEAGE__ANCHOR__0__TOKEN_ENV", "TOKEN"), ("SIGNET_LINEAGE__ANCHOR__1__FILE", "/elsewhere/a")];
    let outside = good("", &[&pairs[..], &named].concat());
    assert!(outside.warnings.is_empty(), "{:?}", outside.warnings);
    let [AnchorPlace::Http { url, token: Some(token), .. }, AnchorPlace::File(_)] = &outside.lineage.anchors[..] else {
        panic!("{:?}", outside.lineage.anchors)
    };
    assert_eq!((url.path(), token.expose().as_str()), ("/put", "t"));
}

#[test]
fn a_list_of_over_ten_items_can_come_from_variables() {
    let names: Vec<String> =
        (0..12).flat_map(|n| ["NAME", "BASE_URL"].map(|key| format!("SIGNET_PROVIDER__{n}__{key}"))).collect();
    let values: Vec<String> = (0..12).flat_map(|n| [format!("p{n}"), format!("http://p{n}")]).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
    assert_eq!(good("", &pairs).providers[11].name.as_str(), "p11");
}

#[test]
fn only_variables_with_a_double_underscore_are_settings() {
    good("", &[("SIGNET_DATA", "/x"), ("SIGNET_ADMIN_TOKEN", "t"), ("SIGNET_WHATEVER", "1"), ("OTHER__THING", "1")]);
    assert_eq!(
        fault_with("", &[("SIGNET_SERVER__LISTNE", "x")]),
        "server.listne: is not a setting (set by SIGNET_SERVER__LISTNE)"
    );
}

#[test]
fn all_faults_are_reported_at_once_with_their_keys() {
    let text = "
        top = 1
        [server]
        listen = 'nowhere'
        trusted_proxies = ['10.0.0.0/8', 'x']
        [cache]
        ttl_s = 0
        persist = 'yes'
        max_entry_bytes = 9
        l1_max_bytes = 8
        [semantic]
        mode = 'maybe'
        similarity_min = 1.5
        [[provider]]
        name = 'a'
        base_url = 'ftp://a'
        bogus = 2
        [[model]]
        name = 'm'
        targets = [{ provider = 'b', model = 'n', weight = 0 }]
    ";
    let pairs =
        [("SIGNET_LIMITS__IP_BURST", "many"), ("SIGNET_SERVER__LISTEN__PORT", "1"), ("SIGNET_PROVIDER__3__NAME", "d")];
    let Problems(problems) = load_with(text, &pairs, Overrides::default()).expect_err("faults");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "cache.max_entry_bytes",
            "cache.persist",
            "cache.ttl_s",
            "limits.ip_burst",
            "model.0.targets.0.provider",
            "model.0.targets.0.weight",
            "provider.0.base_url",
            "provider.0.bogus",
            "provider.3.name",
            "semantic.mode",
            "semantic.similarity_min",
            "server.listen",
            "server.listen.port",
            "server.trusted_proxies",
            "top",
        ]
    );
    assert_eq!(problems[3].variable.as_deref(), Some("SIGNET_LIMITS__IP_BURST"));
}

#[test]
fn what_comes_with_a_later_version_is_refused_and_said_to_be_later() {
    let later = [
        ("[auth]\nmode = 'keys'", "auth.mode"),
        ("[[provider]]\nname = 'a'\nbase_url = 'http://a'\nkind = 'gemini'", "provider.0.kind"),
        ("[[provider]]\nname = 'a'\nbase_url = 'http://a'\nkind = 'cohere'", "provider.0.kind"),
    ];
    for (text, key) in later {
        let fault = fault(text);
        assert!(fault.starts_with(key) && fault.contains("not available in this version"), "{fault}");
    }
}

/// Texts, and how the fault begins that each of them is.
const CONTRADICTIONS: &[(&str, &str)] = &[
    ("[cache]\nttl_s = 604801", "cache.ttl_s: is over ttl_max_s"),
    ("[cache]\nl1_max_bytes = 5", "cache.max_entry_bytes: is over l1_max_bytes"),
    ("[limits]\nip_burst = 0", "limits.ip_burst: must be at least 1"),
    ("[admin]\nlisten = '127.0.0.1:8080'", "admin.listen: is the address of server.listen too"),
    ("[[provider]]\nname = 'a'\nbase_url = 'http://a'\ntotal_timeout_ms = 9", "provider.0.total_timeout_ms: is under"),
    (
        "[semantic]\nmode = 'shadow'\n[[model]]\nname = 'm'\nsemantic_mode = 'on'\ntargets = [{ provider = 'openai', model = 'n' }]",
        "model.0.semantic_mode: is less strict than semantic.mode",
    ),
    (
        "[[model]]\nname = 'm'\nsimilarity_min = 0.9\ntargets = [{ provider = 'openai', model = 'n' }]",
        "model.0.similarity_min: is under semantic.similarity_min",
    ),
    (
        "[semantic]\nbackend = 'pgvector'\nencoder = 'minilm'\n[store]\nurl = 'postgres://h/d'",
        "semantic.encoder: is \"minilm\", which looks only at what this process holds",
    ),
    ("[semantic]\nbackend = 'pgvector'", "semantic.backend: is \"pgvector\", which needs store.url"),
    (
        "[semantic]\nbackend = 'pgvector'\n[store]\nurl = 'postgres://h/d'\n[cache]\npersist = false",
        "semantic.backend: is \"pgvector\", which needs cache.persist",
    ),
    (
        "[[model]]\nname = 'm'\nmax_false_share = 0.02\ntargets = [{ provider = 'openai', model = 'n' }]",
        "model.0.max_false_share: is over semantic.max_false_share",
    ),
    ("[semantic.embedder]\nbase_url = 'http://e'\nmodel = 'e'", "semantic.similarity_min: must be set"),
    (
        "[semantic]\nencoder = 'embedded'\nsimilarity_min = 0.9\n[semantic.embedder]\nbase_url = 'http://e'\nmodel = 'e'",
        "semantic.encoder: cannot be set together",
    ),
    ("[semantic]\nsimilarity_lowest = 0.98", "semantic.similarity_lowest: is over similarity_min"),
    ("[semantic]\nmax_false_share = 0.0001", "semantic.max_false_share: is not a number from 0.0005 to 1"),
    ("[server]\ntls_cert_file = 'a.pem'", "server.tls_key_file: has to name the key of tls_cert_file"),
    ("[server]\ntls_key_file = 'a.pem'", "server.tls_cert_file: has to name the certificate of tls_key_file"),
    ("[server]\nhead_timeout_ms = 0", "server.head_timeout_ms: is not a whole number from 1 to 86400000"),
    ("[server]\nbody_rate_min = -1", "server.body_rate_min: is not a whole number from 0 to 1073741824"),
    ("[semantic]\nquestion_log = 'yes'", "semantic.question_log: is not one of: off, on"),
    ("[semantic]\nquestion_log_max_bytes = 0", "semantic.question_log_max_bytes: is not a whole number from 1048576"),
    ("[semantic]\nsample_share = 2", "semantic.sample_share: is not a number from 0 to 1"),
    ("[semantic]\njudge = 'm'\nsample_share = 0.0", "semantic.judge: is never asked"),
    (
        "[semantic]\njudge = 'n'\n[[model]]\nname = 'm'\ntargets = [{ provider = 'openai', model = 'm' }]",
        "semantic.judge: is not the name of a configured model",
    ),
    ("[[model]]\nname = 'm'\ntargets = []", "model.0.targets: must name"),
    (
        "[[model]]\nname = 'm'\ncapture = 'sealed'\ntargets = [{ provider = 'openai', model = 'n' }]",
        "model.0.capture: is \"sealed\", which needs lineage.break_glass_key_file",
    ),
    ("[lineage]\norigin = 'a b'", "lineage.origin: is not a name"),
    ("[lineage]\norigin = 'a;b'", "lineage.origin: is not a name"),
    ("[lineage]\nkey_file = 'a'\ncheckpoint_key_file = 'a'", "lineage.checkpoint_key_file: is the key that signs"),
    ("[lineage]\nkeyring_file = 'a'", "lineage.root_file: has to name"),
    ("[lineage]\nroot_threshold = 2", "lineage.root_file: has to name"),
    ("[[lineage.anchor]]\nfile = 'a'\nurl = 'http://a'", "lineage.anchor.0.file: an anchor is either"),
    ("[[lineage.anchor]]\n", "lineage.anchor.0.file: an anchor is either"),
    ("[[lineage.anchor]]\nurl = 'ftp://a'", "lineage.anchor.0.url: is not an http"),
    ("[[lineage.anchor]]\nfile = '/a'\ntoken_env = 'X'", "lineage.anchor.0.token_env: is not a setting"),
    ("[admin]\ntoken_env = 'A'\ntoken_file = 'b'", "admin.token_env: cannot be set together"),
    ("[store]\nurl_env = 'A'\nurl = 'sqlite://x.db'", "store.url: cannot be set together"),
];

#[test]
fn values_that_contradict_each_other_are_faults() {
    for (text, expected) in CONTRADICTIONS {
        let fault = fault_with(text, &[("A", "postgres://h/d")]);
        assert!(fault.starts_with(expected), "{fault}");
    }
    assert_eq!(good("[limits]\nip_rps = 0\nip_burst = 0", &[]).limits, None);
}

#[test]
fn names_are_given_once() {
    let provider = "[[provider]]\nname = 'a'\nbase_url = 'http://a'\n";
    assert!(fault(&provider.repeat(2)).starts_with("provider.1.name: is the name of another"));
    let model = "[[model]]\nname = 'm'\ntargets = [{ provider = 'openai', model = 'n' }]\n";
    assert!(fault(&model.repeat(2)).starts_with("model.1.name: is the name of another"));
    assert!(fault("[[provider]]\nbase_url = 'http://a'").starts_with("provider.0.name: must be set"));
}

#[test]
fn a_password_in_the_file_is_a_fault_and_is_not_repeated_in_its_report() {
    for text in [
        "[store]\nurl = 'postgres://u:hunter2@h/d'",
        "[store]\nurl = 'postgres://h/d?password=hunter2'",
        "[store]\ndirect_url = 'postgres://u:hunter2@h/d'",
        "[redis]\nurl = 'redis://:hunter2@h:6379'",
        "[redis]\nurl = 'redis-sentinel://h:1?sentinelPassword=hunter2'",
        "[admin]\ntoken = 'hunter2'",
        "[[provider]]\nname = 'a'\nbase_url = 'http://a'\napi_key = 'hunter2'",
        "[[provider]]\nname = 'a'\nbase_url = 'http://u:hunter2@a'",
        "[[provider]]\nname = 'a'\nbase_url = 'http://a'\nheaders = { x-gateway-token = 'hunter2' }",
        "[[provider]]\nname = 'a'\nbase_url = 'http://a'\nheaders = { authorization = 'hunter2' }",
        "[[provider]]\nname = 'a'\nbase_url = 'http://a'\nproxy_url = 'http://u:hunter2@p'",
        "[server]\nlisten = 'hunter2'",
        "[admin]\ntoken = 'hunter2",
    ] {
        let fault = fault(text);
        assert!(!fault.contains("hunter2"), "{fault}");
    }
    let config = good("", &[("SIGNET_STORE__URL", "postgres://u:hunter2@h/d")]);
    assert!(matches!(&config.store.location, StoreLocation::Postgres(url) if url.expose().contains("hunter2")));
    assert!(!format!("{config:?}").contains("hunter2"), "a variable may hold it, the log may not");
}

#[test]
fn secrets_come_from_variables_and_from_files_in_the_data_folder() {
    let data = TempDir::new().expect("a folder");
    std::fs::write(data.path().join("key"), "sk-file\n").expect("written");
    std::fs::write(data.path().join("redis"), "rediss://:pw@h:6379").expect("written");
    std::fs::write(data.path().join("secret"), "0F".repeat(32) + "\n").expect("written");
    let text = "
        [auth]\nsecret_file = 'secret'
        [redis]\nurl_file = 'redis'
        [store]\nurl_env = 'DB'\ndirect_url_env = 'DB'
        [[provider]]\nname = 'a'\nbase_url = 'http://a'\napi_key_file = 'key'";
    let overrides = Overrides::default().data_dir(data.path().to_owned());
    let config = load_with(text, &[("DB", "postgres://u:p@h/d")], overrides).expect("no fault");
    assert_eq!(config.providers[0].api_key.as_ref().expect("read").expose(), "sk-file");
    assert_eq!(config.redis.expect("read").expose(), "rediss://:pw@h:6379");
    assert_eq!(config.auth.tenant_secret.expect("read").expose(), &[15; 32]);
    assert_eq!(config.store.direct_url.expect("read").expose(), "postgres://u:p@h/d");
}

#[test]
fn secrets_that_cannot_be_had_are_faults() {
    let data = TempDir::new().expect("a folder");
    std::fs::write(data.path().join("empty"), "\n").expect("written");
    std::fs::write(data.path().join("short"), "0f".repeat(31)).expect("written");
    std::fs::write(data.path().join("lines"), "sk-a\nsk-b\n").expect("written");
    for (text, expected) in [
        ("[store]\nurl_env = 'NONE'", "store.url_env: names the variable NONE, which is not set"),
        ("[store]\nurl_env = 'postgres://u:pw@h'", "store.url_env: names a variable that is not set"),
        ("[admin]\ntoken_file = 'missing'", "admin.token_file: "),
        ("[admin]\ntoken_file = 'empty'", "admin.token_file: "),
        ("[auth]\nsecret_file = 'short'", "auth.secret_file: does not hold 64 hexadecimal digits"),
        ("[[provider]]\nname = 'a'\nbase_url = 'http://a'\napi_key_env = 'NONE'", "provider.0.api_key_env: names"),
        ("[[provider]]\nname = 'a'\nbase_url = 'http://a'\napi_key_file = 'lines'", "provider.0.api_key: holds"),
    ] {
        let overrides = Overrides::default().data_dir(data.path().to_owned());
        let Problems(problems) = load_with(text, &[], overrides).expect_err("a fault");
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].to_string().starts_with(expected), "{}", problems[0]);
    }
}

#[test]
fn a_device_a_folder_or_an_endless_file_in_the_place_of_a_secret_is_a_fault() {
    let data = TempDir::new().expect("a folder");
    let large = std::fs::File::create(data.path().join("large")).expect("created");
    large.set_len(2 << 20).expect("sized");
    std::os::unix::fs::symlink("/dev/zero", data.path().join("link")).expect("linked");
    std::fs::create_dir(data.path().join("folder")).expect("made");
    for (file, reason) in [
        ("/dev/zero", "is not a plain file"),
        ("/dev/urandom", "is not a plain file"),
        ("/dev/null", "is not a plain file"),
        ("link", "is not a plain file"),
        ("folder", "is not a plain file"),
        ("large", "is larger than 1 MiB"),
    ] {
        for (key, text) in [
            ("auth.secret_file", format!("[auth]\nsecret_file = '{file}'")),
            ("lineage.key_file", format!("[lineage]\nkey_file = '{file}'")),
            ("admin.token_file", format!("[admin]\ntoken_file = '{file}'")),
            ("lineage.auditor_tokens_file", format!("[lineage]\nauditor_tokens_file = '{file}'")),
        ] {
            let overrides = Overrides::default().data_dir(data.path().to_owned());
            let Problems(problems) = load_with(&text, &[], overrides).expect_err("a fault");
            assert_eq!(problems.len(), 1, "{problems:?}");
            let said = problems[0].to_string();
            assert!(said.starts_with(&format!("{key}: ")) && said.contains(reason), "{said}");
        }
        let whole = Config::load(Some(&data.path().join(file)), &vars(&[]), Overrides::default());
        assert!(whole.expect_err("a fault").to_string().contains(reason), "{file}");
    }
}

#[test]
fn a_provider_key_on_an_open_listener_is_refused_unless_open_is_written_out() {
    let key = [("OPENAI_API_KEY", "sk-1")];
    for local in ["127.0.0.1:1", "[::1]:1", "127.8.0.1:1"] {
        good(&format!("[server]\nlisten = '{local}'"), &key);
    }
    for exposed in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1"] {
        let text = format!("[server]\nlisten = '{exposed}'\n");
        assert!(fault_with(&text, &key).starts_with("server.listen: must be a loopback address"));
        good(&text, &[]);
        good(&format!("{text}[auth]\nmode = 'open'"), &key);
    }
}

#[test]
fn the_second_look_has_its_model_in_the_data_folder_and_a_deadline() {
    let semantic = good("[semantic]\nencoder = 'minilm'", &[("SIGNET_DATA", "/d")]).semantic;
    assert!(matches!(semantic.encoder, Encoder::MiniLm));
    assert_eq!((semantic.model_dir, semantic.rescore_deadline), ("/d/model".into(), Duration::from_millis(50)));
    let text = "[semantic]\nencoder = 'minilm'\nmodel_dir = '/m'\nrescore_deadline_ms = 9\nsimilarity_min = 0.9";
    let semantic = good(text, &[]).semantic;
    assert_eq!((semantic.model_dir, semantic.rescore_deadline), ("/m".into(), Duration::from_millis(9)));
    assert!((semantic.similarity_min - 0.9).abs() < 1e-6);
    assert!(fault("[semantic]\nrescore_deadline_ms = 0").starts_with("semantic.rescore_deadline_ms: "));
}

#[test]
fn another_encoder_is_an_endpoint_with_its_own_similarity() {
    let text = "[semantic]\nsimilarity_min = 0.8\n[semantic.embedder]\nbase_url = 'http://e/v1'\nmodel = 'm'\ntimeout_ms = 7\napi_key_env = 'K'";
    let semantic = good(text, &[("K", "sk-e")]).semantic;
    let Encoder::Endpoint { base_url, model, api_key, timeout, .. } = semantic.encoder else { panic!("an endpoint") };
    assert_eq!((base_url.as_str(), model.as_str(), timeout), ("http://e/v1", "m", Duration::from_millis(7)));
    assert_eq!(api_key.expect("set").expose(), "sk-e");
}

#[test]
fn every_documented_redis_scheme_is_accepted_and_no_other() {
    for url in [
        "redis://h:1",
        "rediss://h:1",
        "redis+unix:///run/r.sock",
        "unix:///run/r.sock",
        "valkey://h:1",
        "redis-cluster://h:1?node=i:1",
        "redis-sentinel://h:1?sentinelServiceName=m",
    ] {
        assert!(good(&format!("[redis]\nurl = '{url}'"), &[]).redis.is_some(), "{url}");
    }
    assert!(fault("[redis]\nurl = 'http://h'").starts_with("redis.url: is not a URL"));
    assert!(fault("[store]\nurl = 'mysql://h/d'").starts_with("store.url: is not a URL"));
    for url in ["sqlite::memory:", "sqlite://", "sqlite://a.db?mode=ro"] {
        assert!(fault(&format!("[store]\nurl = '{url}'")).starts_with("store.url: is not the path"), "{url}");
    }
}

#[test]
fn relative_paths_start_in_the_data_folder_and_absolute_ones_stay() {
    let text = "[store]\nurl = 'sqlite:///abs/s.db'\n[lineage]\ndir = 'logs'\nkey_file = '/abs/key'";
    let config = good(text, &[("SIGNET_DATA", "/data")]);
    assert!(matches!(&config.store.location, StoreLocation::Sqlite(path) if *path == Path::new("/abs/s.db")));
    assert_eq!(config.lineage.dir, Path::new("/data/logs"));
    assert_eq!(config.lineage.key_file.as_deref(), Some(Path::new("/abs/key")));
}

#[test]
fn a_file_that_cannot_be_read_or_parsed_is_one_fault_with_its_line() {
    let missing = Config::load(Some(Path::new("/nonexistent/signet.toml")), &vars(&[]), Overrides::default());
    assert!(missing.expect_err("a fault").to_string().starts_with("/nonexistent/signet.toml: cannot be read"));
    assert!(fault("[server]\nlisten = ").contains("line 2"));
    assert!(fault("[cache]\nttl_s = 1\nttl_s = 2").contains("line 3"));
    assert!(fault("cache = 3").starts_with("cache: is not a section"));
    assert!(fault("provider = 3").starts_with("provider: is not a list of sections"));
    assert!(fault("[server.listen]\nport = 1").starts_with("server.listen: is a value"));
}

#[test]
fn the_digest_changes_with_settings_and_not_with_secrets() {
    let plain = good("", &[("OPENAI_API_KEY", "sk-1")]).digest();
    assert_eq!(good("", &[("OPENAI_API_KEY", "sk-2")]).digest(), plain);
    assert_ne!(good("", &[]).digest(), plain, "that a key is set decides who pays");
    assert_ne!(good("[cache]\nttl_s = 1", &[("OPENAI_API_KEY", "sk-1")]).digest(), plain);
    let store = |password: &str| good("", &[("SIGNET_STORE__URL", &format!("postgres://u:{password}@h/d"))]).digest();
    assert_eq!(store("a"), store("b"));
    assert_ne!(store("a"), good("", &[]).digest());
}

#[test]
fn an_open_gateway_without_a_key_is_warned_about() {
    assert_eq!(good("[auth]\nmode = 'open'", &[]).warnings.len(), 1);
    assert_eq!(good("[semantic]\njudge = 'm'", &[]).warnings.len(), 1, "nobody's key is there to ask it with");
    assert_eq!(good("[semantic]\njudge = 'm'", &[("OPENAI_API_KEY", "k")]).warnings.len(), 0);
}

proptest! {
    #[test]
    fn no_text_and_no_variable_makes_it_panic(
        text in "(\\[{0,2}[a-z.]{0,9}\\]{0,2}\n|[a-z_]{1,8} ?= ?(\"[ -!#-~]{0,9}\"|[0-9.-]{0,5}|\\[[0-9,]{0,4}\\]|\\{ a = 1 \\})\n){0,6}",
        name in "(SERVER|PROVIDER|MODEL|SEMANTIC|STORE)(__[A-Z0-9_]{0,9}){0,3}",
        value in "[ -~]{0,12}",
    ) {
        drop(load_with(&text, &[(&format!("SIGNET_{name}"), &value)], Overrides::default()));
    }
}

#[test]
fn a_model_may_be_stricter_than_all_and_is_else_like_them() {
    let text = "[semantic]\nmode = 'shadow'\nsimilarity_min = 0.98\n\
        [[provider]]\nname = 'p'\nbase_url = 'http://p/v1'\n\
        [[model]]\nname = 'a'\ntargets = [{ provider = 'p', model = 'n' }]\n\
        [[model]]\nname = 'b'\nsemantic_mode = 'off'\nsimilarity_min = 0.99\nmax_false_share = 0.002\ntargets = [{ provider = 'p', model = 'n' }]";
    let models = good(text, &[]).models;
    let rules = models.iter().map(|model| (model.semantic_mode, model.similarity_min, model.max_false_share));
    let rules: Vec<_> = rules.collect();
    assert_eq!(rules, [(SemanticMode::Shadow, None, 0.01), (SemanticMode::Off, Some(0.99), 0.002)]);
}

#[test]
fn no_question_is_kept_unless_the_operator_says_so() {
    assert_eq!(good("", &[]).semantic.questions, None);
    assert_eq!(good("[semantic]\nquestion_log_share = 0.5", &[]).semantic.questions, None);
    let text = "[semantic]\nquestion_log = 'on'\nquestion_log_share = 0.5\nquestion_log_max_bytes = 2000000\nquestion_log_max_age_s = 60";
    let bounds = Questions { share: 0.5, max_bytes: 2_000_000, max_age: Duration::from_mins(1) };
    assert_eq!(good(text, &[]).semantic.questions, Some(bounds));
}

#[test]
fn auditors_tokens_are_lines_of_a_file_and_short_ones_are_refused() {
    let data = tempfile::TempDir::new().expect("a folder");
    let load = |text: &str| {
        std::fs::write(data.path().join("tokens"), text).expect("a file");
        let file = data.path().join("tokens");
        load_with(&format!("[lineage]\nauditor_tokens_file = '{}'", file.display()), &[], Overrides::default())
    };
    let config = load("# ours\n0123456789abcdef\n\n  fedcba9876543210-x \n").expect("no fault");
    let tokens: Vec<_> = config.lineage.auditor_tokens.iter().map(|token| token.expose().as_str()).collect();
    assert_eq!(tokens, ["0123456789abcdef", "fedcba9876543210-x"]);
    for short in ["0123456789abcde", "0123456789 abcdef 0123"] {
        let said = load(&format!("# ours\n{short}")).expect_err("a fault").to_string();
        assert!(said.contains("auditor_tokens_file: line 2 is not a token") && !said.contains(short), "{said}");
    }
}

#[path = "provider_tests.rs"]
mod providers;
