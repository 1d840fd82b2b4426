//! A `LiteLLM` proxy configuration as providers and models of ours.
//!
//! The keys are those of its proxy's `config.yaml` as its documentation had them in November 2026. What has no counterpart is
//! named with its path and left out, never guessed; a literal key is never written down again.

use crate::upstream::TOKENS;
use crate::yaml;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use toml::Value;
use yaml_rust2::Yaml;
use yaml_rust2::yaml::Hash;

/// A target's highest `order`, so that those behind it have room.
const ORDER_MAX: u64 = 1 << 20;

/// What could be taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// Sections for our configuration file.
    pub text: String,
    /// What could not be expressed, or needs a look, each with its path.
    pub notes: Vec<String>,
    /// Models in `text`; with none it is of no use.
    pub models: usize,
}

/// Reads a `LiteLLM` configuration.
///
/// # Errors
/// It is not YAML, or not one mapping, or its aliases or its nesting go beyond what a configuration can need.
pub fn import_litellm(yaml: &str) -> Result<Imported, String> {
    let mut documents = yaml::documents(yaml)?.into_iter();
    let (Some(Yaml::Hash(root)), None) = (documents.next(), documents.next()) else {
        return Err("not one mapping".to_owned());
    };
    let mut import = Import::default();
    import.root(&root);
    Ok(import.end())
}

/// One place that models go to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Provider {
    kind: &'static str,
    base_url: Option<String>,
    key_env: Option<String>,
    api_version: Option<String>,
    first_byte_ms: Option<u64>,
}

#[derive(Debug, Clone)]
struct Target {
    provider: usize,
    model: String,
    weight: u64,
    order: u64,
}

#[derive(Default)]
struct Model {
    targets: Vec<Target>,
    aliases: Vec<String>,
    fallbacks: Vec<String>,
    /// The least of what its deployments give.
    max_tokens_default: Option<u64>,
}

/// What is written down of a model.
struct Complete {
    targets: Vec<Target>,
    aliases: Vec<String>,
    max_tokens_default: Option<u64>,
}

#[derive(Default)]
struct Import {
    /// With their names, which the places are found by.
    providers: Vec<(String, Provider)>,
    places: HashMap<Provider, usize>,
    of_kind: BTreeMap<&'static str, usize>,
    models: BTreeMap<String, Model>,
    attempts_max: Option<u64>,
    notes: Vec<String>,
}

impl Import {
    fn note(&mut self, path: &str, why: &str) {
        self.notes.push(format!("{path}: {why}"));
    }

    fn root(&mut self, root: &Hash) {
        for (key, value) in root {
            match (key.as_str().unwrap_or_default(), value) {
                ("model_list", Yaml::Array(entries)) => {
                    for (at, entry) in entries.iter().enumerate() {
                        self.entry(&format!("model_list[{at}]"), entry);
                    }
                }
                (section @ ("router_settings" | "litellm_settings" | "general_settings"), Yaml::Hash(settings)) => {
                    for (key, value) in settings {
                        self.setting(&format!("{section}.{}", shown(key)), key.as_str().unwrap_or_default(), value);
                    }
                }
                _ => self.note(&shown(key), "is not expressed"),
            }
        }
    }

    fn setting(&mut self, path: &str, key: &str, value: &Yaml) {
        match (key, value) {
            ("model_group_alias", Yaml::Hash(aliases)) => {
                for (alias, model) in aliases {
                    match (alias.as_str(), model.as_str()) {
                        (Some(alias), Some(model)) => {
                            self.models.entry(model.to_owned()).or_default().aliases.push(alias.to_owned());
                        }
                        _ => self.note(&format!("{path}.{}", shown(alias)), "is not expressed"),
                    }
                }
            }
            ("fallbacks", Yaml::Array(rules)) => rules.iter().for_each(|rule| self.fallback(path, rule)),
            ("num_retries", Yaml::Integer(retries @ 0..=9)) => self.attempts_max = Some(retries.unsigned_abs() + 1),
            _ => self.note(path, "is not expressed"),
        }
    }

