//! From file, environment and flags to a [`Config`].

use crate::env::Env;
use crate::problem::{Problem, Problems};
use crate::reader::{Found, Reader};
use crate::section::Section;
use crate::server::server;
use crate::settings::{
    Admin, AnchorPlace, Auth, AuthMode, Backend, Cache, Config, Encoder, Limits, Lineage, LineageMode, Model, OnFull,
    Provider, Questions, Semantic, SemanticMode, Server, Store, StoreLocation,
};
use crate::tree::{Leaf, Node, Source};
use crate::upstream::{check_key, models, providers, way};
use crate::urls::{base_url, direct_url, redis, store_location};
use signet_types::{ModelName, Secret};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Value;

const PREFIX: &str = "SIGNET_";
/// Separates the parts of a setting's path in a variable's name. Names without it are not settings.
const SEPARATOR: &str = "__";
const DATA_VARIABLE: &str = "SIGNET_DATA";
const ADMIN_VARIABLE: &str = "SIGNET_ADMIN_TOKEN";
const DEFAULT_DATA: &str = "./signet-data";

pub(crate) const DAY_S: u64 = 86_400;
pub(crate) const DAY_MS: u64 = 1_000 * DAY_S;
const YEAR_S: u64 = 366 * DAY_S;
const MIB: u64 = 1 << 20;
pub(crate) const GIB: u64 = 1 << 30;
/// The widest bound for sizes on disk and in memory.
const PIB: u64 = 1 << 50;
/// Similarity that the embedded encoder was measured to need.
const EMBEDDED_SIMILARITY: f32 = 0.97;
/// The same for all-MiniLM-L6-v2 behind it.
const MINILM_SIMILARITY: f32 = 0.97;

/// What was given on the command line; it stands over everything else.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    data_dir: Option<PathBuf>,
    values: Vec<(String, String)>,
}

impl Overrides {
    /// Sets the data folder.
    #[must_use]
    pub fn data_dir(mut self, path: PathBuf) -> Self {
        self.data_dir = Some(path);
        self
    }

    /// Sets a setting by its path: `server.listen`.
    #[must_use]
    pub fn set(mut self, key: &str, value: impl Into<String>) -> Self {
        self.values.push((key.to_owned(), value.into()));
        self
    }
}

impl Config {
    /// Reads the file, if there is one, the environment over it and the flags over both.
    ///
    /// # Errors
    /// Every fault found, with its key.
    pub fn load(path: Option<&Path>, env: &dyn Env, overrides: Overrides) -> Result<Self, Problems> {
        let data_dir = overrides.data_dir.or_else(|| env.get(DATA_VARIABLE).map(PathBuf::from));
        let reader = Reader::new(env, data_dir.unwrap_or_else(|| DEFAULT_DATA.into()));
        let mut tree = path.map_or_else(|| Ok(toml::Table::new().into()), read_file)?;
        set_from_env(&reader, &mut tree);
        for (key, text) in overrides.values {
            let path: Vec<&str> = key.split('.').collect();
            set(&reader, &mut tree, &path, Leaf { value: Value::String(text), source: Source::Flag });
        }
        judge(reader, tree)
    }
}

