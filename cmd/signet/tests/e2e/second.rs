//! Two verifiers that share no code come to one verdict on what a gateway seldom writes: revoked keys, keys of checkpoints
//! that changed, pruned logs, losses of a database, and what is signed though the format forbids it.

use crate::gateway::signet;
use signet_lineage::tlog::{Checkpoint, NoteKey};
use signet_lineage::verify::{Stored, write_line};
use signet_lineage::{
    ControlStamp, ControlValue, Draft, Gateway, KeyRotation, KeyUse, Kind, LOST_BY_DATABASE, Leaf, Position, Receipt,
    Record, Recovery, Signer, Tree, TreeHead, root_of,
};
use signet_types::{LineageId, LogId};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use tempfile::TempDir;

const ORIGIN: &str = "gateway.example/lineage";
const LOG: LogId = LogId::from_bytes([1; 16]);
const NOW_MS: u64 = 1_780_000_000_000;

/// A log whose first record names both keys.
struct Writer {
    attest: Signer,
    checkpoints: Signer,
    tree: Tree,
    records: Vec<Record>,
    epoch: u32,
}

impl Writer {
    fn open() -> Self {
        Self::promising("spool")
    }

    fn promising(mode: &str) -> Self {
        let (attest, checkpoints) = (Signer::generate(), Signer::generate());
        let mut log = Self { attest, checkpoints, tree: Tree::new(), records: Vec::new(), epoch: 1 };
        let opening = Draft::log_open(&stamp_in(mode), ORIGIN, &log.attest.public_key());
        log.append(&opening.naming_checkpoint_key(&log.checkpoints.public_key()));
        log
    }

    fn append(&mut self, draft: &Draft) {
        let base = self.tree.head();
        let position = Position { log: LOG, epoch: self.epoch, seq: self.tree.size(), base };
        self.push(draft.seal(&position, &self.attest));
    }

    /// A record that says what no draft can be made to say: `text` is written as `other`, and signed like that.
    fn append_with(&mut self, text: &str, other: &str) {
        let position = Position { log: LOG, epoch: self.epoch, seq: self.tree.size(), base: self.tree.head() };
        let mut record = Draft::clock(&stamp(), 1, 2).seal(&position, &self.attest);
        let payload = String::from_utf8(record.payload.to_vec()).expect("text");
        assert_eq!(payload.matches(text).count(), 1, "{payload}");
        record.payload = payload.replace(text, other).into_bytes().into();
        let head = format!("DSSEv1 28 application/vnd.in-toto+json {} ", record.payload.len());
        record.sig = self.attest.sign(&[head.as_bytes(), &record.payload].concat());
        self.push(record);
    }

    fn push(&mut self, record: Record) {
        self.tree.push(Leaf::of(&record).hash());
        self.records.push(record);
    }

    fn grow(&mut self, size: u64) {
        while self.tree.size() < size {
            self.append(&Draft::clock(&stamp(), 1, 2));
        }
    }

    fn leaves(&self) -> Vec<[u8; 32]> {
        self.records.iter().map(|record| Leaf::of(record).hash()).collect()
    }

    fn note(&self, size: usize, signer: &Signer) -> String {
        let (key, head) = (note_key(signer), TreeHead { size: size as u64, root: root_of(&self.leaves()[..size]) });
        Checkpoint { origin: key.name().to_owned(), head }.sign(&key, signer)
    }

    fn pinned(&self) -> String {
        format!("{}{}\n", self.attest.public_key().to_pem(), note_key(&self.checkpoints))
    }
}

fn prune(below: usize, peaks: &[[u8; 32]]) -> Draft {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).expect("below 16");
    let digits = peaks.as_flattened().iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect();
    let facts = vec![
        ("below_seq", ControlValue::Int(below as u64)),
        ("log_id", ControlValue::Text(LOG.to_string())),
        ("peaks", ControlValue::Text(digits)),
    ];
    Draft::control(Kind::Prune, &stamp(), facts)
}

fn note_key(signer: &Signer) -> NoteKey {
    NoteKey::new(&format!("{ORIGIN}/{LOG}"), signer.public_key()).expect("a name")
}

fn stamp() -> ControlStamp {
    stamp_in("spool")
}

fn stamp_in(mode: &str) -> ControlStamp {
    let (version, instance, durability) = ("1".to_owned(), "a".to_owned(), mode.to_owned());
    let gateway = Arc::new(Gateway { version, instance, durability, config_sha256: [7; 32] });
    ControlStamp { id: LineageId::generate(NOW_MS), at_ms: NOW_MS, gateway }
}

