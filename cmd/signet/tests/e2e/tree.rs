//! What a gateway publishes of its tree, read by implementations that are not ours and by anyone with a file.

use crate::client::Answer;
use crate::gateway::{Gateway, Setup, chat, eventually, mock, records, signet};
use crate::keeper::Keeper;
use crate::lineage::copy;
use serde_json::Value;
use sha2::{Digest, Sha256};
use signed_note::{Note, StandardVerifier, VerifierList};
use signet_lineage::tlog::{NoteKey, notes_in};
use signet_lineage::{TreeHead, verify};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use tempfile::TempDir;
use tlog_tiles::{Hash, TileHashReader, TileReader, check_record, check_tree, prove_record, prove_tree};

/// The log's name is its key's name.
fn log_of(note: &str) -> &str {
    note.lines().next().and_then(|origin| origin.rsplit_once('/')).expect("a name with a log").1
}

fn size_of(note: &str) -> u64 {
    note.lines().nth(1).and_then(|size| size.parse().ok()).expect("a size")
}

/// From the admin listener, where whoever has a token gets it.
#[track_caller]
fn read(gateway: &Gateway, path: &str) -> Answer {
    gateway.admin_get(path)
}

/// The verifier key that the gateway shows.
#[track_caller]
fn vkey(gateway: &Gateway) -> NoteKey {
    let text = read(gateway, "/v1/lineage/keys").text();
    text.lines().find_map(|line| line.parse().ok()).expect("a verifier key")
}

fn own_log(gateway: &Gateway) -> String {
    vkey(gateway).name().rsplit_once('/').expect("a name with a log").1.to_owned()
}

/// The newest checkpoint, once it covers `size` records; its signature is checked.
#[track_caller]
fn checkpoint_over(gateway: &Gateway, size: u64) -> (String, TreeHead) {
    let (key, log) = (vkey(gateway), own_log(gateway));
    eventually("a checkpoint", || {
        let answer = read(gateway, &format!("/v1/lineage/logs/{log}/checkpoint"));
        let note = Some(answer.text()).filter(|note| answer.status == 200 && size_of(note) >= size)?;
        let checked = verify::checkpoint(&note, std::slice::from_ref(&key)).expect("signed by the key that is shown");
        Some((note, checked.head))
    })
}

fn asked(gateway: &Gateway, what: &str, count: u32) -> Vec<Answer> {
    (0..count).map(|n| gateway.chat(&chat(&format!("What is {what} {n}?")), &[])).collect()
}

/// A gateway's tiles, as another client reads them.
struct Served<'a> {
    gateway: &'a Gateway,
    log: String,
}

impl TileReader for Served<'_> {
    fn height(&self) -> u8 {
        8
    }

    fn read_tiles(&self, tiles: &[tlog_tiles::Tile]) -> Result<Vec<Vec<u8>>, tlog_tiles::Error> {
        let path = |tile: &tlog_tiles::Tile| tile.path().replacen("tile/8/", "tile/", 1);
        let read = |tile| read(self.gateway, &format!("/v1/lineage/logs/{}/{}", self.log, path(tile))).body;
        Ok(tiles.iter().map(read).collect())
    }

    fn save_tiles(&self, _: &[tlog_tiles::Tile], _: &[Vec<u8>]) {}
}

