//! `[[provider]]` and `[[model]]`.

use crate::load::{DAY_MS, FALSE_SHARES, SEMANTIC_MODES};
use crate::section::Section;
use crate::settings::{Lineage, Model, Provider, Semantic, SemanticMode, Target, Way};
use crate::tree::{Leaf, Source};
use crate::urls::{base_url, proxy_url};
use ipnet::IpNet;
use signet_dialect::Api;
use signet_dialect::kinds::{Anthropic, Azure, Kind, NoApiVersion, OpenAi, is_never_forwarded};
use signet_types::{ModelName, ProviderName, Secret};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use toml::Value;
use url::{Host, Url};

const PUBLIC_BASE_URL: &str = "https://api.openai.com/v1";
/// The variable of a vendor's own key. It alone may be unset; callers' own keys are then passed on.
const USUAL_KEY: &str = "OPENAI_API_KEY";
const USUAL_URL: &str = "OPENAI_BASE_URL";
pub(crate) const TOKENS: RangeInclusive<u64> = 1..=10_000_000;
const ATTEMPTS: RangeInclusive<u64> = 1..=10;
/// A caller holds a connection meanwhile.
const RETRY_WAIT_MAX_MS: u64 = 300_000;
const WEIGHTS: RangeInclusive<u64> = 1..=1_000_000;
const ORDERS: RangeInclusive<u64> = 0..=1_000_000;

/// The providers; without any, the usual variables of OpenAI's SDKs make one.
pub(crate) fn providers(root: &mut Section<'_>) -> Vec<Provider> {
    let mut sections = root.list("provider");
    if sections.is_empty() {
        sections.push(usual_provider(root));
    }
    let mut names = BTreeSet::new();
    let providers = sections.into_iter().filter_map(|section| provider(section, &mut names));
    providers.collect()
}

fn usual_provider<'r>(root: &Section<'r>) -> Section<'r> {
    let mut section = root.item_zero("provider");
    section.put_default("name", "name", "openai");
    section.put_default("api_key_env", "api_key_file", USUAL_KEY);
    if let Some(url) = root.reader.env.get(USUAL_URL) {
        section.put("base_url", Leaf { value: Value::String(url), source: Source::Env(USUAL_URL.to_owned()) });
    }
    section
}

