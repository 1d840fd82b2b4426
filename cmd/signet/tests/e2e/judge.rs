//! What a gateway leaves is judged by `signet lineage verify`, by a second verifier in another language, and record by record
//! with openssl: all three take the same bytes for good, and name what was done to them.

use crate::client::Answer;
use crate::gateway::{Folder, Setup, chat, mock, records, signet, streamed};
use serde_json::Value;
use signet_lineage::tlog::{Checkpoint, NoteKey};
use signet_lineage::verify::read_line;
use signet_lineage::{Leaf, Signer, TreeHead, root_of};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// A stopped gateway's folder, an export of it, and what others keep: keys, receipts, a checkpoint at the end of the log.
struct Kept {
    data: Folder,
    folder: TempDir,
}

impl Kept {
    fn new() -> Self {
        let (folder, data) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
        let checkpoints = Signer::generate();
        let key = data.path().join("lineage-checkpoint.key");
        fs::write(&key, &*checkpoints.to_pkcs8()).expect("a file");
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("it is ours");
        let mock = mock();
        let gateway = Setup::on(&mock).within(data.path()).start();
        let mut answers: Vec<Answer> = ["neap", "spring", "ebb", "neap"]
            .map(|tide| gateway.chat(&chat(&format!("What is a {tide} tide, \"exactly\"?\n\u{1}")), &[]))
            .into();
        answers.push(gateway.chat(&streamed("What is a tidal bore?"), &[]));
        answers.push(gateway.post("/v1/chat/completions", &[], b"not json"));
        let receipts: Vec<_> = answers.iter().filter_map(|answer| answer.header("lineage-receipt")).collect();
        assert_eq!(receipts.len(), answers.len() - 1, "the streamed one has none in its head");
        fs::write(folder.path().join("receipts"), receipts.join("\n")).expect("a file");
        drop(gateway.stop());
        let kept = Self { data: Folder::of(data), folder };
        let out = printed(&["export", "--data", kept.data()]);
        fs::write(kept.file("export"), &out).expect("a file");
        fs::write(kept.file("keys"), printed(&["keys", "--data", kept.data()])).expect("a file");
        fs::write(kept.file("anchor"), kept.checkpoint(&checkpoints)).expect("a file");
        // Where the gateway writes its own.
        fs::copy(kept.file("anchor"), kept.data.path.join("lineage/checkpoint")).expect("a file");
        kept
    }