#[test]
fn other_implementations_take_the_checkpoints_tiles_and_entries_of_a_gateway() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    asked(&gateway, "a small log", 3);
    let (early, before) = checkpoint_over(&gateway, 4);
    asked(&gateway, "a longer log", 290);
    let (note, checked) = checkpoint_over(&gateway, 294);
    let verifiers =
        || VerifierList::new(vec![Box::new(StandardVerifier::new(&vkey(&gateway).to_string()).expect("a key"))]);
    for note in [&early, &note] {
        let theirs = Note::from_bytes(note.as_bytes()).expect("a note");
        assert_eq!(theirs.verify(&verifiers()).expect("our key signed it").0.len(), 1);
        let read = tlog_tiles::Checkpoint::from_bytes(theirs.text()).expect("a checkpoint");
        assert_eq!(
            (read.size(), read.origin()),
            (size_of(note), format!("localhost/signet/{}", log_of(note)).as_str())
        );
    }
    let served = Served { gateway: &gateway, log: log_of(&note).to_owned() };
    let (size, root) = (checked.size, Hash(checked.root));
    let reader = TileHashReader::new(size, root, &served);
    let path = prove_tree(size, before.size, &reader).expect("our tiles are whole");
    check_tree(&path, size, root, before.size, Hash(before.root)).expect("the earlier one is its beginning");

    // Entries, by their lengths: each hashes to the leaf that the tiles prove.
    let mut seq = 0;
    for path in ["tile/entries/000".to_owned(), format!("tile/entries/001.p/{}", size - 256)] {
        let answer = read(&gateway, &format!("/v1/lineage/logs/{}/{path}", served.log));
        assert_eq!(
            (answer.status, answer.header("cache-control").is_some_and(|c| c.contains("immutable"))),
            (200, true)
        );
        let mut rest = &answer.body[..];
        while let Some((len, more)) = rest.split_first_chunk::<2>() {
            let (leaf, more) = more.split_at(usize::from(u16::from_be_bytes(*len)));
            let hash = Hash(Sha256::new().chain_update([0]).chain_update(leaf).finalize().into());
            assert_eq!((leaf.len(), &leaf[17..25]), (129, &u64::to_be_bytes(seq)[..]));
            let path = prove_record(size, seq, &reader).expect("our tiles are whole");
            check_record(&path, size, root, seq, hash).expect("the entry is in the tree");
            (rest, seq) = (more, seq + 1);
        }
    }
    assert_eq!(seq, size);
}

#[test]
fn a_record_comes_with_its_proof_as_soon_as_a_checkpoint_covers_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let answers = asked(&gateway, "a proof", 5);
    let key = vkey(&gateway);
    for answer in &answers {
        let path = format!("/v1/lineage/{}", answer.id());
        let shown = eventually("a proof", || Some(gateway.get(&path).json()).filter(|shown| !shown["proof"].is_null()));
        let receipt: signet_lineage::Receipt = shown["receipt"].as_str().expect("text").parse().expect("a receipt");
        let proof = shown["proof"].as_str().expect("text");
        let included = verify::proof_file(proof, &receipt.leaf_hash, std::slice::from_ref(&key)).expect("it is proved");
        assert_eq!(included.index, receipt.seq);
        assert!(verify::proof_file(proof, &[7; 32], std::slice::from_ref(&key)).is_err());
        // What is needed to go from the file alone to the root: the leaf itself.
        let extra = proof.lines().find_map(|line| line.strip_prefix("extra ")).expect("the leaf");
        let leaf = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, extra).expect("base64");
        let hash: [u8; 32] = Sha256::new().chain_update([0]).chain_update(&leaf).finalize().into();
        assert_eq!(hash, receipt.leaf_hash);
    }
}