fn provider(mut section: Section<'_>, names: &mut BTreeSet<ProviderName>) -> Option<Provider> {
    let name: Option<ProviderName> = section.name("name");
    if let Some(name) = &name
        && !names.insert(name.clone())
    {
        section.fault("name", "is the name of another provider too");
    }
    let vendor = vendor(&mut section);
    if let Some(url) = vendor.base_url() {
        section.put_default("base_url", "base_url", url);
    }
    let base_url = base_url(&mut section, "base_url");
    let kind = base_url.as_ref().and_then(|url| kind(&mut section, vendor, url.path()));
    // A vendor's key goes to that vendor only, unless it was named for another place.
    let usual = vendor.usual_key();
    let same = |usual: &str| base_url.as_ref().is_some_and(|url| url.as_str().trim_end_matches('/') == usual);
    if let Some(usual) = usual.filter(|_| vendor.base_url().is_some_and(same)) {
        section.put_default("api_key_env", "api_key_file", usual);
    }
    let api_key = section.secret("api_key", usual);
    check_key(&section, api_key.as_ref());
    let apis = apis(&mut section);
    let forward_headers = forward_headers(&mut section);
    let headers = static_headers(&mut section);
    let timeout =
        |section: &mut Section<'_>, key: &str, default| Duration::from_millis(section.number(key, default, 1..=DAY_MS));
    let connect_timeout = timeout(&mut section, "connect_timeout_ms", 5_000);
    let first_byte_timeout = timeout(&mut section, "first_byte_timeout_ms", 600_000);
    let idle_timeout = timeout(&mut section, "idle_timeout_ms", 120_000);
    let total_timeout = timeout(&mut section, "total_timeout_ms", 1_800_000);
    if connect_timeout.max(first_byte_timeout).max(idle_timeout) > total_timeout {
        section.fault("total_timeout_ms", "is under one of the provider's other timeouts");
    }
    let inject_usage = section.flag("inject_usage", true);
    let connection_age_max = Duration::from_secs(section.number("connection_age_max_s", 600, 1..=86_400));
    let pool_idle = timeout(&mut section, "pool_idle_ms", 50_000);
    let client_auth = client_auth(&mut section);
    let way = way(&mut section, base_url.as_ref());
    section.end();
    Some(Provider {
        name: name?,
        kind: kind?,
        apis,
        forward_headers,
        headers,
        base_url: base_url?,
        api_key,
        client_auth,
        way,
        connection_age_max,
        pool_idle,
        connect_timeout,
        first_byte_timeout,
        idle_timeout,
        total_timeout,
        inject_usage,
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vendor {
    OpenAi,
    Azure,
    Anthropic,
}

impl Vendor {
    fn base_url(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some(PUBLIC_BASE_URL),
            Self::Anthropic => Some("https://api.anthropic.com"),
            Self::Azure => None, // each resource has its own
        }
    }

    fn usual_key(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some(USUAL_KEY),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Azure => None,
        }
    }
}

fn vendor(section: &mut Section<'_>) -> Vendor {
    if let Some(kind @ ("bedrock" | "vertex")) = section.peek("kind").and_then(Value::as_str) {
        section.fault("kind", format!("{kind:?} is not supported"));
        section.take("kind");
    }
    let kinds = [
        ("openai", Some(Vendor::OpenAi)),
        ("azure", Some(Vendor::Azure)),
        ("anthropic", Some(Vendor::Anthropic)),
        ("gemini", None),
        ("cohere", None),
    ];
    section.choice("kind", &kinds)
}

fn kind(section: &mut Section<'_>, vendor: Vendor, base_path: &str) -> Option<Arc<dyn Kind>> {
    let version = if vendor == Vendor::Azure { section.text("api_version") } else { None };
    if let Some(version) = &version {
        section.reader.holds(&section.at("api_version"), version);
    }
    match vendor {
        Vendor::OpenAi => Some(Arc::new(OpenAi)),
        Vendor::Anthropic => Some(Arc::new(Anthropic::new(base_path))),
        Vendor::Azure => {
            let made = Azure::new(base_path, version.as_deref());
            if made == Err(NoApiVersion) {
                section.fault("api_version", "must be set for a base_url that does not end in /openai/v1");
            }
            made.ok().map(|kind| Arc::new(kind) as Arc<dyn Kind>)
        }
    }
}

/// The content of the file that `key` names, if it is set.
fn pem_file(section: &mut Section<'_>, key: &str) -> Option<Secret<String>> {
    let path = section.text(key)?;
    section.reader.holds(&section.at(key), &path);
    section.secret_file(key, &path)
}

fn client_auth(section: &mut Section<'_>) -> Option<(String, Secret<String>)> {
    let both = section.has("client_cert_file") == section.has("client_key_file");
    let (cert, key) = (pem_file(section, "client_cert_file"), pem_file(section, "client_key_file"));
    if !both {
        section.fault("client_cert_file", "goes together with client_key_file");
    }
    Some((cert?.expose().clone(), key?))
}

/// `ca_file`, `proxy_url` and `no_proxy`.
pub(crate) fn way(section: &mut Section<'_>, base_url: Option<&Url>) -> Way {
    let ca_pem = pem_file(section, "ca_file").map(|pem| pem.expose().clone());
    Way { ca_pem, proxy_url: proxy(section, base_url) }
}

/// The proxy, unless `no_proxy` exempts the provider's host from it.
fn proxy(section: &mut Section<'_>, base_url: Option<&Url>) -> Option<Secret<String>> {
    let url = proxy_url(section);
    if !section.has("no_proxy") {
        return url;
    }
    let exempt: Vec<String> = section.parsed_list("no_proxy", "a list of hosts, domains and networks");
    url.filter(|_| !base_url.is_some_and(|url| is_exempt(url, &exempt)))
}

/// As `NO_PROXY` is usually read: `*`, a network, an address, or a domain with all below it.
fn is_exempt(url: &Url, exempt: &[String]) -> bool {
    let address = match url.host() {
        Some(Host::Ipv4(ip)) => Some(IpAddr::V4(ip)),
        Some(Host::Ipv6(ip)) => Some(IpAddr::V6(ip)),
        _ => None,
    };
    let host = url.host_str().unwrap_or_default();
    let below = |domain: &str| host == domain || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
    exempt.iter().any(|entry| match address {
        _ if entry == "*" => true,
        Some(ip) => {
            entry.parse::<IpNet>().is_ok_and(|net| net.contains(&ip))
                || entry.parse::<IpAddr>().is_ok_and(|one| one == ip)
        }
        None => below(entry.trim_start_matches('.').to_ascii_lowercase().as_str()),
    })
}

/// The APIs that the provider has, where that is not what its kind has.
fn apis(section: &mut Section<'_>) -> Option<Vec<Api>> {
    if !section.has("apis") {
        return None;
    }
    let names: Vec<String> = section.parsed_list("apis", "a list of names of APIs");
    let known = |name: &String| Api::ALL.into_iter().find(|api| api.name() == name);
    if names.is_empty() || !names.iter().all(|name| known(name).is_some()) {
        let known: Vec<&str> = Api::ALL.iter().map(|api| api.name()).collect();
        section.fault("apis", format!("is not a list of some of: {}", known.join(", ")));
    }
    Some(names.iter().filter_map(known).collect())
}

fn forward_headers(section: &mut Section<'_>) -> Vec<String> {
    if !section.has("forward_headers") {
        return Vec::new();
    }
    let mut names: Vec<String> = section.parsed_list("forward_headers", "a list of names of headers");
    for name in &mut names {
        name.make_ascii_lowercase();
        if !is_header_name(name) || is_never_forwarded(name) {
            section.fault("forward_headers", format!("{name:?} is not a header that can pass to a provider"));
        }
    }
    names
}

/// `[provider.headers]`: texts, or `<name>_env` and `<name>_file` for what is secret.
fn static_headers(section: &mut Section<'_>) -> Vec<(String, Secret<String>)> {
    let mut headers = section.section("headers");
    let stem = |key: &str| key.strip_suffix("_env").or(key.strip_suffix("_file")).unwrap_or(key).to_owned();
    let names: BTreeSet<String> = headers.keys().map(stem).collect();
    let mut found = Vec::new();
    for name in names {
        let lower = name.to_ascii_lowercase();
        if !is_header_name(&lower) || is_never_forwarded(&lower) {
            headers.fault(&name, "is not a header that can be set for a provider");
            for key in [name.clone(), format!("{name}_env"), format!("{name}_file")] {
                headers.take(&key);
            }
            continue;
        }
        let value = if headers.has(&name) && !is_secret(&lower) {
            let text = headers.text(&name).unwrap_or_default();
            headers.reader.holds(&headers.at(&name), &text);
            Some(Secret::new(text))
        } else {
            headers.secret(&name, None)
        };
        if value.as_ref().is_some_and(|value| !value.expose().bytes().all(|byte| matches!(byte, b' '..=b'~'))) {
            headers.fault(&name, "holds a character that cannot stand in a header");
        }
        found.extend(value.map(|value| (lower, value)));
    }
    headers.end();
    found
}

fn is_header_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_".contains(&byte))
}

