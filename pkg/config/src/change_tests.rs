//! What a running process can take of a new configuration.

use crate::{Config, Env, Overrides};
use proptest::prelude::*;
use std::io::Write;
use tempfile::NamedTempFile;

struct Vars(Vec<(String, String)>);

impl Env for Vars {
    fn vars(&self) -> Vec<(String, String)> {
        self.0.clone()
    }
}

fn good(text: &str, pairs: &[(&str, &str)]) -> Config {
    let vars = pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut file = NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    Config::load(Some(file.path()), &Vars(vars), Overrides::default()).expect("no fault")
}

const RUNNING: &str = "[[provider]]\nname = 'a'\nbase_url = 'http://a'\napi_key_env = 'A'\n\
                       [[provider]]\nname = 'b'\nbase_url = 'http://b'\n\
                       [[model]]\nname = 'm'\ntargets = [{ provider = 'a', model = 'm' }]\n";

/// What stands against taking `text` with the key `key` while [`RUNNING`] runs.
fn against(text: &str, key: &str) -> Vec<String> {
    good(text, &[("A", key)]).needs_restart(&good(RUNNING, &[("A", "one")]))
}

#[test]
fn providers_models_and_their_keys_can_change_without_a_restart() {
    for text in [
        RUNNING.replace("http://a", "http://other"),
        RUNNING.replace("'b'", "'c'"),
        RUNNING.replace("model = 'm' }]", "model = 'n' }]\naliases = ['x']"),
        format!(
            "{RUNNING}[[model]]\nname = 'n'\ntargets = [{{ provider = 'b', model = 'm' }}]\nsemantic_mode = 'on'\n"
        ),
        RUNNING.replace("[[model]]\nname = 'm'", "[[model]]\nname = 'n'"),
        RUNNING.replace("name = 'm'", "name = 'm'\nsimilarity_min = 0.99"),
        RUNNING.replace("name = 'm'", "name = 'm'\nsemantic_mode = 'off'"),
        format!(
            "{RUNNING}[[model]]\nname = 'n'\ntargets = [{{ provider = 'a', model = 'm' }}]\nsemantic_mode = 'shadow'\n"
        ),
    ] {
        assert_eq!(against(&text, "two"), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn all_else_needs_one_and_secrets_are_compared_too() {
    let with = |more: &str| format!("{RUNNING}{more}");
    for (text, told) in [
        (with("[cache]\nttl_s = 7\n[limits]\nip_rps = 1\n"), &["cache.ttl_s", "limits.ip_rps"][..]),
        (with("[server]\ntls_cert_file = 'c'\ntls_key_file = 'k'\n"), &["server.tls_cert_file", "server.tls_key_file"]),
        (with("[admin]\ntoken_env = 'A'\n"), &["admin.token", "admin.token_env"]),
        (RUNNING.replace("name = 'm'", "name = 'm'\nmax_false_share = 0.005"), &["max_false_share of the model m"]),
        (
            with("[[model]]\nname = 'n'\ntargets = [{ provider = 'a', model = 'm' }]\nmax_false_share = 0.005\n"),
            &["max_false_share of the model n"],
        ),
        (
            RUNNING.replace("api_key_env = 'A'\n", ""),
            &["provider.*.api_key (the first or last key changes who callers are)"],
        ),
    ] {
        assert_eq!(against(&text, "one"), told, "{text}");
    }
    let token = |value: &str| good("[admin]\ntoken_env = 'T'\n", &[("T", value)]);
    assert_eq!(token("0123456789abcdef-1").needs_restart(&token("0123456789abcdef-2")), ["admin.token"]);
}

#[test]
fn a_providers_print_follows_all_that_reaches_it_wherever_it_stands() {
    let print = |text: &str, key: &str, at| good(text, &[("A", key)]).provider_print(at);
    let (first, second) = (print(RUNNING, "one", 0), print(RUNNING, "one", 1));
    assert_ne!(first, second);
    assert_ne!(first, print(RUNNING, "two", 0), "another key");
    assert_eq!(second, print(RUNNING, "two", 1), "of the other");
    assert_ne!(second, print(&RUNNING.replace("'http://b'", "'http://b'\nconnect_timeout_ms = 1"), "one", 1));
    let turned = RUNNING
        .replace("name = 'a'", "name = 'x'")
        .replace("name = 'b'", "name = 'a'")
        .replace("name = 'x'", "name = 'b'");
    let turned = turned.replace("http://a", "http://x").replace("http://b", "http://a").replace("http://x", "http://b");
    let turned = turned.replace("api_key_env = 'A'\n", "").replace("'http://a'\n", "'http://a'\napi_key_env = 'A'\n");
    assert_eq!((print(&turned, "one", 1), print(&turned, "one", 0)), (first, second), "{turned}");
}

proptest! {
    /// Whatever the values, a configuration can take itself.
    #[test]
    fn a_configuration_stands_against_nothing_in_itself(ttl in 1u64..100, mode in "on|shadow|off", key in "[a-z]{1,8}") {
        let text = format!("{RUNNING}[cache]\nttl_s = {ttl}\n[semantic]\nmode = '{mode}'\n");
        let config = good(&text, &[("A", &key)]);
        prop_assert!(config.needs_restart(&config).is_empty());
    }
}