#[test]
fn a_tree_is_public_only_where_the_operator_says_so_and_watching_it_does_not_make_it_grow() {
    let mock = mock();
    let private = Setup::on(&mock).start();
    asked(&private, "a secret", 1);
    let (note, _) = checkpoint_over(&private, 2);
    let path = format!("/v1/lineage/logs/{}/checkpoint", log_of(&note));
    private.get(&path).refusal(404);
    private.get("/v1/lineage/keys").refusal(404);

    let public = Setup::on(&mock).set("lineage.public", "true").start();
    asked(&public, "an open book", 1);
    let (note, _) = checkpoint_over(&public, 2);
    let log = log_of(&note).to_owned();
    let before = public.status()["log"]["next_seq"].clone();
    let get = |rest: &str| public.get(&format!("/v1/lineage/logs/{log}/{rest}"));
    let answer = get("checkpoint");
    assert_eq!((answer.status, answer.need("cache-control")), (200, "no-store"));
    assert!(answer.need("content-type").starts_with("text/plain"));
    assert_eq!(get("tile/0/000.p/2").body.len(), 64);
    assert_eq!(get("tile/0/000.p/1").body.len(), 32, "a client with an older checkpoint is served too");
    assert_eq!(get("tile/entries/000.p/1").body.len(), 131);
    assert_eq!(public.get("/v1/lineage/keys").status, 200);
    let odd = ["tile/0/000", "tile/0/000.p/200", "tile/1/000.p/1", "tile/0/0", "tile/entries/001", "tile/8/000.p/1"];
    let strange =
        ["tile/0/000.p/0", "tile/0/000.p/257", "tile/0/x000/001", "tile/63/x999/x999/x999/x999/x999/x999/999"];
    for rest in odd.iter().chain(&strange) {
        assert_eq!(get(rest).status, 404, "{rest}");
    }
    assert_eq!(public.get("/v1/lineage/logs/x/checkpoint").status, 404);
    assert_eq!(public.get("/v1/lineage/logs/00000000-0000-7000-8000-000000000000/checkpoint").status, 404);
    assert_eq!(public.status()["log"]["next_seq"], before);
}

fn newest(data: &Path) -> String {
    let out = signet(&["lineage", "checkpoint", "--data"]).arg(data).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("text")
}

#[test]
fn an_anchor_file_keeps_whole_notes_and_the_last_one_covers_the_log_as_it_ended() {
    let mock = mock();
    let (folder, elsewhere) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let anchors = elsewhere.path().join("anchors");
    let place = anchors.to_str().expect("a plain name");
    let setup = Setup::on(&mock).within(folder.path()).set("lineage.anchor.0.file", place);
    let setup = setup.set("lineage.anchor_every_s", "1");
    for round in 0..2 {
        let gateway = setup.start();
        let key = vkey(&gateway);
        asked(&gateway, &format!("round {round}"), 5);
        drop(gateway.stop());
        let text = fs::read_to_string(&anchors).expect("an anchor file");
        let notes: Vec<&str> = notes_in(&text).into_iter().map(|note| note.expect("whole notes only")).collect();
        let sizes: Vec<u64> = notes.iter().map(|note| size_of(note)).collect();
        assert!(sizes.is_sorted() && sizes.iter().all(|size| *size > 0), "{sizes:?}");
        for note in &notes {
            verify::checkpoint(note, std::slice::from_ref(&key)).expect("a signed note");
        }
        let last = sizes.last().copied().expect("at least one");
        assert_eq!(last, records(folder.path()).len() as u64, "the log's end is covered");
        let printed = newest(folder.path());
        assert_eq!(notes_in(&printed), [Ok(*notes.last().expect("at least one"))]);
        let by_database = format!("sqlite://{}", folder.path().join("signet.db").display());
        let out = signet(&["lineage", "checkpoint", "--db", &by_database]).output().expect("it runs");
        assert_eq!(String::from_utf8(out.stdout).expect("text"), printed, "the database has it too");
    }
}

/// Head and body of each request.
type Kept = Arc<Mutex<Vec<(String, String)>>>;

/// An endpoint that keeps what it is sent; it refuses the first, and forgets to answer the second.
fn endpoint() -> (String, Kept) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/anchors/signet", listener.local_addr().expect("an address"));
    let kept = Kept::default();
    let keep = kept.clone();
    std::thread::spawn(move || {
        for (number, connection) in listener.incoming().enumerate() {
            let Ok(mut connection) = connection else { return };
            let mut reader = BufReader::new(connection.try_clone().expect("a socket"));
            let (mut head, mut line) = (String::new(), String::new());
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                head += &std::mem::take(&mut line);
            }
            let field =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let mut body = vec![0; field.unwrap_or(0)];
            if reader.read_exact(&mut body).is_err() {
                continue;
            }
            if number > 0 {
                keep.lock().expect("no panic under it").push((head, String::from_utf8(body).expect("text")));
            }
            let answer = if number == 0 { "500 Internal Server Error" } else { "200 OK" };
            if number != 1 {
                drop(write!(connection, "HTTP/1.1 {answer}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
            }
        }
    });
    (url, kept)
}