fn run(command: &mut Command) -> (i32, String) {
    let out = command.output().expect("it runs");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

/// That both verifiers end with `code`.
#[track_caller]
fn both(code: i32, pinned: &str, records: &[Record], notes: &[String]) {
    judged(code, pinned, records, notes, "");
}

/// The same of what callers kept, too.
#[track_caller]
fn judged(code: i32, pinned: &str, records: &[Record], notes: &[String], receipts: &str) {
    let folder = TempDir::new().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("a file");
        path
    };
    let lines: Vec<_> = records.iter().map(|record| write_line(record, &Stored::default())).collect();
    let (key, export) = (file("keys", pinned.as_bytes()), file("export", &lines.join(&b'\n')));
    let mut arguments = vec!["--key".into(), key.into_os_string()];
    if !notes.is_empty() {
        arguments.extend(["--anchor".into(), file("anchors", notes.join("\n").as_bytes()).into_os_string()]);
    }
    if !receipts.is_empty() {
        arguments.extend(["--receipts".into(), file("receipts", receipts.as_bytes()).into_os_string()]);
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/verify/signet_verify.py");
    let ours = run(signet(&["lineage", "verify"]).args(&arguments).arg("--export").arg(&export));
    let theirs = run(Command::new("python3").arg("-B").arg(script).args(&arguments).arg(&export));
    assert_eq!((ours.0, theirs.0), (code, code), "{}\n{}", ours.1, theirs.1);
}

#[test]
fn both_verifiers_hold_a_revoked_key_to_its_place() {
    let mut log = Writer::open();
    log.grow(8);
    let pinned = log.pinned();
    let revoked =
        |signer: &Signer, place: u64| format!("{pinned}revoked {} {LOG} {place}\n", signer.public_key().key_id_text());
    let notes = [log.note(6, &log.checkpoints)];
    both(0, &pinned, &log.records, &notes);
    both(0, &revoked(&log.attest, 8), &log.records, &notes);
    both(19, &revoked(&log.attest, 7), &log.records, &[]);
    both(19, &revoked(&log.attest, 0), &log.records, &[]);
    both(0, &revoked(&log.checkpoints, 6), &log.records, &notes);
    both(19, &revoked(&log.checkpoints, 5), &log.records, &notes);
}

#[test]
fn both_verifiers_hold_a_checkpoint_to_the_key_of_its_place() {
    let mut log = Writer::open();
    log.grow(4);
    let new = Signer::generate();
    let old = log.checkpoints.public_key();
    let rotation = KeyRotation { key_use: KeyUse::Checkpoint, old: Some(old), new: &new };
    log.append(&Draft::key_rotate(&stamp(), &format!("{ORIGIN}/{LOG}"), &rotation));
    log.grow(8);
    let pinned = format!("{}{}\n", log.pinned(), note_key(&new));
    both(0, &pinned, &log.records, &[log.note(4, &log.checkpoints), log.note(5, &new), log.note(8, &new)]);
    both(18, &pinned, &log.records, &[log.note(5, &log.checkpoints)]);
    both(18, &pinned, &log.records, &[log.note(4, &new)]);
}

#[test]
fn both_verifiers_go_on_from_a_prune_and_miss_what_is_gone_behind_it() {
    for (peaks, code) in [(None, 0), (Some([[9; 32]; 2]), 12)] {
        let mut log = Writer::open();
        log.grow(7);
        let leaves = log.leaves();
        let right = [root_of(&leaves[..4]), leaves[4]];
        log.append(&prune(5, &peaks.unwrap_or(right)));
        log.grow(12);
        let note = [log.note(12, &log.checkpoints)];
        both(code, &log.pinned(), &log.records[5..], &[]);
        both(if code == 0 { 0 } else { 12 }, &log.pinned(), &log.records[5..], &note);
        both(14, &log.pinned(), &log.records[6..], &[]);
    }
    let mut log = Writer::open();
    log.grow(7);
    log.append(&prune(5, &[[9; 32]]));
    both(14, &log.pinned(), &log.records[5..], &[]);
}

#[test]
fn both_verifiers_say_that_a_database_lost_what_it_had_confirmed() {
    let mut log = Writer::open();
    log.grow(7);
    let leaves = log.leaves();
    log.append(&Draft::gap(&stamp(), 3, 4, LOST_BY_DATABASE, Some(&leaves[3..5])));
    log.grow(10);
    both(0, &log.pinned(), &log.records, &[log.note(10, &log.checkpoints)]);
    let left = [&log.records[..3], &log.records[5..]].concat();
    both(24, &log.pinned(), &left, &[log.note(10, &log.checkpoints)]);
    both(14, &log.pinned(), &[&log.records[..2], &log.records[5..]].concat(), &[]);
}

#[test]
fn both_verifiers_refuse_what_the_format_forbids_though_it_is_signed() {
    let deep = |levels: usize| format!(r#""control":{{"a":{}1{},"#, "[".repeat(levels), "]".repeat(levels));
    let (fits, too_deep) = (deep(13), deep(14));
    let control = r#""control":{"#;
    let cases = [
        (0, control, r#""control":{"Z~[":[true,0,9007199254740991,"\u001f\"é"],"#),
        (11, control, r#""control":{"Z~[":"\u007f","#),
        (11, r#""kind":"clock""#, r#""kind":"clocks""#),
        (11, r#""v":1"#, r#""v":2"#),
        (11, r#""v":1"#, r#""v":true"#),
        (11, "in-toto.io/Statement/v1", "in-toto.io/Statement/v2"),
        (11, "urn:signet:lineage:v1", "urn:signet:lineage:v2"),
        (11, control, r#""control":{"\\a":1,"#),
        (11, control, r#""control":{"\"":1,"#),
        (11, r#""before_ms":1"#, r#""before_ms":1,"é":1"#),
        (11, r#""before_ms":1"#, r#""before_ms":1,"before_ms":1"#),
        (11, r#""before_ms":1"#, r#""before_ms":[1.5]"#),
        (11, r#""before_ms":1"#, r#""before_ms":[null]"#),
        (11, r#""before_ms":1"#, r#""before_ms":[-1]"#),
        (11, r#""before_ms":1"#, r#""before_ms":[9007199254740992]"#),
        (11, r#""before_ms":1"#, r#""before_ms":[NaN]"#),
        (11, r#""before_ms":1"#, r#""before_ms":"\ud800""#),
        (11, r#""before_ms":1"#, r#""before_ms":"\/""#),
        (11, r#""before_ms":1"#, r#""before_ms": 1"#),
        (0, control, &fits),
        (11, control, &too_deep),
    ];
    for (code, text, other) in cases {
        let mut log = Writer::open();
        log.append_with(text, other);
        log.grow(4);
        both(code, &log.pinned(), &log.records, &[]);
    }
}

#[test]
fn both_verifiers_hold_records_to_their_order_in_the_log_and_their_ids_to_be_unique() {
    let ended = |code: i32, change: &dyn Fn(&mut Writer)| {
        let mut log = Writer::open();
        log.grow(3);
        change(&mut log);
        both(code, &log.pinned(), &log.records, &[]);
    };
    let taken_up = |log: &mut Writer| {
        log.epoch += 1;
        log.append(&recovery("spool", false, None));
        log.grow(6);
    };
    ended(0, &taken_up);
    ended(14, &|log| {
        log.epoch += 1;
        log.grow(4);
    });
    ended(13, &|log| {
        taken_up(log);
        log.epoch -= 1;
        log.grow(7);
    });
    ended(0, &|log| log.append(&Draft::log_seal(&stamp())));
    ended(13, &|log| {
        log.append(&Draft::log_seal(&stamp()));
        log.grow(5);
    });
    ended(13, &|log| log.append(&Draft::log_open(&stamp(), ORIGIN, &log.attest.public_key())));
    ended(15, &|log| {
        let twice = stamp();
        log.append(&Draft::clock(&twice, 1, 2));
        log.append(&Draft::clock(&twice, 1, 2));
    });
    ended(18, &|log| {
        let (new, other) = (Signer::generate(), Signer::generate().public_key());
        let rotation = KeyRotation { key_use: KeyUse::Attest, old: Some(other), new: &new };
        log.append(&Draft::key_rotate(&stamp(), &format!("{ORIGIN}/{LOG}"), &rotation));
    });
}

#[test]
fn both_verifiers_believe_a_loss_only_where_the_epoch_before_did_not_promise_strict() {
    type Declared = (&'static str, bool, Option<(u64, u64)>);
    let lost = Some((3, 4));
    // The mode of the log, recoveries with the mode and the loss that each declares, and the verdict with and without the
    // receipt of a lost record.
    let cases: &[(&str, &[Declared], i32, i32)] = &[
        ("spool", &[("strict", true, None)], 30, 0),
        ("spool", &[("strict", false, lost)], 30, 0),
        ("memory", &[("spool", false, None)], 13, 0),
        ("strict", &[("spool", true, None)], 13, 0),
        ("strict", &[("spool", false, lost)], 13, 16),
        ("strict+db", &[("strict+db", true, lost)], 13, 16),
        ("strict", &[("spool", false, None), ("spool", true, lost)], 30, 0),
        ("spool", &[("strict", false, None), ("strict", true, lost)], 13, 16),
    ];
    for (mode, recoveries, with, without) in cases {
        let mut log = Writer::promising(mode);
        log.grow(5);
        let receipt = format!("{}\n", Receipt::of(&log.records[4], ORIGIN));
        let left: Vec<_> = log.records.drain(..3).collect();
        (log.tree, log.records) = (Tree::new(), Vec::new());
        for record in left {
            log.push(record);
        }
        for (mode, lost_tail_possible, lost) in *recoveries {
            log.epoch += 1;
            log.append(&recovery(mode, *lost_tail_possible, *lost));
        }
        log.grow(7);
        judged(*with, &log.pinned(), &log.records, &[], &receipt);
        judged(*without, &log.pinned(), &log.records, &[], "");
    }
}

/// A log is taken up behind seq 2.
fn recovery(mode: &str, lost_tail_possible: bool, lost: Option<(u64, u64)>) -> Draft {
    let found = Recovery { clean: false, same_boot: false, last_seq: Some(2), lost, lost_tail_possible };
    Draft::recovery(&stamp_in(mode), &found)
}
