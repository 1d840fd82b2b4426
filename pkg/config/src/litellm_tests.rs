//! What is taken over, what is named, and that nothing secret is written down.

use super::*;
use crate::{Config, Env, Overrides};
use proptest::prelude::*;
use std::io::Write;

struct AnyKey;

impl Env for AnyKey {
    fn vars(&self) -> Vec<(String, String)> {
        ["OPENAI_API_KEY", "AZURE_KEY", "ANTHROPIC_API_KEY", "PRIVATE_API_KEY"]
            .map(|name| (name.to_owned(), "sk-x".to_owned()))
            .to_vec()
    }
}

/// The text as a configuration of ours, which it must be.
#[track_caller]
fn taken(imported: &Imported) -> Config {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(imported.text.as_bytes()).expect("written");
    Config::load(Some(file.path()), &AnyKey, Overrides::default())
        .unwrap_or_else(|faults| panic!("{faults}\n{}", imported.text))
}

const YAML: &str = r#"
model_list:
  - model_name: gpt
    litellm_params: {model: azure/gpt-4o-eu, api_base: https://eu.openai.azure.com, api_key: os.environ/AZURE_KEY, api_version: "2024-10-21", weight: 3, rpm: 60}
  - model_name: gpt
    litellm_params: {model: azure/gpt-4o-us, api_base: https://us.openai.azure.com, api_key: os.environ/AZURE_KEY, api_version: "2024-10-21"}
    model_info: {id: two}
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet, timeout: 30}
  - model_name: private
    litellm_params: {model: hosted_vllm/llama, api_base: http://10.0.0.1:8000/v1, api_key: sk-very-secret}
  - model_name: cheap
    litellm_params: {model: gpt-4o-mini}
  - model_name: far
    litellm_params: {model: bedrock/titan}
  - model_name: "any/*"
    litellm_params: {model: "openai/*"}
router_settings:
  model_group_alias: {gpt-4: gpt}
  fallbacks: [{gpt: [claude]}]
  num_retries: 2
  routing_strategy: least-busy
general_settings:
  master_key: sk-master-secret
"#;

#[test]
fn models_targets_aliases_fallbacks_and_keys_become_ours() {
    let imported = import_litellm(YAML).expect("YAML");
    let config = taken(&imported);
    let [gpt, ..] = &config.models[..] else { panic!("models") };
    let gpt = config.models.iter().find(|model| model.name.as_str() == "gpt").unwrap_or(gpt);
    let targets: Vec<_> =
        gpt.targets.iter().map(|t| (t.provider.as_str(), t.model.as_str(), t.weight, t.order)).collect();
    assert_eq!(
        targets,
        [("azure", "gpt-4o-eu", 3, 0), ("azure-2", "gpt-4o-us", 1, 0), ("anthropic", "claude-sonnet", 1, 1)]
    );
    assert_eq!(gpt.aliases.iter().map(signet_types::ModelName::as_str).collect::<Vec<_>>(), ["gpt-4"]);
    assert_eq!((gpt.attempts_max, config.models.len(), imported.models), (3, 4, 4));
    let anthropic = config.providers.iter().find(|provider| provider.name.as_str() == "anthropic").expect("there");
    assert_eq!(anthropic.first_byte_timeout.as_secs(), 30);
}

#[test]
fn what_is_not_expressed_is_named_with_its_path_and_no_key_is_written_down() {
    let imported = import_litellm(YAML).expect("YAML");
    let notes = imported.notes.join("\n");
    for told in [
        "model_list[0].litellm_params.rpm: ",
        "model_list[1].model_info: ",
        "model_list[3].litellm_params.api_key: a key is not written down again: set the variable PRIVATE_API_KEY",
        "model_list[5].litellm_params: `bedrock` of far is a kind that is not supported",
        "model_list[6]: is a pattern",
        "router_settings.routing_strategy: ",
        "general_settings.master_key: ",
    ] {
        assert!(notes.contains(told), "{told} in {notes}");
    }
    assert_eq!(imported.notes.len(), 7, "{notes}");
    assert!(!format!("{imported:?}").contains("secret"));
}

#[test]
fn kinds_that_cannot_share_are_asked_one_after_the_other() {
    let yaml = "model_list:\n- {model_name: m, litellm_params: {model: gpt-4o}}\n- {model_name: m, litellm_params: {model: claude-x}}\n";
    let imported = import_litellm(yaml).expect("YAML");
    assert_eq!(taken(&imported).models[0].targets.iter().map(|target| target.order).collect::<Vec<_>>(), [0, 1]);
    assert!(imported.notes[0].starts_with("m: targets at Anthropic and at others cannot share requests"));
}

#[test]
fn openai_and_azure_share_requests() {
    let yaml = "model_list:\n- {model_name: m, litellm_params: {model: gpt-4o}}\n\
                - {model_name: m, litellm_params: {model: azure/x, api_base: 'https://h/openai/v1', api_key: os.environ/AZURE_KEY}}\n";
    let imported = import_litellm(yaml).expect("YAML");
    assert_eq!(taken(&imported).models[0].targets.iter().map(|target| target.order).collect::<Vec<_>>(), [0, 0]);
    assert_eq!(imported.notes, [""; 0]);
}

#[test]
fn an_azure_deployment_whose_version_stands_elsewhere_is_named() {
    let yaml = "model_list: [{model_name: m, litellm_params: {model: azure/x, api_base: 'https://h'}}]";
    let imported = import_litellm(yaml).expect("YAML");
    assert_eq!(imported.notes, ["model_list[0].litellm_params: has no api_version, which has to be added"]);
}

#[test]
fn a_limit_of_tokens_is_taken_over_where_it_means_the_same() {
    let yaml = |limit: &str, model: &str| {
        format!("model_list: [{{model_name: m, litellm_params: {{model: {model}, max_tokens: {limit}}}}}]")
    };
    let imported = import_litellm(&yaml("4096", "claude-x")).expect("YAML");
    assert_eq!(taken(&imported).models[0].max_tokens_default, Some(4096));
    assert_eq!(imported.notes, [""; 0]);
    for (limit, model) in [("4096", "gpt-4o"), ("0", "claude-x"), ("-1", "claude-x"), ("many", "claude-x")] {
        let imported = import_litellm(&yaml(limit, model)).expect("YAML");
        assert_eq!(taken(&imported).models[0].max_tokens_default, None);
        assert_eq!(imported.notes, ["model_list[0].litellm_params.max_tokens: is not expressed"], "{limit} {model}");
    }
}

#[test]
fn what_is_no_configuration_is_refused_or_gives_no_model() {
    assert!(import_litellm("a: [").is_err());
    assert!(import_litellm("- a").is_err());
    assert!(import_litellm("").is_err());
    assert_eq!(import_litellm("x: 1").expect("a mapping").models, 0);
}

#[test]
fn a_deployment_whose_base_cannot_be_written_down_is_left_out_and_asked_nowhere_else() {
    for base in ["os.environ/PRIVATE_BASE", "https://user:pw-secret@h/v1", "https://h/v1?key=q-secret"] {
        let yaml = format!("model_list: [{{model_name: m, litellm_params: {{model: gpt, api_base: '{base}'}}}}]");
        let imported = import_litellm(&yaml).expect("YAML");
        assert_eq!((imported.models, &*imported.text), (0, ""), "{base}");
        assert!(imported.notes[0].starts_with("model_list[0].litellm_params: has an api_base that "), "{imported:?}");
        assert!(!format!("{imported:?}").contains("secret"));
    }
}

#[test]
fn numbers_beyond_reason_overflow_nothing() {
    const MOST: i64 = i64::MAX;
    let yaml = format!(
        "model_list:\n- {{model_name: m, litellm_params: {{model: a, timeout: {MOST}, order: {MOST}}}}}\n\
         - {{model_name: n, litellm_params: {{model: b, timeout: .inf, order: {MOST}}}}}\n\
         router_settings: {{fallbacks: [{{m: [n, n, n]}}]}}\n"
    );
    let imported = import_litellm(&yaml).expect("YAML");
    assert!(imported.models == 2 && !imported.text.contains("first_byte"), "{}", imported.text);
}

#[test]
fn a_second_document_is_not_passed_over_in_silence() {
    assert_eq!(import_litellm("a: 1\n---\nmodel_list: []\n"), Err("not one mapping".to_owned()));
}

proptest! {
    #[test]
    fn any_name_survives_and_no_text_breaks_the_file(name in "[ -~]{1,20}", model in "[a-z\"'\\\\ ]{1,12}") {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let yaml = format!("model_list:\n- model_name: {}\n  litellm_params: {{model: {}}}\n", quoted(&name), quoted(&model));
        if let Ok(imported) = import_litellm(&yaml) && imported.models == 1 {
            let table: toml::Table = imported.text.parse().expect("TOML");
            prop_assert_eq!(table["model"][0]["name"].as_str(), Some(name.as_str()));
        }
    }
}