#[test]
fn an_endpoint_that_fails_or_does_not_answer_gets_the_note_again_and_no_request_notices() {
    let mock = mock();
    let (url, kept) = endpoint();
    let setup = Setup::on(&mock).set("lineage.anchor.0.url", &url).set("lineage.anchor_every_s", "1");
    let gateway = setup.env("TOKEN", "s3cret").set("lineage.anchor.0.token_env", "TOKEN").start();
    assert!(asked(&gateway, "an anchor", 3).iter().all(|answer| answer.status == 200));
    let key = vkey(&gateway);
    let seen = eventually("a note kept twice", || {
        let kept = kept.lock().expect("no panic under it");
        (kept.len() > 1).then(|| kept.clone())
    });
    for (head, note) in &seen {
        assert!(head.starts_with("POST /anchors/signet HTTP/1.1\r\n"), "{head}");
        assert!(head.to_ascii_lowercase().contains("authorization: bearer s3cret"), "{head}");
        verify::checkpoint(note, std::slice::from_ref(&key)).expect("a signed note");
    }
    let failed = eventually("the failures", || {
        let failed = gateway.metric(&format!("signet_anchor_failures_total{{anchor=\"{url}\"}} "));
        (failed >= 2).then_some(failed)
    });
    assert_eq!(failed, 2);
    assert!(!gateway.log().contains("s3cret"));
}

#[test]
fn an_anchor_behind_a_proxy_is_reached_through_it() {
    let mock = mock();
    let (proxy, kept) = endpoint();
    let proxy = proxy.trim_end_matches("/anchors/signet");
    let setup =
        Setup::on(&mock).set("lineage.anchor.0.url", "http://anchors.test/signet").set("lineage.anchor_every_s", "1");
    let gateway = setup.set("lineage.anchor.0.proxy_url", proxy).start();
    assert!(asked(&gateway, "a proxy", 2).iter().all(|answer| answer.status == 200));
    let (head, note) = eventually("a note", || kept.lock().expect("no panic under it").first().cloned());
    assert!(head.starts_with("POST http://anchors.test/signet HTTP/1.1\r\n"), "{head}");
    verify::checkpoint(&note, &[vkey(&gateway)]).expect("a signed note");
}

#[test]
fn a_folder_restored_from_before_its_last_checkpoint_is_set_aside_even_with_an_empty_database() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    let setup = Setup::on(&mock).within(&data);
    let gateway = setup.start();
    asked(&gateway, "a backup", 2);
    drop(gateway.stop());
    copy(&data.join("lineage"), &backup);
    let gateway = setup.start();
    asked(&gateway, "what came later", 3);
    let log = own_log(&gateway);
    drop(gateway.stop());
    // The segments come back as they were; the database is gone, and only the checkpoint knows better.
    let checkpoint = fs::read(data.join("lineage/checkpoint")).expect("a checkpoint");
    fs::remove_dir_all(data.join("lineage")).expect("the log is there");
    copy(&backup, &data.join("lineage"));
    fs::write(data.join("lineage/checkpoint"), checkpoint).expect("written");
    for file in ["signet.db", "signet.db-wal", "signet.db-shm"] {
        fs::remove_file(data.join(file)).ok();
    }
    let gateway = setup.start();
    assert!(gateway.log().contains("moved aside"), "{}", gateway.log());
    assert_ne!(own_log(&gateway), log);
    let aside = data.join("lineage").join(format!("old-{log}"));
    assert!(aside.join("checkpoint").exists() && aside.join("tile").exists());
    checkpoint_over(&gateway, 1);
}