    /// Signed over all that was exported.
    fn checkpoint(&self, signer: &Signer) -> String {
        let export = fs::read_to_string(self.file("export")).expect("a file");
        let records: Vec<_> = export.lines().map(|line| read_line(line.as_bytes()).expect("a line").0).collect();
        let leaves: Vec<_> = records.iter().map(|record| Leaf::of(record).hash()).collect();
        let opening: Value = serde_json::from_slice(&records[0].payload).expect("JSON");
        let origin = opening["predicate"]["control"]["origin"].as_str().expect("an origin");
        let origin = format!("{origin}/{}", records[0].log);
        let key = NoteKey::new(&origin, signer.public_key()).expect("a name");
        let head = TreeHead { size: leaves.len() as u64, root: root_of(&leaves) };
        Checkpoint { origin, head }.sign(&key, signer)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn data(&self) -> &str {
        self.data.path.to_str().expect("a plain name")
    }

    /// Exit code and words of `signet lineage verify` with all that is kept.
    fn ours(&self, more: &[&str]) -> (i32, String) {
        run(signet(&["lineage", "verify", "--key"])
            .arg(self.file("keys"))
            .arg("--receipts")
            .arg(self.file("receipts"))
            .arg("--anchor")
            .arg(self.file("anchor"))
            .args(more))
    }

    /// The same of the second verifier.
    fn theirs(&self, export: &Path) -> (i32, String) {
        run(Command::new("python3")
            .arg("-B")
            .arg(repository().join("tools/verify/signet_verify.py"))
            .arg("--key")
            .arg(self.file("keys"))
            .arg("--receipts")
            .arg(self.file("receipts"))
            .arg("--anchor")
            .arg(self.file("anchor"))
            .arg(export))
    }
}

/// What a lineage command prints.
fn printed(arguments: &[&str]) -> Vec<u8> {
    let out = signet(&["lineage"]).args(arguments).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

fn run(command: &mut Command) -> (i32, String) {
    let out = command.output().expect("it runs");
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

#[test]
fn two_verifiers_agree_on_a_fresh_export_and_name_what_was_done_to_it() {
    let kept = Kept::new();
    let export = fs::read_to_string(kept.file("export")).expect("a file");
    let lines: Vec<_> = export.lines().map(str::to_owned).collect();
    let without = |at: usize| [&lines[..at], &lines[at + 1..]].concat();
    let mut swapped = lines.clone();
    swapped.swap(3, 4);
    let mut flipped = lines.clone();
    let at = flipped[3].find("\"sig\":\"").expect("a signature") + 12;
    let other = if flipped[3].as_bytes()[at] == b'A' { "B" } else { "A" };
    flipped[3].replace_range(at..=at, other);
    let mut twice = lines.clone();
    twice.insert(3, lines[3].clone());
    let cases = [
        ("as it is", lines.clone(), 0, "OK"),
        ("a line is deleted", without(3), 14, "seq 3"),
        ("a bit is flipped", flipped, 10, "BAD_SIG"),
        ("lines are swapped", swapped, 14, "GAP"),
        ("a line is there twice", twice, 15, "DUP"),
        ("the end is cut", lines[..lines.len() - 2].to_vec(), 16, "TRUNCATED"),
        ("nothing is left", Vec::new(), 32, ""),
    ];
    for (what, lines, code, word) in cases {
        let file = kept.file("changed");
        fs::write(&file, lines.join("\n")).expect("a file");
        for (who, (found, said)) in [("ours", kept.ours(&["--export", text(&file)])), ("theirs", kept.theirs(&file))] {
            assert!(found == code && said.contains(word), "{who}: {what}: {found}: {said}");
        }
    }
}

#[test]
fn a_bundle_holds_all_that_proves_it_and_each_change_of_a_file_is_named() {
    let kept = Kept::new();
    let bundle = kept.file("bundle");
    printed(&["export", "--data", kept.data(), "--bundle", text(&bundle)]);
    let (code, said) = kept.ours(&["--export", text(&bundle)]);
    assert!(code == 0 && said.contains("and 1 tiles of the data agree"), "{said}");
    assert_eq!(kept.theirs(&bundle).0, 0, "{}", kept.theirs(&bundle).1);
    let sums = Command::new("sha256sum").args(["--quiet", "-c", "MANIFEST"]).current_dir(&bundle).status();
    assert!(sums.expect("it runs").success());
    let logs = fs::read_dir(bundle.join("logs")).expect("a folder").next().expect("a log").expect("an entry").path();
    let tiles = fs::read_dir(logs.join("tile/0/000.p")).expect("a folder").next().expect("a tile").expect("one").path();
    let (notes, lines) = (logs.join("checkpoints"), logs.join("records.jsonl"));
    let note = fs::read(&notes).expect("a file").len() - 20;
    let sig = fs::read_to_string(&lines).expect("a file").find("\"sig\":\"").expect("a signature") + 12;
    // A hash, and two signatures.
    for (file, at, code) in [(tiles, 40, 11), (notes, note, 10), (lines, sig, 10)] {
        let good = fs::read(&file).expect("a file");
        let mut bytes = good.clone();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        fs::write(&file, bytes).expect("a file");
        let (found, said) = kept.ours(&["--export", text(&bundle)]);
        let name = file.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(
            found == code && said.contains(&format!("{name} is not the file that MANIFEST names")),
            "{found}: {said}"
        );
        fs::remove_file(&file).expect("it is there");
        let (found, said) = kept.ours(&["--export", text(&bundle)]);
        assert!(found != 0 && said.contains(&format!("{name} is missing")), "{found}: {said}");
        fs::write(&file, good).expect("a file");
    }
    let again =
        run(signet(&["lineage", "export", "--data", kept.data(), "--bundle", text(&bundle)]).env("LC_ALL", "C"));
    assert!(again.0 == 1 && again.1.contains("is not empty"), "{}", again.1);
}

#[test]
fn a_bundle_of_a_log_that_lacks_a_record_has_no_tiles_and_says_so() {
    let kept = Kept::new();
    for (statement, tiles) in [("SELECT 1", true), ("DELETE FROM lineage_entry WHERE seq = 3", false)] {
        let (data, bundle) = (kept.file("data"), kept.file("bundle"));
        fs::remove_dir_all(&data).ok();
        fs::remove_dir_all(&bundle).ok();
        crate::lineage::copy(&kept.data.path, &data);
        crate::lineage::sqlite(&data, statement);
        let out = signet(&["lineage", "export", "--data", text(&data), "--bundle", text(&bundle)]).output();
        let out = out.expect("it runs");
        let told = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success() && told.contains("no tiles of log") != tiles, "{told}");
        let mut logs = fs::read_dir(bundle.join("logs")).expect("a folder");
        let log = logs.next().expect("a log").expect("an entry").path();
        assert!(log.join("checkpoints").exists() && log.join("tile").exists() == tiles);
    }
}

#[test]
fn an_anchor_from_elsewhere_is_needed_and_one_from_the_folder_itself_is_refused() {
    let kept = Kept::new();
    let data = ["--data", kept.data()];
    let (code, said) = kept.ours(&data);
    assert!(
        code == 0 && said.contains("tiles of the data agree") && !said.contains("not checked: truncation"),
        "{said}"
    );
    for option in ["--anchor", "--key", "--receipts", "--since"] {
        let inside = kept.data.path.join("lineage/checkpoint");
        let mut command = signet(&["lineage", "verify", "--data", kept.data(), option, text(&inside)]);
        if option != "--key" {
            command.arg("--key").arg(kept.file("keys"));
        }
        let (code, said) = run(&mut command);
        assert!(code == 64 && said.contains("lies in what is verified"), "{option}: {said}");
    }
    let (code, said) = kept.ours(&[&data[..], &["--since", text(&kept.file("anchor"))]].concat());
    assert!(code == 0 && said.contains("which an earlier run checked"), "{said}");
    fs::write(kept.file("empty"), "\n").expect("a file");
    assert_eq!(kept.ours(&[&data[..], &["--anchor", text(&kept.file("empty"))]].concat()).0, 1);
    // The checkpoint of the folder is changed: no more is it what its key signed.
    let inside = kept.data.path.join("lineage/checkpoint");
    let note = fs::read_to_string(&inside).expect("a file");
    let mut lines: Vec<_> = note.lines().map(str::to_owned).collect();
    lines[1] = "1".to_owned();
    fs::write(&inside, lines.join("\n") + "\n").expect("a file");
    assert_eq!(kept.ours(&data).0, 10);
}

/// The database alone, without the folder's own log, with some statement run on it.
fn changed(kept: &Kept, scratch: &Path, statement: &str) -> PathBuf {
    let data = scratch.join("data");
    fs::remove_dir_all(&data).ok();
    crate::lineage::copy(&kept.data.path, &data);
    fs::remove_dir_all(data.join("lineage")).expect("the log is there");
    crate::lineage::sqlite(&data, statement);
    data
}

#[test]
fn what_is_cut_from_the_database_shows_against_an_anchor_and_is_else_said_to_be_unchecked() {
    let (kept, scratch) = (Kept::new(), TempDir::new().expect("a folder"));
    let cut =
        "DELETE FROM lineage_entry WHERE seq >= 4; UPDATE lineage_log SET next_seq = 4; DELETE FROM lineage_checkpoint";
    let data = changed(&kept, scratch.path(), cut);
    let (code, said) = kept.ours(&["--data", text(&data)]);
    assert!(code == 16 && said.contains("an anchor was taken at size"), "{code}: {said}");
    let alone = |more: &[&str]| {
        run(signet(&["lineage", "verify", "--data", text(&data), "--key"]).arg(kept.file("keys")).args(more))
    };
    let (code, said) = alone(&[]);
    assert!(code == 0 && said.contains("not checked: truncation\n"), "{code}: {said}");
    assert_eq!(alone(&["--require-anchor"]).0, 31);
    let data = changed(&kept, scratch.path(), "DELETE FROM lineage_entry; DELETE FROM lineage_log");
    let (code, said) = kept.ours(&["--data", text(&data)]);
    assert!(code == 32 && said.contains("MISSING_LOG"), "{code}: {said}");
}

#[test]
fn one_record_is_checked_with_openssl_and_sha256sum_alone() {
    let kept = Kept::new();
    let export = fs::read_to_string(kept.file("export")).expect("a file");
    let keys = fs::read_to_string(kept.file("keys")).expect("a file");
    let pem = kept.file("key.pem");
    let end = "-----END PUBLIC KEY-----\n";
    fs::write(&pem, &keys[..keys.find(end).expect("a key") + end.len()]).expect("a file");
    let check = |line: &str, receipt: &str| {
        fs::write(kept.file("record"), format!("{line}\n")).expect("a file");
        run(Command::new("bash")
            .arg(repository().join("tools/verify/record.sh"))
            .args([&pem, &kept.file("record")])
            .arg(receipt))
    };
    let receipts = fs::read_to_string(kept.file("receipts")).expect("a file");
    let lines: Vec<_> = export.lines().collect();
    for receipt in receipts.lines() {
        let seq: usize = receipt.split(';').nth(3).and_then(|seq| seq.parse().ok()).expect("a seq");
        let (code, said) = check(lines[seq], receipt);
        assert!(code == 0 && said.contains("the receipt is of this record"), "{said}");
        let (code, said) = check(lines[seq - 1], receipt);
        assert!(code == 1 && said.contains("not of this record"), "{said}");
        let at = lines[seq].len() / 3;
        let other = if lines[seq].as_bytes()[at] == b'A' { "B" } else { "A" };
        let flipped = [&lines[seq][..at], other, &lines[seq][at + 1..]].concat();
        assert_ne!(check(&flipped, receipt).0, 0);
    }
}

#[test]
fn the_golden_log_is_good_to_the_tools_of_others() {
    let golden = repository().join("pkg/lineage/tests/lineage/golden");
    let theirs = |export: &Path| {
        let mut command = Command::new("python3");
        command
            .arg("-B")
            .arg(repository().join("tools/verify/signet_verify.py"))
            .arg("--key")
            .arg(golden.join("log.keys"));
        command.arg("--receipts").arg(golden.join("log.receipts")).arg("--anchor").arg(golden.join("log.checkpoints"));
        run(command.arg(export))
    };
    let (code, said) = theirs(&golden.join("log.jsonl"));
    assert!(code == 0 && said.contains("19 records in 1 logs: OK"), "{said}");
    let scratch = TempDir::new().expect("a folder");
    let log = fs::read_to_string(golden.join("log.jsonl")).expect("a file");
    let lines: Vec<_> = log.lines().collect();
    // Without the erasure, the rotation, the recovery or the opening, what they explain is a finding.
    for (missing, code) in [(10, 14), (16, 14), (15, 14), (0, 14)] {
        let file = scratch.path().join("changed");
        fs::write(&file, [&lines[..missing], &lines[missing + 1..]].concat().join("\n")).expect("a file");
        let (found, said) = theirs(&file);
        assert!(found == code && said.contains(&format!("seq {missing}")), "{found}: {said}");
    }
    let receipt = fs::read_to_string(golden.join("receipt.txt")).expect("a file");
    let script = repository().join("tools/verify/record.sh");
    let (code, said) = run(Command::new("bash")
        .arg(script)
        .args([golden.join("key.pem"), golden.join("envelope.json")])
        .arg(receipt.trim_end()));
    assert!(code == 0 && said.contains("the receipt is of this record"), "{said}");
}

#[test]
fn what_a_provider_counts_and_no_record_tells_is_found() {
    let kept = Kept::new();
    let all = records(&kept.data.path);
    let asked: Vec<_> = all.iter().filter(|record| record["predicate"]["provider"].is_object()).collect();
    assert!(asked.len() > 3, "some went upstream");
    let count = |path: &str| -> u64 {
        let billed = asked.iter().filter(|record| record["predicate"]["usage"]["billed"] == true);
        billed.filter_map(|record| record["predicate"]["usage"][path].as_u64()).sum()
    };
    let seconds = asked[0]["predicate"]["time"]["completed_ms"].as_u64().expect("a time") / 1000;
    let day =
        Command::new("date").args(["-u", "+%F", "-d"]).arg(format!("@{seconds}")).output().expect("it runs").stdout;
    let day = String::from_utf8(day).expect("text");
    for (more, code) in [(0, 0), (1, 14)] {
        let file = kept.file("usage.csv");
        let (requests, input, output) = (asked.len() as u64 + more, count("in"), count("out"));
        let line = format!("mock,m,{},{requests},{input},{output}", day.trim());
        fs::write(&file, format!("provider,model,day,requests,input_tokens,output_tokens\n{line}\n")).expect("a file");
        let (found, said) = kept.ours(&["--data", kept.data(), "--reconcile", text(&file)]);
        assert!(found == code && said.contains("reconcile: ") == (more > 0), "{found}: {said}");
    }
}
