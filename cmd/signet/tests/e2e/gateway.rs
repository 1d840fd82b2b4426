//! The real binary as a process of its own, and what may be asked of it.

use crate::client::{Answer, Conn, ask, payload};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use signet_mock::{Behaviour, Config as MockConfig, MockUpstream};
use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const CHAT: &str = "/v1/chat/completions";
pub(crate) const EMBEDDINGS: &str = "/v1/embeddings";
/// The key that the gateway holds for the mock.
pub(crate) const PROVIDER_KEY: &str = "sk-of-the-gateway";
/// What a poll waits at most; nothing in these tests takes nearly as long.
const LIMIT: Duration = Duration::from_secs(30);

/// Asks again and again until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, poll: impl FnMut() -> Option<T>) -> T {
    polled(poll).unwrap_or_else(|| panic!("{what}: not within {LIMIT:?}"))
}

/// The same; none if there is no answer within [`LIMIT`].
fn polled<T>(mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let started = Instant::now();
    loop {
        let found = poll();
        if found.is_some() || started.elapsed() >= LIMIT {
            return found;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A provider whose streams have six events.
pub(crate) fn mock() -> MockUpstream {
    mock_with(Behaviour { chunks: Some(6), ..Behaviour::default() })
}

pub(crate) fn mock_with(behaviour: Behaviour) -> MockUpstream {
    MockUpstream::start(MockConfig { behaviour, ..MockConfig::default() }).expect("a free port")
}

/// A chat request.
pub(crate) fn chat(prompt: &str) -> Value {
    json!({"model": "m", "messages": [{"role": "user", "content": prompt}]})
}

/// A request with more fields, or others.
pub(crate) fn with(mut request: Value, more: Value) -> Value {
    let (Some(fields), Value::Object(more)) = (request.as_object_mut(), more) else { panic!("two objects") };
    fields.extend(more);
    request
}

pub(crate) fn streamed(prompt: &str) -> Value {
    with(chat(prompt), json!({"stream": true}))
}

/// How a gateway is started. Settings go by the environment, so that no file is needed.
#[derive(Clone)]
pub(crate) struct Setup {
    env: Vec<(String, String)>,
    data: Option<PathBuf>,
    arguments: Vec<String>,
}

impl Setup {
    /// Before `mock`, with a key of its own for it: every caller is one tenant. No rate limit.
    pub(crate) fn on(mock: &MockUpstream) -> Self {
        Self::passthrough(mock).env("MOCK_KEY", PROVIDER_KEY).set("provider.0.api_key_env", "MOCK_KEY")
    }

    /// Before `mock`, where each caller's own key goes.
    pub(crate) fn passthrough(mock: &MockUpstream) -> Self {
        Self::bare().set("provider.0.name", "mock").set("provider.0.base_url", &mock.base_url())
    }

    /// With the providers of this configuration file.
    pub(crate) fn configured(file: &Path) -> Self {
        Self::bare().argument("--config").argument(file.to_str().expect("a plain name"))
    }

    fn bare() -> Self {
        Self { env: Vec::new(), data: None, arguments: Vec::new() }
            .set("server.listen", "127.0.0.1:0")
            .set("admin.listen", "127.0.0.1:0")
            .set("limits.ip_rps", "0")
            // The machine of the tests may be busy with others.
            .set("server.max_lag_ms", "0")
            // No hit is drawn to be checked, except where a test is about that.
            .set("semantic.sample_share", "0")
    }

    /// Sets `section.key`; the later setting of a key wins.
    pub(crate) fn set(self, key: &str, value: &str) -> Self {
        self.env(&format!("SIGNET_{}", key.to_ascii_uppercase().replace('.', "__")), value)
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.retain(|(held, _)| held != name);
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// With one more command line argument.
    pub(crate) fn argument(mut self, argument: &str) -> Self {
        self.arguments.push(argument.to_owned());
        self
    }

    /// In this folder instead of one of its own.
    pub(crate) fn within(mut self, folder: &Path) -> Self {
        self.data = Some(folder.to_owned());
        self
    }

    /// On this Postgres and, if given, this Redis.
    pub(crate) fn on_services(self, postgres: &str, redis: Option<&str>) -> Self {
        let setup = self.env("STORE_URL", postgres).set("store.url_env", "STORE_URL");
        redis.map_or(setup.clone(), |url| setup.set("redis.url", url))
    }

    /// Started and ready to serve.
    #[track_caller]
    pub(crate) fn start(&self) -> Gateway {
        let gateway = self.spawn();
        gateway.until_ready();
        gateway
    }

    /// Started and listening, ready or not.
    #[track_caller]
    pub(crate) fn spawn(&self) -> Gateway {
        let own = self.data.is_none().then(|| TempDir::new().expect("a folder"));
        let data = self.data.clone().unwrap_or_else(|| own.as_ref().expect("one of both").path().to_owned());
        fs::remove_file(data.join("listen")).ok();
        let mut child = self.command(&data).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        let log = Arc::new(Mutex::new(String::new()));
        let reading = Some(follow(&mut child, log.clone()));
        let mut gateway = Gateway { child, data, own, addr: NOWHERE, admin: NOWHERE, log, reading };
        (gateway.addr, gateway.admin) = eventually("listening", || {
            if let Some(status) = gateway.child.try_wait().expect("a child can be waited for") {
                panic!("signet serve ended with {status}: {}", gateway.log());
            }
            addresses(&gateway.data)
        });
        gateway
    }

    /// Run until it ends by itself, as it must before long.
    #[track_caller]
    pub(crate) fn run(&self, data: &Path) -> Output {
        let mut child = self.command(data).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
        if polled(|| child.try_wait().expect("a child can be waited for")).is_none() {
            child.kill().ok();
            panic!("it has not ended within {LIMIT:?}");
        }
        child.wait_with_output().expect("it has ended")
    }

    pub(crate) fn command(&self, data: &Path) -> Command {
        let mut command = signet(&["serve", "--data", data.to_str().expect("a folder with a plain name")]);
        command.args(&self.arguments);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

const NOWHERE: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// The binary with arguments and an environment without surprises.
pub(crate) fn signet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_signet"));
    command.args(arguments).env_clear().env("SIGNET_LOG", "info").stdin(Stdio::null());
    command
}

fn follow(child: &mut Child, into: Arc<Mutex<String>>) -> JoinHandle<()> {
    let mut from = child.stderr.take().expect("a piped stream");
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            into.lock().expect("no panic under it").push_str(&String::from_utf8_lossy(&piece[..n]));
        }
    })
}

pub(crate) fn addresses(data: &Path) -> Option<(SocketAddr, SocketAddr)> {
    let text = fs::read_to_string(data.join("listen")).ok()?;
    let of = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
    Some((of("server=")?, of("admin=")?))
}

/// A running gateway; dropping it kills it.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) data: PathBuf,
    own: Option<TempDir>,
    pub(crate) addr: SocketAddr,
    pub(crate) admin: SocketAddr,
    log: Arc<Mutex<String>>,
    reading: Option<JoinHandle<()>>,
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        if std::thread::panicking() {
            eprintln!("--- log of the gateway\n{}", self.log());
        }
    }
}