    fn fallback(&mut self, path: &str, rule: &Yaml) {
        for (model, to) in rule.as_hash().into_iter().flatten() {
            let to: Option<Vec<String>> =
                to.as_vec().and_then(|to| to.iter().map(|name| name.as_str().map(str::to_owned)).collect());
            match (model.as_str(), to) {
                (Some(model), Some(to)) if model != "*" => {
                    self.models.entry(model.to_owned()).or_default().fallbacks.extend(to);
                }
                _ => self.note(&format!("{path}.{}", shown(model)), "is not expressed"),
            }
        }
    }

    /// One deployment of a model.
    fn entry(&mut self, path: &str, entry: &Yaml) {
        let Some(name) = entry["model_name"].as_str() else {
            return self.note(path, "has no model_name, and is left out");
        };
        let params = format!("{path}.litellm_params");
        let Some(given) = entry["litellm_params"].as_hash() else {
            return self.note(path, "has no litellm_params, and is left out");
        };
        let Some(model) = entry["litellm_params"]["model"].as_str() else {
            return self.note(&params, "has no model, and is left out");
        };
        if name.contains('*') || model.contains('*') {
            return self.note(path, "is a pattern of names, which is not expressed; it is left out");
        }
        let text = |key: &str| entry["litellm_params"][key].as_str().map(str::to_owned);
        let base = text("api_base").or_else(|| text("base_url"));
        let Some((kind, model)) = kind(model, base.is_some()) else {
            let kind = model.split('/').next().unwrap_or_default();
            let why =
                format!("`{kind}` of {name} is a kind that is not supported, or needs an api_base; it is left out");
            return self.note(&params, &why);
        };
        if kind == "azure" && base.is_none() {
            return self.note(&params, "has no api_base, and is left out");
        }
        let is_v1 = base.as_deref().is_some_and(|base| base.trim_end_matches('/').ends_with("/openai/v1"));
        if kind == "azure" && !is_v1 && text("api_version").is_none() {
            self.note(&params, "has no api_version, which has to be added");
        }
        // Without its base it would be asked somewhere else.
        if let Some(why) = base.as_deref().and_then(unfit) {
            return self.note(&params, &format!("has an api_base that {why}; it is left out"));
        }
        let seconds = |key: &str| match &entry["litellm_params"][key] {
            number @ (Yaml::Integer(_) | Yaml::Real(_)) => number_of(number).and_then(millis),
            _ => None,
        };
        let provider = Provider {
            kind,
            key_env: self.key(&params, name, text("api_key"), kind, base.is_some()),
            base_url: base,
            api_version: text("api_version").filter(|_| kind == "azure"),
            first_byte_ms: seconds("timeout").filter(|ms| *ms > 0),
        };
        self.unexpressed(path, &params, entry, given, kind);
        let number = |key: &str| entry["litellm_params"][key].as_i64().and_then(|number| u64::try_from(number).ok());
        let target = Target {
            provider: self.provider(provider),
            model: model.to_owned(),
            weight: number("weight").filter(|weight| *weight > 0).unwrap_or(1),
            order: number("order").unwrap_or(0).min(ORDER_MAX),
        };
        let model = self.models.entry(name.to_owned()).or_default();
        model.targets.push(target);
        let limit = number("max_tokens").filter(|_| takes_limit(kind, given));
        model.max_tokens_default = model.max_tokens_default.into_iter().chain(limit).min();
    }

    fn unexpressed(&mut self, path: &str, params: &str, entry: &Yaml, given: &Hash, kind: &str) {
        const KNOWN: [&str; 7] = ["model", "api_base", "base_url", "api_key", "timeout", "weight", "order"];
        for key in given.keys() {
            let name = key.as_str().unwrap_or_default();
            let known = match name {
                "api_version" => kind == "azure",
                "max_tokens" => takes_limit(kind, given),
                _ => KNOWN.contains(&name),
            };
            let from_env = given[key].as_str().is_some_and(|text| name != "api_key" && text.starts_with("os.environ/"));
            if !known || from_env {
                self.note(&format!("{params}.{}", shown(key)), "is not expressed");
            }
        }
        for key in entry.as_hash().into_iter().flat_map(Hash::keys) {
            if !matches!(key.as_str(), Some("model_name" | "litellm_params")) {
                self.note(&format!("{path}.{}", shown(key)), "is not expressed");
            }
        }
    }

