//! kill -9 under load: a client's complete answers all have their records afterwards.

use crate::client::Conn;
use crate::gateway::{CHAT, Gateway, Setup, chat, mock, streamed};
use crate::keeper::Keeper;
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use tempfile::TempDir;

const CLIENTS: usize = 4;

/// What a client saw of a complete answer.
struct Seen {
    id: String,
    receipt: Option<String>,
}

/// One client: asks on one connection until the gateway is gone; only whole answers count.
fn client(to: SocketAddr, name: &str, total: &AtomicUsize) -> Vec<Seen> {
    let mut seen = Vec::new();
    let mut conn = Conn::open(to);
    for n in 0_u32.. {
        // Misses, hits, and both as streams.
        let prompt = format!("What is number {} of {name}?", n / 2);
        let request = if n % 4 < 2 { chat(&prompt) } else { streamed(&prompt) };
        let headers = [("Content-Type", "application/json"), ("TE", "trailers")];
        let bytes = crate::client::request("POST", CHAT, &headers, request.to_string().as_bytes());
        let Some(head) = conn.write(&bytes).ok().and_then(|()| conn.head().ok()) else { break };
        let answer = conn.rest(head);
        let whole = answer.ended_well || answer.text().ends_with("data: [DONE]\n\n");
        if !whole || answer.status != 200 {
            break;
        }
        let receipt = answer.header("lineage-receipt").or_else(|| answer.trailer("lineage-receipt"));
        seen.push(Seen { id: answer.id(), receipt: receipt.map(str::to_owned) });
        total.fetch_add(1, Ordering::SeqCst);
    }
    seen
}

/// Loads the gateway, kills it after `enough` complete answers, and returns what the clients saw.
fn killed_under_load(gateway: Gateway, round: usize, enough: usize) -> Vec<Seen> {
    let (to, total) = (gateway.addr, AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let total = &total;
        let clients: Vec<_> =
            (0..CLIENTS).map(|n| scope.spawn(move || client(to, &format!("client {round} {n}"), total))).collect();
        crate::gateway::eventually("load", || (total.load(Ordering::SeqCst) >= enough).then_some(()));
        drop(gateway.kill());
        clients.into_iter().flat_map(|client| client.join().expect("a client does not panic")).collect()
    })
}

/// How often a gateway is killed, at other moments each time. `make kills` does it more often, with a counter of its own.
const KILLS: usize = 3;

/// After how many complete answers the kill of this round comes: with four clients at work, it meets each of them anywhere.
fn moment(seed: u64, round: usize) -> usize {
    let mixed = Sha256::new().chain_update(seed.to_le_bytes()).chain_update(round.to_le_bytes()).finalize();
    40 + usize::from(mixed[0])
}

#[test]
fn after_kill_minus_nine_every_complete_answer_has_its_record_and_all_verify() {
    survives_kills("spool");
}

#[test]
fn in_strict_mode_too_every_complete_answer_has_its_record_after_kill_minus_nine() {
    survives_kills("strict");
}

fn survives_kills(mode: &str) {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path()).set("lineage.mode", mode);
    let mut gateway = setup.start();
    let mut keeper = Keeper::of(folder.path());
    let seed = RandomState::new().hash_one(0);
    let mut answers = 0;
    for round in 0..KILLS {
        let enough = moment(seed, round);
        let whole = killed_under_load(gateway, round, enough);
        assert!(whole.len() >= enough);
        keeper.keep_all(whole.iter().filter_map(|seen| seen.receipt.clone()));
        keeper.accepts(folder.path());
        gateway = setup.start();
        for Seen { id, .. } in &whole {
            assert_eq!(gateway.record(id)["predicate"]["response"]["outcome"], "complete");
        }
        answers += whole.len();
        keeper.accepts(folder.path());
    }
    eprintln!("{mode}: {answers} complete answers, {} receipts, none lost", keeper.kept());
    assert!(keeper.kept() >= answers - KILLS * CLIENTS, "{} receipts of {answers}", keeper.kept());
    let interrupted = crate::gateway::records(folder.path());
    let kinds = |kind: &str| interrupted.iter().filter(|record| record["predicate"]["kind"] == kind).count();
    assert_eq!((kinds("log_open"), kinds("recovery")), (1, KILLS));
}