#[test]
fn a_log_that_does_not_hash_to_its_checkpoint_is_refused_and_so_are_a_damaged_checkpoint_and_a_lost_key() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    asked(&gateway, "a fork", 3);
    drop(gateway.stop());
    let (log, own) = (folder.path().join("lineage"), folder.path().join("lineage-checkpoint.key"));
    let mode = fs::metadata(&own).expect("a key").permissions();
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777, 0o600, "for its owner alone");
    let (note, key) = (fs::read(log.join("checkpoint")).expect("a checkpoint"), fs::read(&own).expect("a key"));
    let refused = |what: &str| {
        let out = setup.run(folder.path());
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(1), "{said}");
        assert!(said.contains(what), "{said}");
    };
    // Signed by the key that is there, over another history.
    let signer = signet_lineage::Signer::from_pkcs8(&key).expect("a key");
    let text = String::from_utf8(note.clone()).expect("text");
    let origin = text.lines().next().expect("an origin").to_owned();
    let name = NoteKey::new(&origin, signer.public_key()).expect("a name");
    let head = TreeHead { size: size_of(&text), root: [7; 32] };
    let other = signet_lineage::tlog::Checkpoint { origin, head }.sign(&name, &signer);
    fs::write(log.join("checkpoint"), other).expect("written");
    refused("do not hash to the tree");
    fs::write(log.join("checkpoint"), text.replacen("\n4\n", "\n3\n", 1)).expect("written");
    refused("is damaged");
    fs::write(log.join("checkpoint"), &note).expect("written");
    fs::remove_file(&own).expect("removed");
    refused("restore the key");
    let stranger = signet_lineage::Signer::generate().to_pkcs8();
    fs::write(&own, &*stranger).expect("written");
    refused("signed by another key");
    fs::write(&own, key).expect("written");
    drop(setup.start());
}

fn control<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    let of_kind = |record: &&Value| record["predicate"]["kind"] == kind;
    records.iter().filter(of_kind).map(|record| &record["predicate"]["control"]).collect()
}

#[test]
fn a_log_from_before_there_were_checkpoints_names_their_key_once_and_its_old_records_are_covered() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let mut keeper = Keeper::of(folder.path());
    for answer in asked(&gateway, "an old log", 4) {
        keeper.keep(&answer);
    }
    drop(gateway.stop());
    let opened = records(folder.path());
    assert_eq!(control(&opened, "log_open")[0]["checkpoint_key"].as_str().map(str::len), Some(64));
    assert_eq!(control(&opened, "key_rotate").len(), 0);
    // As an older release leaves it: the log knows no key of this name.
    fs::remove_file(folder.path().join("lineage-checkpoint.key")).expect("removed");
    fs::remove_file(folder.path().join("lineage/checkpoint")).expect("removed");
    fs::remove_dir_all(folder.path().join("lineage/tile")).expect("removed");
    for _ in 0..2 {
        let gateway = setup.start();
        keeper.keep(&asked(&gateway, "a newer release", 1)[0]);
        let (note, _) = checkpoint_over(&gateway, 6);
        let key = vkey(&gateway);
        drop(gateway.stop());
        let all = records(folder.path());
        let rotations = control(&all, "key_rotate");
        assert_eq!(rotations.len(), 1);
        let new = rotations[0]["new_key"].as_str().expect("a key");
        assert_eq!(
            (rotations[0]["use"].as_str(), new),
            (Some("checkpoint"), hex(key.public_key().as_bytes()).as_str())
        );
        let signed =
            format!("signet-key-rotate/v1\n{}\ncheckpoint\n\n{new}\n", note.lines().next().unwrap_or_default());
        let proof = rotations[0]["proof"].as_str().expect("a proof");
        assert!(fits(&key.public_key().to_pem(), signed.as_bytes(), proof), "the new key agrees");
        keeper.accepts(folder.path());
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |digits, byte| format!("{digits}{byte:02x}"))
}