    /// The variable that holds the key.
    fn key(&mut self, params: &str, model: &str, key: Option<String>, kind: &str, elsewhere: bool) -> Option<String> {
        let Some(key) = key else {
            let usual = match kind {
                "azure" => "AZURE_API_KEY",
                "anthropic" => "ANTHROPIC_API_KEY",
                _ => "OPENAI_API_KEY",
            };
            return (kind == "azure" || !elsewhere).then(|| usual.to_owned());
        };
        if let Some(variable) = key.strip_prefix("os.environ/") {
            return Some(variable.to_owned());
        }
        let upper = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let variable = format!("{}_API_KEY", model.chars().map(upper).collect::<String>());
        self.note(
            &format!("{params}.api_key"),
            &format!("a key is not written down again: set the variable {variable}"),
        );
        Some(variable)
    }

    /// The place of this provider, which may be known already.
    fn provider(&mut self, provider: Provider) -> usize {
        if let Some(known) = self.places.get(&provider) {
            return *known;
        }
        let of_kind = self.of_kind.entry(provider.kind).or_default();
        *of_kind += 1;
        let name = if *of_kind == 1 { provider.kind.to_owned() } else { format!("{}-{}", provider.kind, *of_kind) };
        let place = self.providers.len();
        self.places.insert(provider.clone(), place);
        self.providers.push((name, provider));
        place
    }

    /// Models with all their targets, those they fall back to last.
    fn complete(&mut self) -> BTreeMap<String, Complete> {
        let mut found = BTreeMap::new();
        let mut notes = Vec::new();
        let mut taken: BTreeSet<&String> = self.models.keys().collect();
        for (name, model) in &self.models {
            if model.targets.is_empty() {
                notes.push(format!("{name}: aliases and fallbacks of a model that is not there are left out"));
                continue;
            }
            let mut targets = model.targets.clone();
            self.part_kinds(name, &mut targets, &mut notes);
            for other in &model.fallbacks {
                let known = self.models.get(other).map(|other| other.targets.clone()).unwrap_or_default();
                if known.is_empty() {
                    notes.push(format!("{name}: its fallback {other} is not there"));
                }
                let mut known = known;
                self.part_kinds(other, &mut known, &mut notes);
                let after = targets.iter().map(|target| target.order + 1).max().unwrap_or(0);
                targets.extend(known.into_iter().map(|target| Target { order: target.order + after, ..target }));
            }
            let aliases = model.aliases.iter().filter(|alias| taken.insert(alias)).cloned().collect();
            let max_tokens_default = model.max_tokens_default;
            found.insert(name.clone(), Complete { targets, aliases, max_tokens_default });
        }
        self.notes.extend(notes);
        found
    }

    /// Targets that share requests have to speak the same API, as those of OpenAI and Azure do.
    fn part_kinds(&self, name: &str, targets: &mut [Target], notes: &mut Vec<String>) {
        let vendor = |target: &Target| self.providers[target.provider].1.kind == "anthropic";
        let mixed = targets.iter().any(|a| targets.iter().any(|b| a.order == b.order && vendor(a) != vendor(b)));
        if mixed {
            notes.push(format!(
                "{name}: targets at Anthropic and at others cannot share requests; they are asked one after the other"
            ));
            targets.sort_by_key(|target| target.order);
            for (at, target) in targets.iter_mut().enumerate() {
                target.order = at as u64;
            }
        }
    }