fn read_file(path: &Path) -> Result<Node, Problems> {
    let fault = |reason| Problems(vec![Problem { key: path.display().to_string(), reason, variable: None }]);
    let text = crate::file::read_text(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let table = text.parse::<toml::Table>().map_err(|error| {
        // The parser's own display quotes the line, which may hold a secret.
        let line =
            1 + error.span().map_or(0, |span| text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
        fault(format!("line {line}: {}", error.message()))
    })?;
    Ok(table.into())
}

fn set_from_env(reader: &Reader<'_>, tree: &mut Node) {
    let mut settings: Vec<(Vec<String>, String, String)> = Vec::new();
    for (name, value) in reader.env.vars() {
        if let Some(path) = name.strip_prefix(PREFIX).filter(|path| path.contains(SEPARATOR)) {
            let path = path.split(SEPARATOR).map(str::to_ascii_lowercase).collect();
            settings.push((path, name, value));
        }
    }
    // List items in the order of their numbers: a list grows one by one.
    settings.sort_by_cached_key(|(path, ..)| {
        path.iter().map(|part| (part.parse::<usize>().ok(), part.clone())).collect::<Vec<_>>()
    });
    for (path, name, value) in settings {
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        set(reader, tree, &path, Leaf { value: Value::String(value), source: Source::Env(name) });
    }
}

fn set(reader: &Reader<'_>, tree: &mut Node, path: &[&str], leaf: Leaf) {
    let source = leaf.source.clone();
    if let Err(reason) = tree.set(path, leaf) {
        reader.fault(&path.join("."), reason, Some(&source));
    }
}

fn judge(reader: Reader<'_>, tree: Node) -> Result<Config, Problems> {
    let mut root = Section::root(&reader, tree);
    let server = server(root.section("server"));
    let admin = admin(root.section("admin"), server.listen);
    let auth = auth(root.section("auth"));
    let store = store(root.section("store"));
    let mut section = root.section("redis");
    let redis = redis(&mut section);
    section.end();
    let cache = cache(root.section("cache"));
    let semantic = semantic(root.section("semantic"));
    let limits = limits(root.section("limits"));
    let lineage = lineage(root.section("lineage"));
    let providers = providers(&mut root);
    let models = models(&mut root, &providers, &semantic, &lineage);
    check_judge(&root, &semantic, &models, &providers);
    check_backend(&root, &semantic, &store, &cache);
    check_exposure(&root, &server, &auth, &providers);
    root.end();
    let data_dir = reader.data_dir.clone();
    let Found { warnings, effective, prints, files } = reader.end()?;
    Ok(Config {
        data_dir,
        server,
        admin,
        auth,
        store,
        redis,
        cache,
        semantic,
        limits,
        lineage,
        providers,
        models,
        warnings,
        files,
        effective,
        prints,
    })
}

pub(crate) fn seconds(
    section: &mut Section<'_>,
    key: &str,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Duration {
    Duration::from_secs(section.number(key, default, range))
}

pub(crate) fn size(section: &mut Section<'_>, key: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> usize {
    usize::try_from(section.number(key, default, range)).unwrap_or(usize::MAX)
}

pub(crate) fn listen(section: &mut Section<'_>, default: &str) -> SocketAddr {
    section.parsed("listen", default, "an address and port, such as 127.0.0.1:8080 or [::]:8080")
}

fn admin(mut section: Section<'_>, callers: SocketAddr) -> Admin {
    let listen = listen(&mut section, "127.0.0.1:8081");
    if listen == callers && listen.port() != 0 {
        section.fault("listen", "is the address of server.listen too");
    }
    section.put_default("token_env", "token_file", ADMIN_VARIABLE);
    let token = section.secret("token", Some(ADMIN_VARIABLE));
    section.end();
    Admin { listen, token }
}

fn auth(mut section: Section<'_>) -> Auth {
    let modes = [("passthrough", Some(AuthMode::Passthrough)), ("open", Some(AuthMode::Open)), ("keys", None)];
    let mode = section.choice("mode", &modes);
    let cache_ttl = seconds(&mut section, "cache_ttl_s", 60, 1..=DAY_S);
    let tenant_secret = section.text("secret_file").and_then(|path| {
        section.reader.holds(&section.at("secret_file"), &path);
        let text = section.secret_file("secret_file", &path)?;
        let secret = unhex(text.expose());
        if secret.is_none() {
            section.fault("secret_file", "does not hold 64 hexadecimal digits, as `openssl rand -hex 32` prints them");
        }
        secret
    });
    section.end();
    Auth { mode, cache_ttl, tenant_secret }
}

fn unhex(text: &str) -> Option<Secret<[u8; 32]>> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok())).collect::<Option<_>>()?;
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Some(Secret::new(bytes))
}

fn store(mut section: Section<'_>) -> Store {
    let store = Store { location: store_location(&mut section), direct_url: direct_url(&mut section) };
    section.end();
    store
}

fn cache(mut section: Section<'_>) -> Cache {
    let cache = Cache {
        ttl: seconds(&mut section, "ttl_s", 3_600, 1..=YEAR_S),
        ttl_max: seconds(&mut section, "ttl_max_s", 604_800, 1..=YEAR_S),
        volatile_ttl: seconds(&mut section, "volatile_ttl_s", 60, 0..=YEAR_S),
        stale_if_error: seconds(&mut section, "stale_if_error_s", 0, 0..=YEAR_S),
        lookup_timeout: Duration::from_millis(section.number("lookup_timeout_ms", 25, 1..=60_000)),
        l1_max_bytes: section.number("l1_max_bytes", 268_435_456, 1..=PIB),
        max_entry_bytes: size(&mut section, "max_entry_bytes", 1_048_576, 1..=GIB),
        persist: section.flag("persist", true),
    };
    if cache.ttl > cache.ttl_max {
        section.fault("ttl_s", "is over ttl_max_s");
    }
    if cache.max_entry_bytes as u64 > cache.l1_max_bytes {
        section.fault("max_entry_bytes", "is over l1_max_bytes");
    }
    section.end();
    cache
}