#[test]
fn what_was_under_way_is_recorded_as_interrupted_under_the_id_that_its_caller_holds() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    mock.script([signet_mock::Behaviour::fault(signet_mock::Fault::HangAfter(2))]);
    let mut conn = gateway.begin(&streamed("What is a landslide?"), &[]);
    let head = conn.head().expect("a head");
    drop(gateway.kill());
    let (_, id) = head.headers.iter().find(|(name, _)| name == "lineage-id").expect("an id");
    let gateway = setup.start();
    let record = gateway.record(id);
    assert_eq!(record["predicate"]["response"]["outcome"], "interrupted");
    assert_eq!(record["predicate"]["kind"], "request");
    Keeper::of(folder.path()).accepts(folder.path());
    gateway.chat(&streamed("What is a landslide?"), &[]).is(200, "MISS");
}

#[test]
fn what_was_under_way_is_recorded_with_at_least_the_bytes_that_the_log_was_told_of() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).within(folder.path());
    let gateway = setup.start();
    let behaviour =
        signet_mock::Behaviour { answer_bytes: Some(1 << 20), chunks: Some(100), ..signet_mock::Behaviour::default() };
    mock.script([signet_mock::Behaviour { fault: Some(signet_mock::Fault::HangAfter(60)), ..behaviour }]);
    let mut conn = gateway.begin(&streamed("What is a mudslide?"), &[]);
    let id = conn.head().expect("a head").headers.into_iter().find(|(name, _)| name == "lineage-id").expect("an id").1;
    let mut came = 0;
    while came < 600 << 10 {
        came += conn.chunk().expect("a chunk").expect("more").len() as u64;
    }
    drop(gateway.kill());
    let record = setup.start().record(&id);
    let response = &record["predicate"]["response"];
    assert_eq!(response["outcome"], "interrupted");
    let told = response["bytes"].as_u64().expect("a number");
    assert!((256 << 10..1 << 21).contains(&told), "{told} of {came}");
    Keeper::of(folder.path()).accepts(folder.path());
}

/// Changes one byte of the log's first segment, within the `n`th payload that it holds, counted from the end if negative.
pub(crate) fn damage(data: &std::path::Path, n: isize) {
    let segment = segments(data).remove(0);
    let mut bytes = std::fs::read(&segment).expect("a file");
    let needle = b"\"predicateType\"";
    let written = &bytes[..bytes.len().min(1 << 17)]; // the rest of the segment is still empty
    let places: Vec<_> = (0..written.len() - needle.len()).filter(|at| written[*at..].starts_with(needle)).collect();
    let nth = if n < 0 { places.len().checked_add_signed(n) } else { usize::try_from(n).ok() };
    bytes[places[nth.expect("so many payloads")]] ^= 1;
    std::fs::write(segment, bytes).expect("a file");
}

/// The segments of a folder's log, oldest first.
pub(crate) fn segments(data: &std::path::Path) -> Vec<std::path::PathBuf> {
    let files = std::fs::read_dir(data.join("lineage")).expect("the log").map(|entry| entry.expect("an entry").path());
    let name =
        |path: &std::path::PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"seg-"));
    let mut segments: Vec<_> = files.filter(name).collect();
    segments.sort();
    segments
}

#[test]
fn damage_to_the_log_itself_is_told_at_the_start_and_never_passes() {
    let mock = mock();
    for (n, told) in [(3, "unreadable"), (-1, "")] {
        let folder = TempDir::new().expect("a folder");
        let secret = folder.path().join("secret");
        std::fs::write(&secret, "7".repeat(64)).expect("a file");
        let data = folder.path().join("data");
        let away = format!("postgres://signet:x@{}/none", crate::stack::free_address());
        let setup = Setup::on(&mock).within(&data).on_services(&away, None);
        let setup = setup.set("auth.secret_file", secret.to_str().expect("plain"));
        let gateway = setup.start();
        let mut keeper = Keeper::of(&data);
        for n in 0..6 {
            keeper.keep(&gateway.chat(&chat(&format!("What is cave {n}?")), &[]));
        }
        keeper.accepts(&data);
        drop(gateway.kill());
        damage(&data, n);
        let source = ["--data", data.to_str().expect("plain")];
        let before = keeper.verify(&source);
        assert!(![0, 1, 64].contains(&before.0), "{n}: {before:?}");
        let gateway = setup.start();
        assert!(gateway.log().contains(told), "{}", gateway.log());
        keeper.keep(&gateway.chat(&chat("What is a cave?"), &[]));
        let after = keeper.verify(&source);
        assert!(![0, 1, 64].contains(&after.0), "{n}: {after:?}");
        assert_eq!(keeper.kept(), 7);
    }
}
