//! The process: its start, its lock, its end.

use crate::client::{Conn, ask};
use crate::gateway::{Setup, addresses, chat, eventually, mock, mock_with, streamed};
use crate::keeper::Keeper;
use rustix::process::Signal;
use signet_mock::Behaviour;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

#[test]
fn a_running_stream_completes_after_sigterm_and_its_record_is_kept() {
    let mock = mock_with(Behaviour { chunks: Some(40), chunk_ms: Some(50), ..Behaviour::default() });
    let gateway = Setup::on(&mock).start();
    let mut keeper = Keeper::of(&gateway.data);
    let mut conn = gateway.begin(&streamed("What is a flood plain?"), &[("TE", "trailers")]);
    let head = conn.head().expect("a head");
    conn.chunk().expect("a chunk").expect("not the end");
    gateway.signal(Signal::TERM);
    eventually("draining", || gateway.log().contains("draining").then_some(()));
    let answer = conn.rest(head);
    assert!(answer.ended_well && answer.text().ends_with("data: [DONE]\n\n"), "{}", answer.text());
    keeper.keep(&answer);
    assert_eq!(keeper.kept(), 1);
    let folder = gateway.ended();
    keeper.accepts(&folder.path);
    // Shipped as well: the database alone proves it.
    fs::remove_dir_all(folder.path.join("lineage")).expect("the log is there");
    keeper.accepts(&folder.path);
}

#[test]
fn a_log_in_memory_is_shipped_to_its_last_record_before_the_end() {
    let mock = mock_with(Behaviour { chunks: Some(40), chunk_ms: Some(50), ..Behaviour::default() });
    let gateway = Setup::on(&mock).set("lineage.mode", "memory").start();
    let mut keeper = Keeper::of(&gateway.data);
    let mut conn = gateway.begin(&streamed("What is a water table?"), &[("TE", "trailers")]);
    let head = conn.head().expect("a head");
    gateway.signal(Signal::TERM);
    keeper.keep(&conn.rest(head));
    assert_eq!(keeper.kept(), 1);
    keeper.accepts(&gateway.ended().path);
}

#[test]
fn connections_without_a_request_do_not_hold_up_the_end() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let silent = Conn::open(gateway.addr);
    let mut used = Conn::open(gateway.addr);
    used.send("GET", "/healthz", &[], b"");
    assert_eq!(used.answer().status, 200);
    // Longer than the end may take, shorter than the grace time.
    drop(gateway.stop_within(std::time::Duration::from_secs(10)));
    drop(silent);
}

#[test]
fn while_draining_it_is_not_ready_and_takes_no_new_work() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { latency_ms: Some(2_000), ..Behaviour::default() }]);
    let mut running = gateway.begin(&chat("What is a drought?"), &[]);
    let mut waiting = Conn::open(gateway.addr);
    waiting.send("GET", "/healthz", &[], b"");
    waiting.answer();
    eventually("the call", || (mock.counts().requests == 1).then_some(()));
    gateway.signal(Signal::TERM);
    eventually("draining", || gateway.log().contains("draining").then_some(()));
    assert!(waiting.head().is_err(), "an idle connection is closed");
    eventually("no listener", || std::net::TcpStream::connect(gateway.addr).is_err().then_some(()));
    assert_eq!(running.answer().status, 200);
    drop(gateway.ended());
}

#[test]
fn a_folder_named_relative_to_where_it_is_started_is_good() {
    let mock = mock();
    let home = TempDir::new().expect("a folder");
    let mut child = Setup::on(&mock).command("data".as_ref()).current_dir(home.path()).spawn().expect("it starts");
    let (addr, _) = eventually("listening", || addresses(&home.path().join("data")));
    eventually("ready", || {
        let mut conn = Conn::open(addr);
        conn.send("GET", "/readyz", &[], b"");
        (conn.answer().status == 200).then_some(())
    });
    assert!(home.path().join("data/signet.db").exists());
    child.kill().expect("it runs");
    child.wait().expect("a child can be waited for");
}

