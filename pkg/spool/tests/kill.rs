//! A real process writes to a real directory and is killed with SIGKILL: every record that it said was acknowledged is
//! there afterwards. A test of its own main, because the program starts itself as the writer.

use signet_lineage::{Position, Record};
use signet_spool::{Config, RecordLog, Spool};
use signet_types::{LineageId, SystemClock};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

const ROUNDS: usize = 5;
const BEFORE_THE_KILL: usize = 400;

fn open(dir: &Path) -> (Spool, signet_spool::Recovered) {
    let config = Config { segment_bytes: 64 << 10, ..Config::new(dir) };
    Spool::open(config, Arc::new(SystemClock::new()), None).expect("a sound directory")
}

fn record(id: LineageId, at: &Position) -> Record {
    let payload = vec![b'x'; 700].into();
    Record { id, log: at.log, epoch: at.epoch, seq: at.seq, payload, key_id: [1; 32], sig: [2; 64] }
}

/// Appends until it is killed; prints an id once its record is acknowledged.
fn write_forever(dir: &Path) {
    let (log, found) = open(dir);
    for (opened, _) in found.orphans {
        let id = opened.id;
        log.close(Some(opened), &mut |at| record(id, at)).expect("room");
    }
    let mut out = std::io::stdout().lock();
    for n in 0.. {
        let id = LineageId::generate(1_800_000_000_000 + n);
        let opened = log.open(id, b"facts").expect("room");
        log.close(Some(opened), &mut |at| record(id, at)).expect("room");
        writeln!(out, "{id}").expect("the parent reads");
    }
}

/// Starts a writer, kills it in the middle and returns what it said.
fn killed_writer(dir: &Path) -> Vec<LineageId> {
    let program = std::env::current_exe().expect("running");
    let mut command = Command::new(program);
    let mut child = command.arg("--write-to").arg(dir).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut told: Vec<String> = lines.by_ref().take(BEFORE_THE_KILL).map(|l| l.expect("text")).collect();
    child.kill().expect("it runs");
    told.extend(lines.map_while(Result::ok));
    child.wait().expect("a child");
    // The last line may be cut.
    told.iter().filter_map(|line| line.parse().ok()).collect()
}

fn main() {
    let arguments: Vec<_> = std::env::args_os().collect();
    if let [_, flag, dir] = arguments.as_slice()
        && flag == "--write-to"
    {
        return write_forever(Path::new(dir));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mut told = Vec::new();
    for _ in 0..ROUNDS {
        told.extend(killed_writer(dir.path()));
    }
    let (log, found) = open(dir.path());
    assert!(!found.clean && found.same_boot && found.gaps.is_empty());
    assert!(told.len() >= ROUNDS * BEFORE_THE_KILL);
    let mut all = Vec::new();
    loop {
        let some = log.read_from(all.len() as u64, 1000, 1 << 20).expect("readable");
        if some.is_empty() {
            break;
        }
        all.extend(some.iter().map(|r| r.id));
    }
    let mut rest = all.iter();
    assert!(told.iter().all(|id| rest.any(|found| found == id)), "every acknowledged record, in order");
    let unsaid = all.len() - told.len();
    assert!(unsaid <= ROUNDS * 3, "at most what was under way: {unsaid}");
}