/// Bounds on the share of wrong answers: tighter ones need more labels than are looked at.
pub(crate) const FALSE_SHARES: RangeInclusive<f64> = 0.0005..=1.0;

pub(crate) const SEMANTIC_MODES: [(&str, Option<SemanticMode>); 3] =
    [("on", Some(SemanticMode::On)), ("shadow", Some(SemanticMode::Shadow)), ("off", Some(SemanticMode::Off))];

fn semantic(mut section: Section<'_>) -> Semantic {
    let mode = section.choice("mode", &SEMANTIC_MODES);
    let backend =
        section.choice("backend", &[("memory", Some(Backend::Memory)), ("pgvector", Some(Backend::Pgvector))]);
    let max_entries = size(&mut section, "max_entries", 100_000, 1..=100_000_000);
    let similarity = section.share("similarity_min");
    let embedder = section.optional_section("embedder");
    if embedder.is_some() && section.has("encoder") {
        section.fault("encoder", "cannot be set together with [semantic.embedder]");
    }
    let minilm = section.choice("encoder", &[("embedded", Some(false)), ("minilm", Some(true))]);
    if minilm && backend == Backend::Pgvector {
        section.fault(
            "encoder",
            "is \"minilm\", which looks only at what this process holds: not with backend = \"pgvector\"",
        );
    }
    let model_dir = section.path("model_dir", "model");
    let rescore_deadline = Duration::from_millis(section.number("rescore_deadline_ms", 50, 1..=60_000));
    let (encoder, similarity_min) = match embedder {
        None => {
            let (encoder, usual) =
                if minilm { (Encoder::MiniLm, MINILM_SIMILARITY) } else { (Encoder::Embedded, EMBEDDED_SIMILARITY) };
            let similarity = similarity.unwrap_or(usual);
            section.reader.holds(&section.at("similarity_min"), &similarity);
            (encoder, similarity)
        }
        Some(embedder) => {
            if similarity.is_none() {
                section.fault("similarity_min", "must be set for another encoder: each has its own scale");
            }
            (endpoint(embedder).unwrap_or(Encoder::Embedded), similarity.unwrap_or(1.0))
        }
    };
    let trust = trust(&mut section, similarity_min);
    let questions = questions(&mut section);
    section.end();
    let Trust { max_false_share, sample_share, judge, similarity_lowest } = trust;
    Semantic {
        mode,
        similarity_min,
        backend,
        max_entries,
        max_false_share,
        sample_share,
        judge,
        similarity_lowest,
        encoder,
        questions,
        model_dir,
        rescore_deadline,
    }
}

fn questions(section: &mut Section<'_>) -> Option<Questions> {
    let on = section.choice("question_log", &[("off", Some(false)), ("on", Some(true))]);
    let questions = Questions {
        share: section.real("question_log_share", 0.01, 0.0..=1.0),
        max_bytes: section.number("question_log_max_bytes", 16_777_216, MIB..=PIB),
        max_age: seconds(section, "question_log_max_age_s", 7 * DAY_S, 60..=YEAR_S),
    };
    on.then_some(questions)
}

/// What labelled decisions may do to the floor.
struct Trust {
    max_false_share: f64,
    sample_share: f64,
    judge: Option<ModelName>,
    similarity_lowest: f32,
}

fn trust(section: &mut Section<'_>, similarity_min: f32) -> Trust {
    let max_false_share = section.real("max_false_share", 0.01, FALSE_SHARES);
    let sample_share = section.real("sample_share", 0.02, 0.0..=1.0);
    let judge = section.text("judge").and_then(|name| {
        let judge = name.parse().ok();
        if judge.is_none() {
            section.fault("judge", "is not a name of 1 to 256 printable characters");
        }
        judge
    });
    section.reader.holds(&section.at("judge"), &judge.as_ref().map_or("", ModelName::as_str));
    let similarity_lowest = section.share("similarity_lowest").unwrap_or(similarity_min);
    if similarity_lowest > similarity_min {
        section.fault("similarity_lowest", "is over similarity_min");
    }
    Trust { max_false_share, sample_share, judge, similarity_lowest }
}