/// Whether a header of this name holds a credential, which must not stand in the file.
fn is_secret(name: &str) -> bool {
    ["key", "token", "secret", "auth", "password", "credential", "signature"].iter().any(|word| name.contains(word))
}

/// A key goes into a header, so a stray line end must be found here and not at the first request.
pub(crate) fn check_key(section: &Section<'_>, key: Option<&Secret<String>>) {
    if key.is_some_and(|key| !key.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
        section.fault("api_key", "holds a character that cannot stand in a header");
    }
}

/// The models, whose targets name `providers`.
pub(crate) fn models(
    root: &mut Section<'_>,
    providers: &[Provider],
    semantic: &Semantic,
    lineage: &Lineage,
) -> Vec<Model> {
    let mut names = BTreeSet::new();
    let mut models = Vec::new();
    for mut section in root.list("model") {
        let name: Option<ModelName> = section.name("name");
        if name.as_ref().is_some_and(|name| !names.insert(name.clone())) {
            section.fault("name", "is the name of another model too");
        }
        let aliases: Vec<ModelName> =
            section.parsed_list("aliases", "a list of names of 1 to 256 printable characters");
        for alias in &aliases {
            if !names.insert(alias.clone()) {
                section.fault("aliases", format!("hold {alias}, which is the name of another model too"));
            }
        }
        let targets = section.list("targets");
        if targets.is_empty() {
            section.fault("targets", "must name at least one provider and model");
        }
        let places = (0..).zip(targets);
        let targets: Vec<Target> = places.filter_map(|(place, section)| target(section, place, providers)).collect();
        check_tiers(&section, &targets, providers);
        let attempts_max = u32_of(&mut section, "attempts_max", 3, ATTEMPTS);
        let retry_wait_max = Duration::from_millis(section.number("retry_wait_max_ms", 10_000, 0..=RETRY_WAIT_MAX_MS));
        let max_tokens_default =
            section.has("max_tokens_default").then(|| u32_of(&mut section, "max_tokens_default", 1, TOKENS));
        let (semantic_mode, similarity_min, max_false_share) = rules(&mut section, semantic);
        let capture = section.choice("capture", &[("off", Some(false)), ("sealed", Some(true))]);
        if capture && lineage.break_glass_key_file.is_none() {
            section.fault("capture", "is \"sealed\", which needs lineage.break_glass_key_file");
        }
        section.end();
        models.extend(name.map(|name| Model {
            name,
            aliases,
            targets,
            attempts_max,
            retry_wait_max,
            max_tokens_default,
            semantic_mode,
            similarity_min,
            max_false_share,
            capture,
        }));
    }
    models
}

