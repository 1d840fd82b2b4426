//! Real Redis and Postgres: those that `deploy/services.sh` started, and servers of a test's own that may be taken down.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// What the service script says. A test without its service fails; it is never skipped.
#[expect(clippy::disallowed_methods, reason = "tests are told where the services are")]
pub(crate) fn told(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("{name} is not set: run `deploy/services.sh start --dir DIR --fast` and export DIR/services.env")
    })
}

/// A port that nobody listens on, for as long as nobody takes it.
pub(crate) fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port")
}

/// A listener that takes connections and never says a word.
pub(crate) fn black_hole() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

/// The URL of a new, empty database on the shared server.
#[track_caller]
pub(crate) fn fresh_database() -> String {
    let server = told("SIGNET_TEST_POSTGRES_URL");
    let name = format!("e2e_{}", uuid::Uuid::now_v7().simple());
    sql(&server, &format!("CREATE DATABASE {name}"));
    let (server, _) = server.rsplit_once('/').expect("a URL with a database");
    format!("{server}/{name}")
}

/// Runs one statement; what it prints.
#[track_caller]
pub(crate) fn sql(url: &str, statement: &str) -> String {
    let psql = Path::new(&told("SIGNET_TEST_POSTGRES_BIN")).join("psql");
    let out = Command::new(psql).args([url, "-v", "ON_ERROR_STOP=1", "-qAtc", statement]).output().expect("psql runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text").trim().to_owned()
}

/// A Postgres of one test's own.
pub(crate) struct Postgres {
    folder: TempDir,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let stack = Self { folder: TempDir::new().expect("a folder") };
        stack.script(&["start", "--postgres", "--fast"]);
        stack
    }

    pub(crate) fn url(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("services.env")).expect("written by the script");
        text.lines().find_map(|line| line.strip_prefix("SIGNET_TEST_POSTGRES_URL=")).expect("a URL").to_owned()
    }

    pub(crate) fn down(&self) {
        self.script(&["stop-postgres"]);
    }

    pub(crate) fn up(&self) {
        self.script(&["start-postgres"]);
    }

    fn script(&self, arguments: &[&str]) {
        let mut command = Command::new("python3");
        command.arg(told("SIGNET_TEST_SERVICES_SCRIPT")).args(arguments).arg("--dir").arg(self.folder.path());
        let out = command.output().expect("python3 runs");
        assert!(out.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let mut command = Command::new("python3");
        command.arg(told("SIGNET_TEST_SERVICES_SCRIPT")).args(["stop", "--dir"]).arg(self.folder.path());
        command.output().ok();
    }
}

/// A Redis of one test's own, always on the same port.
pub(crate) struct Redis {
    folder: TempDir,
    addr: SocketAddr,
    child: Option<Child>,
}

impl Redis {
    pub(crate) fn start() -> Self {
        let mut redis = Self { folder: TempDir::new().expect("a folder"), addr: free_address(), child: None };
        redis.up();
        redis
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}", self.addr)
    }

    pub(crate) fn up(&mut self) {
        let port = self.addr.port().to_string();
        let mut command = Command::new(told("SIGNET_TEST_REDIS_SERVER"));
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--dir"]).arg(self.folder.path());
        self.child = Some(command.stdout(Stdio::null()).spawn().expect("redis-server runs"));
        crate::gateway::eventually("Redis", || (self.command(&["PING"])? == "+PONG").then_some(()));
    }

    pub(crate) fn down(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    pub(crate) fn keys(&self) -> u64 {
        let size = self.command(&["DBSIZE"]).expect("Redis answers");
        size.trim_start_matches(':').parse().expect("a number")
    }

    /// Runs a script over all keys.
    pub(crate) fn for_all_keys(&self, lua: &str) {
        let script =
            format!("local keys = redis.call('KEYS', '*') for i, key in ipairs(keys) do {lua} end return #keys");
        let done = self.command(&["EVAL", &script, "0"]).expect("Redis answers");
        assert!(done.starts_with(':') && done != ":0", "{done}");
    }

    /// The first line of the reply.
    fn command(&self, words: &[&str]) -> Option<String> {
        let mut stream = TcpStream::connect(self.addr).ok()?;
        let words: Vec<_> = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len())).collect();
        let text = format!("*{}\r\n{}", words.len(), words.concat());
        stream.write_all(text.as_bytes()).ok()?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).ok()?;
        Some(line.trim_end().to_owned())
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.down();
    }
}