/// Whether openssl takes the signature.
fn fits(pem: &str, text: &[u8], signature: &str) -> bool {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        path
    };
    let bytes: Vec<u8> = (0..signature.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&signature[at..at + 2], 16).expect("hexadecimal"))
        .collect();
    let (key, text, signature) = (at("key", pem.as_bytes()), at("text", text), at("signature", &bytes));
    let mut openssl = Command::new("openssl");
    openssl.args(["pkeyutl", "-verify", "-pubin", "-rawin", "-inkey"]).arg(key).arg("-in").arg(text);
    openssl.arg("-sigfile").arg(signature).output().expect("openssl runs").status.success()
}

#[test]
fn a_log_in_memory_publishes_what_its_database_holds() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("lineage.mode", "memory").start();
    let answers = asked(&gateway, "a fleeting log", 3);
    let (note, checked) = checkpoint_over(&gateway, 4);
    let tile = read(&gateway, &format!("/v1/lineage/logs/{}/tile/0/000.p/{}", log_of(&note), checked.size));
    assert_eq!(tile.body.len() as u64, 32 * checked.size);
    let shown = gateway.get(&format!("/v1/lineage/{}", answers[0].id())).json();
    assert!(shown["proof"].as_str().is_some_and(|proof| proof.starts_with("c2sp.org/tlog-proof@v1\n")), "{shown}");
}

#[test]
fn a_replica_proves_records_that_another_one_wrote() {
    let mock = mock();
    let database = crate::stack::fresh_database();
    let setup = Setup::on(&mock).on_services(&database, None).set("lineage.anchor_every_s", "1");
    let (one, two) = (setup.start(), setup.start());
    let answer = asked(&one, "a replica", 1).remove(0);
    let (_, checked) = checkpoint_over(&one, 2);
    let (log, key) = (own_log(&one), vkey(&one));
    let shown = eventually("a proof", || {
        let shown = two.get(&format!("/v1/lineage/{}", answer.id()));
        Some(shown.json()).filter(|json| shown.status == 200 && !json["proof"].is_null())
    });
    let receipt: signet_lineage::Receipt = shown["receipt"].as_str().expect("text").parse().expect("a receipt");
    let proof = shown["proof"].as_str().expect("text");
    verify::proof_file(proof, &receipt.leaf_hash, std::slice::from_ref(&key)).expect("it is proved");
    let tile = format!("/v1/lineage/logs/{log}/tile/0/000.p/{}", checked.size);
    assert_eq!(read(&two, &tile).body, read(&one, &tile).body);
    let entries = format!("/v1/lineage/logs/{log}/tile/entries/000.p/{}", checked.size);
    assert_eq!(read(&two, &entries).body, read(&one, &entries).body);
}

#[test]
fn a_proof_is_of_the_checkpoint_that_it_carries_while_the_log_grows() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("lineage.checkpoint_every_leaves", "1").start();
    let answers = asked(&gateway, "a growing log", 3);
    let (key, mut sizes, enough) = (vkey(&gateway), Vec::new(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut left = 10_000;
            while left > 0 && !enough.load(Ordering::Relaxed) {
                asked(&gateway, "what makes it grow", 1);
                left -= 1;
            }
        });
        let mut answers = answers.iter().cycle();
        eventually("several checkpoints", || {
            let shown = gateway.get(&format!("/v1/lineage/{}", answers.next().expect("no end").id())).json();
            if let Some(proof) = shown["proof"].as_str() {
                let receipt: signet_lineage::Receipt =
                    shown["receipt"].as_str().expect("text").parse().expect("a receipt");
                let proved = verify::proof_file(proof, &receipt.leaf_hash, std::slice::from_ref(&key));
                let size = proved.expect("it is proved").checkpoint.head.size;
                if sizes.last() != Some(&size) {
                    sizes.push(size);
                }
            }
            (sizes.len() > 3).then_some(())
        });
        enough.store(true, Ordering::Relaxed);
    });
    assert!(sizes.is_sorted(), "no checkpoint is taken back: {sizes:?}");
}