/// A model's own semantic mode, floor and bound. They can only be stricter than those for all, so that one look at `[semantic]` tells
/// the most that any route allows.
fn rules(section: &mut Section<'_>, all: &Semantic) -> (SemanticMode, Option<f32>, f64) {
    let mode = if section.has("semantic_mode") { section.choice("semantic_mode", &SEMANTIC_MODES) } else { all.mode };
    if mode > all.mode {
        section.fault("semantic_mode", "is less strict than semantic.mode");
    }
    let floor = section.share("similarity_min");
    if floor.is_some_and(|floor| floor < all.similarity_min) {
        section.fault("similarity_min", "is under semantic.similarity_min");
    }
    let bound = if section.has("max_false_share") {
        section.real("max_false_share", all.max_false_share, FALSE_SHARES)
    } else {
        all.max_false_share
    };
    if bound > all.max_false_share {
        section.fault("max_false_share", "is over semantic.max_false_share");
    }
    (mode, floor, bound)
}

/// Answers of one order are stored as those of one another: they have to come from the same kind of provider.
fn check_tiers(section: &Section<'_>, targets: &[Target], providers: &[Provider]) {
    let vendor = |target: &Target| {
        let provider = providers.iter().find(|provider| provider.name == target.provider);
        provider.map(|provider| provider.kind.speaks(Api::Messages))
    };
    let mixed = |(at, target): (usize, &Target)| {
        targets[..at].iter().any(|other| other.order == target.order && vendor(other) != vendor(target))
    };
    if targets.iter().enumerate().any(mixed) {
        section.fault("targets", "of one order must all be at openai and azure providers, or all at anthropic ones");
    }
}

fn u32_of(section: &mut Section<'_>, key: &str, default: u64, range: RangeInclusive<u64>) -> u32 {
    u32::try_from(section.number(key, default, range)).expect("the range is within 32 bits")
}

/// A target, which is the `place`th of its list.
fn target(mut section: Section<'_>, place: u64, providers: &[Provider]) -> Option<Target> {
    let provider: Option<ProviderName> = section.name("provider");
    if let Some(name) = &provider
        && providers.iter().all(|provider| provider.name != *name)
    {
        section.fault("provider", "is not the name of a [[provider]] without faults");
    }
    let model = section.name("model");
    let weight = u32_of(&mut section, "weight", 1, WEIGHTS);
    let order = u32_of(&mut section, "order", place, ORDERS);
    section.end();
    Some(Target { provider: provider?, model: model?, weight, order })
}