/// A shared index lies beside the durable entries, and has the answers from there.
fn check_backend(root: &Section<'_>, semantic: &Semantic, store: &Store, cache: &Cache) {
    if semantic.backend != Backend::Pgvector {
        return;
    }
    if !matches!(store.location, StoreLocation::Postgres(_)) {
        root.fault("semantic.backend", "is \"pgvector\", which needs store.url to be of a Postgres");
    }
    if !cache.persist {
        root.fault("semantic.backend", "is \"pgvector\", which needs cache.persist");
    }
}

/// A judge that no provider answers for would be noticed at the first sample only.
fn check_judge(root: &Section<'_>, semantic: &Semantic, models: &[Model], providers: &[Provider]) {
    let Some(judge) = &semantic.judge else { return };
    if !models.is_empty() && !models.iter().any(|model| model.names().any(|name| name == judge)) {
        root.fault("semantic.judge", "is not the name of a configured model");
    }
    let target =
        models.iter().find(|model| model.names().any(|name| name == judge)).and_then(|model| model.targets.first());
    let provider = match target {
        Some(target) => providers.iter().find(|provider| provider.name == target.provider),
        None => providers.first(),
    };
    if let Some(provider) = provider.filter(|provider| provider.api_key.is_none()) {
        let name = &provider.name;
        root.reader.warn(format!("semantic.judge is asked without a caller's key, and the provider {name} has none"));
    }
    if semantic.sample_share == 0.0 {
        root.fault("semantic.judge", "is never asked while semantic.sample_share is 0");
    }
}

/// None if there is a fault.
fn endpoint(mut section: Section<'_>) -> Option<Encoder> {
    let base_url = base_url(&mut section, "base_url");
    let model = section.name("model");
    let api_key = section.secret("api_key", None);
    check_key(&section, api_key.as_ref());
    let timeout = Duration::from_millis(section.number("timeout_ms", 1_000, 1..=60_000));
    let way = way(&mut section, base_url.as_ref());
    section.end();
    Some(Encoder::Endpoint { base_url: base_url?, model: model?, api_key, timeout, way })
}

fn limits(mut section: Section<'_>) -> Option<Limits> {
    let rps = section.number("ip_rps", 50, 0..=1_000_000_000);
    let burst = section.number("ip_burst", 100, 0..=u64::from(u32::MAX));
    if rps > 0 && burst == 0 {
        section.fault("ip_burst", "must be at least 1, or no request is ever admitted");
    }
    section.end();
    let narrow = |number| u32::try_from(number).expect("within its range");
    (rps > 0).then(|| Limits { ip_rps: narrow(rps), ip_burst: narrow(burst) })
}

fn lineage(mut section: Section<'_>) -> Lineage {
    let modes = [
        ("spool", Some(LineageMode::Spool)),
        ("memory", Some(LineageMode::Memory)),
        ("strict", Some(LineageMode::Strict)),
        ("strict+db", Some(LineageMode::StrictDb)),
    ];
    let lineage = Lineage {
        mode: section.choice("mode", &modes),
        dir: section.path("dir", "lineage"),
        origin: section.text("origin").unwrap_or_else(|| "localhost/signet".to_owned()),
        on_full: section.choice("on_full", &[("reject", Some(OnFull::Reject)), ("degrade", Some(OnFull::Degrade))]),
        spool_max_bytes: section.number("spool_max_bytes", 17_179_869_184, 1..=PIB),
        retain_bytes: section.number("retain_bytes", 2_147_483_648, 0..=PIB),
        retain_days: u32::try_from(section.number("retain_days", 0, 0..=36_500)).expect("within its range"),
        key_file: key_file(&mut section, "key_file"),
        checkpoint_key_file: key_file(&mut section, "checkpoint_key_file"),
        root_file: key_file(&mut section, "root_file"),
        root_threshold: usize::try_from(section.number("root_threshold", 0, 0..=1000)).ok().filter(|k| *k > 0),
        keyring_file: key_file(&mut section, "keyring_file"),
        checkpoint_every: Duration::from_secs(section.number("checkpoint_every_s", 1, 1..=3600)),
        checkpoint_every_leaves: section.number("checkpoint_every_leaves", 4096, 1..=1_000_000),
        anchors: section.list("anchor").into_iter().filter_map(anchor).collect(),
        anchor_every: Duration::from_secs(section.number("anchor_every_s", 10, 1..=86_400)),
        auditor_tokens: auditor_tokens(&mut section),
        public: section.flag("public", false),
        break_glass_key_file: key_file(&mut section, "break_glass_key_file"),
        capture_max_bytes: size(&mut section, "capture_max_bytes", 1_048_576, 1_024..=16_777_216),
        capture_days: section.number("capture_days", 30, 1..=3_650),
    };
    if lineage.key_file.is_some() && lineage.key_file == lineage.checkpoint_key_file {
        section.fault("checkpoint_key_file", "is the key that signs records too: who has one must not have both");
    }
    if lineage.root_file.is_none() && (lineage.keyring_file.is_some() || lineage.root_threshold.is_some()) {
        section.fault("root_file", "has to name the roots that sign keyrings");
    }
    let origin = &lineage.origin;
    if origin.len() > 255 || !origin.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'+' | b';')) {
        let reason = "is not a name of at most 255 visible characters without spaces, plus signs and semicolons";
        section.fault("origin", reason);
    }
    section.reader.holds(&section.at("origin"), origin);
    section.end();
    lineage
}