    fn end(mut self) -> Imported {
        let models = self.complete();
        let mut text = String::new();
        for (name, provider) in &self.providers {
            provider.write(name, &mut text);
        }
        for (name, Complete { targets, aliases, max_tokens_default }) in &models {
            write_line(&mut text, "[[model]]");
            write_line(&mut text, &format!("name = {}", quoted(name)));
            if !aliases.is_empty() {
                let aliases: Vec<String> = aliases.iter().map(|alias| quoted(alias)).collect();
                write_line(&mut text, &format!("aliases = [{}]", aliases.join(", ")));
            }
            if let Some(attempts) = self.attempts_max {
                write_line(&mut text, &format!("attempts_max = {attempts}"));
            }
            if let Some(limit) = max_tokens_default {
                write_line(&mut text, &format!("max_tokens_default = {limit}"));
            }
            write_line(&mut text, "targets = [");
            for target in targets {
                let (provider, model) = (quoted(&self.providers[target.provider].0), quoted(&target.model));
                let (weight, order) = (target.weight, target.order);
                write_line(
                    &mut text,
                    &format!("  {{ provider = {provider}, model = {model}, weight = {weight}, order = {order} }},"),
                );
            }
            write_line(&mut text, "]\n");
        }
        Imported { text, notes: self.notes, models: models.len() }
    }
}

impl Provider {
    fn write(&self, name: &str, text: &mut String) {
        write_line(text, "[[provider]]");
        let first_byte = self.first_byte_ms.map(|ms| ms.to_string());
        let quoted_one = |value: &Option<String>| value.as_deref().map(quoted);
        for (key, value) in [
            ("name", Some(quoted(name))),
            ("kind", Some(quoted(self.kind))),
            ("base_url", quoted_one(&self.base_url)),
            ("api_key_env", quoted_one(&self.key_env)),
            ("api_version", quoted_one(&self.api_version)),
            ("first_byte_timeout_ms", first_byte),
        ] {
            if let Some(value) = value {
                write_line(text, &format!("{key} = {value}"));
            }
        }
        text.push('\n');
    }
}

/// Our kind for a model's name there, and the name without its prefix.
fn kind(model: &str, has_base: bool) -> Option<(&'static str, &str)> {
    match model.split_once('/') {
        Some(("openai", rest)) => Some(("openai", rest)),
        Some(("azure", rest)) => Some(("azure", rest)),
        Some(("anthropic", rest)) => Some(("anthropic", rest)),
        None if model.starts_with("claude") => Some(("anthropic", model)),
        None => Some(("openai", model)),
        // Servers of other names that speak OpenAI's API, where they are said to be at a place of their own.
        Some(("hosted_vllm" | "litellm_proxy" | "lm_studio" | "openai_like" | "custom_openai", rest)) if has_base => {
            Some(("openai", rest))
        }
        Some(_) => None,
    }
}

/// Whether the limit that a deployment gives is one of ours: it stands where a caller gives none, and only Anthropic's API
/// has to have one.
fn takes_limit(kind: &str, given: &Hash) -> bool {
    let limit = given.get(&Yaml::String("max_tokens".to_owned())).and_then(Yaml::as_i64);
    kind == "anthropic"
        && limit.and_then(|limit| u64::try_from(limit).ok()).is_some_and(|limit| TOKENS.contains(&limit))
}

/// Why a base cannot be written down.
fn unfit(base: &str) -> Option<&'static str> {
    let (_, rest) = base.split_once("://").unwrap_or(("", base));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    match base {
        _ if base.starts_with("os.environ/") => Some("stands in a variable, which is not expressed"),
        _ if authority.contains('@') || base.contains('?') => {
            Some("may hold a credential, which is not written down again")
        }
        _ => None,
    }
}

fn number_of(value: &Yaml) -> Option<f64> {
    match value {
        Yaml::Integer(whole) => u32::try_from(*whole).ok().map(f64::from),
        other => other.as_f64(),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked to be within a day")]
fn millis(seconds: f64) -> Option<u64> {
    (0.0..86_400.0).contains(&seconds).then(|| (seconds * 1000.0).round() as u64)
}

fn shown(key: &Yaml) -> String {
    key.as_str().map_or_else(|| "a key that is no text".to_owned(), str::to_owned)
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

fn write_line(text: &mut String, line: &str) {
    writeln!(text, "{line}").expect("a text takes all");
}

#[cfg(test)]
#[path = "litellm_tests.rs"]
mod tests;