#[test]
fn a_second_process_on_the_same_folder_gives_up_with_75() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let gateway = Setup::on(&mock).within(folder.path()).start();
    for wait in ["0", "1"] {
        let out = Setup::on(&mock).set("server.lock_wait_s", wait).run(folder.path());
        assert_eq!(out.status.code(), Some(75), "{}", String::from_utf8_lossy(&out.stderr));
    }
    gateway.chat(&chat("What is a bog?"), &[]).is(200, "MISS");
    drop(gateway.kill());
    let next = Setup::on(&mock).within(folder.path()).set("server.lock_wait_s", "0").start();
    next.chat(&chat("What is a bog?"), &[]);
}

#[test]
fn a_second_process_takes_over_when_the_first_ends_within_the_wait() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let first = Setup::on(&mock).within(folder.path()).start();
    first.chat(&chat("What is a marsh?"), &[]).is(200, "MISS");
    std::thread::scope(|scope| {
        let mock = &mock;
        let second = scope.spawn(|| Setup::on(mock).within(folder.path()).start());
        drop(first.stop());
        second.join().expect("it starts").chat(&chat("What is a marsh?"), &[]).is(200, "EXACT");
    });
}

#[test]
fn faults_of_the_configuration_are_told_together_before_a_port_is_bound() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    // Were a port bound first, this taken one would be the complaint.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let setup = Setup::on(&mock)
        .set("server.listen", &taken.local_addr().expect("bound").to_string())
        .set("cache.ttl_s", "soon")
        .set("limits.ip_burst", "-1")
        .set("auth.mode", "keys")
        .set("nonsense.key", "1");
    let out = setup.run(folder.path());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(78), "{said}");
    for fault in ["cache.ttl_s", "limits.ip_burst", "auth.mode", "nonsense"] {
        assert!(said.contains(fault), "{fault} is not in: {said}");
    }
    assert!(!folder.path().join("signet.db").exists() && !folder.path().join("LOCK").exists());
}

#[test]
fn a_device_in_the_place_of_a_key_is_a_fault_of_the_configuration_and_never_read_to_its_end() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let setup = Setup::on(&mock).set("lineage.key_file", "/dev/zero").set("auth.secret_file", "/dev/zero");
    let out = setup.run(folder.path());
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(78), "{said}");
    for key in ["lineage.key_file", "auth.secret_file"] {
        assert!(said.contains(&format!("{key}: /dev/zero cannot be read: it is not a plain file")), "{said}");
    }
}

#[test]
fn a_taken_port_is_a_failure_and_not_a_hang() {
    let mock = mock();
    let folder = TempDir::new().expect("a folder");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let out = Setup::on(&mock).set("server.listen", &address).run(folder.path());
    assert_eq!(out.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&out.stderr).contains(&address));
}

#[test]
fn what_is_secret_in_the_folder_is_for_its_owner_only() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for file in ["lineage.key", "tenant.secret", "admin.token"] {
        let mode = fs::metadata(gateway.data.join(file)).expect(file).permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file}");
    }
}

#[test]
fn the_admin_listener_wants_its_token_and_its_own_name() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    let path = "/admin/v1/status";
    assert_eq!(ask(gateway.admin, "GET", path, &[], b"").status, 401);
    assert_eq!(ask(gateway.admin, "GET", path, &[("Authorization", "Bearer wrong")], b"").status, 401);
    assert_eq!(ask(gateway.admin, "GET", "/metrics", &[("Host", "evil.example")], b"").status, 421);
    // The host of an absolute target counts, and not that of the field beside it.
    assert_eq!(ask(gateway.admin, "GET", "http://evil.example/metrics", &[], b"").status, 421);
    assert_eq!(ask(gateway.admin, "GET", "http://localhost/metrics", &[("Host", "evil.example")], b"").status, 200);
    assert_eq!(gateway.status()["log"]["next_seq"], 1);
    assert_eq!(ask(gateway.admin, "GET", "/readyz", &[], b"").status, 200);
    gateway.chat(&chat("What is a fen?"), &[]).is(200, "MISS");
    let metrics = ask(gateway.admin, "GET", "/metrics", &[], b"").text();
    let counted = "signet_requests_total{endpoint=\"chat\",status=\"200\",cache=\"MISS\"} 1";
    assert!(metrics.ends_with("# EOF\n") && metrics.contains(counted), "{metrics}");
}