impl Gateway {
    pub(crate) fn log(&self) -> String {
        self.log.lock().expect("no panic under it").clone()
    }

    #[track_caller]
    pub(crate) fn until_ready(&self) {
        eventually("ready", || (self.get("/readyz").status == 200).then_some(()));
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Answer {
        ask(self.addr, "GET", path, &[], b"")
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
        ask(self.addr, "POST", path, &[&[("Content-Type", "application/json")], headers].concat(), body)
    }

    #[track_caller]
    pub(crate) fn chat(&self, request: &Value, headers: &[(&str, &str)]) -> Answer {
        self.post(CHAT, headers, request.to_string().as_bytes())
    }

    /// A chat request on a connection whose answer is still to be read.
    #[track_caller]
    pub(crate) fn begin(&self, request: &Value, headers: &[(&str, &str)]) -> Conn {
        let mut conn = Conn::open(self.addr);
        let headers = [&[("Content-Type", "application/json")], headers].concat();
        conn.send("POST", CHAT, &headers, request.to_string().as_bytes());
        conn
    }

    /// The payload of a record, which must be there.
    #[track_caller]
    pub(crate) fn record(&self, id: &str) -> Value {
        self.record_as(id, &[])
    }

    #[track_caller]
    pub(crate) fn record_as(&self, id: &str, headers: &[(&str, &str)]) -> Value {
        let answer = ask(self.addr, "GET", &format!("/v1/lineage/{id}"), headers, b"");
        assert_eq!(answer.status, 200, "record {id}: {}", answer.text());
        payload(&answer.json()["envelope"])
    }

    /// A counter, as the admin listener shows it; 0 if it is not there.
    #[track_caller]
    pub(crate) fn metric(&self, name: &str) -> u64 {
        let text = ask(self.admin, "GET", "/metrics", &[], b"").text();
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        value.unwrap_or(0)
    }

    /// What `/admin/v1/status` says.
    #[track_caller]
    pub(crate) fn status(&self) -> Value {
        self.admin_get("/admin/v1/status").json()
    }

    /// From the admin listener, with the token from the data folder.
    #[track_caller]
    pub(crate) fn admin_get(&self, path: &str) -> Answer {
        let token = fs::read_to_string(self.data.join("admin.token")).expect("a token");
        ask(self.admin, "GET", path, &[("Authorization", &format!("Bearer {token}"))], b"")
    }

    /// The same for an order without a body.
    #[track_caller]
    pub(crate) fn admin_post(&self, path: &str) -> Answer {
        let token = fs::read_to_string(self.data.join("admin.token")).expect("a token");
        ask(self.admin, "POST", path, &[("Authorization", &format!("Bearer {token}"))], b"")
    }

    /// Waits for the one record that fits, in the folder as the auditor's tool reads it.
    #[track_caller]
    pub(crate) fn record_where(&self, fits: impl Fn(&Value) -> bool) -> Value {
        eventually("a record", || records(&self.data).into_iter().find(|record| fits(record)))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the gateway runs");
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Kills it as a crash would; the folder stays.
    pub(crate) fn kill(mut self) -> Folder {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        self.folder()
    }

    /// Asks it to end, and waits until it has.
    #[track_caller]
    pub(crate) fn stop(self) -> Folder {
        self.signal(Signal::TERM);
        self.ended()
    }

    /// The same, where it must be quicker than the grace time.
    #[track_caller]
    pub(crate) fn stop_within(self, limit: Duration) -> Folder {
        let started = Instant::now();
        let folder = self.stop();
        assert!(started.elapsed() < limit, "it took {:?}", started.elapsed());
        folder
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Waits for an orderly end.
    #[track_caller]
    pub(crate) fn ended(mut self) -> Folder {
        let status = eventually("the end of the process", || self.child.try_wait().expect("a child"));
        if let Some(reading) = self.reading.take() {
            reading.join().expect("the reader does not panic");
        }
        assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", self.log());
        self.folder()
    }

    fn folder(&mut self) -> Folder {
        Folder { path: self.data.clone(), _own: self.own.take() }
    }
}

/// A data folder without a process.
pub(crate) struct Folder {
    pub(crate) path: PathBuf,
    _own: Option<TempDir>,
}

impl Folder {
    pub(crate) fn of(own: TempDir) -> Self {
        Self { path: own.path().to_owned(), _own: Some(own) }
    }
}

/// All payloads that a folder holds.
#[track_caller]
pub(crate) fn records(data: &Path) -> Vec<Value> {
    let out = signet(&["lineage", "export", "--data"]).arg(data).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8(out.stdout).expect("an export is text");
    text.lines().map(|line| payload(&serde_json::from_str(line).expect("an envelope"))).collect()
}