/// One token a line. A short one could be found by trying.
fn auditor_tokens(section: &mut Section<'_>) -> Vec<Secret<String>> {
    const KEY: &str = "auditor_tokens_file";
    let Some(path) = section.text(KEY) else { return Vec::new() };
    section.reader.holds(&section.at(KEY), &path);
    let Some(text) = section.secret_file(KEY, &path) else { return Vec::new() };
    let lines = text.expose().lines().map(str::trim).zip(1..);
    let lines: Vec<_> = lines.filter(|(line, _)| !line.is_empty() && !line.starts_with('#')).collect();
    for (token, line) in &lines {
        if token.len() < 16 || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            section.fault(KEY, format!("line {line} is not a token of at least 16 visible characters without spaces"));
        }
    }
    lines.into_iter().map(|(token, _)| Secret::new(token.to_owned())).collect()
}

pub(crate) fn key_file(section: &mut Section<'_>, key: &str) -> Option<PathBuf> {
    let path = section.text(key)?;
    section.reader.holds(&section.at(key), &path);
    let file = section.reader.resolve(path);
    // It may still be to come, when the configuration is only checked; what is there must be a file.
    if let Err(error) = crate::file::read_file(&file)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        section.fault(key, format!("{} cannot be read: {error}", file.display()));
    }
    Some(file)
}

/// None if there is a fault.
fn anchor(mut section: Section<'_>) -> Option<AnchorPlace> {
    let place = match (section.text("file"), section.has("url")) {
        (Some(path), false) => {
            section.reader.holds(&section.at("file"), &path);
            let file = section.reader.resolve(path);
            if absolute(&file).starts_with(absolute(&section.reader.data_dir)) {
                section.reader.warn(format!(
                    "{} is {}, in the data folder: who can change the log can change it too, so it proves nothing",
                    section.at("file"),
                    file.display()
                ));
            }
            Some(AnchorPlace::File(file))
        }
        (None, true) => {
            let url = base_url(&mut section, "url");
            let token = section.secret("token", None);
            if token.as_ref().is_some_and(|token| !token.expose().bytes().all(|byte| byte.is_ascii_graphic())) {
                section.fault("token", "holds a character that cannot stand in a header");
            }
            let way = way(&mut section, url.as_ref());
            url.map(|url| AnchorPlace::Http { url, token, way })
        }
        (Some(_), true) | (None, false) => {
            section.take("url");
            section.fault("file", "an anchor is either a file or a url");
            None
        }
    };
    section.end();
    place
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A provider key lets everyone who reaches the listener spend the operator's money.
fn check_exposure(root: &Section<'_>, server: &Server, auth: &Auth, providers: &[Provider]) {
    let keyed = providers.iter().any(|provider| provider.api_key.is_some());
    let local = server.listen.ip().to_canonical().is_loopback();
    if auth.mode == AuthMode::Passthrough && keyed && !local {
        let reason = "must be a loopback address while a provider has a key: everyone who reaches it could use that key. \
                      Set auth.mode = \"open\" if that is meant";
        root.fault("server.listen", reason);
    }
    if auth.mode == AuthMode::Open && !keyed {
        root.reader.warn("auth.mode is \"open\", but no provider has a key: its answers will be refusals".to_owned());
    }
}

#[cfg(test)]
#[path = "load_tests.rs"]
mod tests;
