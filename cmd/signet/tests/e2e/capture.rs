//! Bodies that are kept sealed: only the offline key opens them, and only behind a signed record that says so.

use crate::client::{Answer, ask, payload};
use crate::gateway::{Gateway, Setup, chat, eventually, mock, mock_with, records, signet, streamed, with};
use crate::keeper::Keeper;
use crate::lineage::sqlite;
use crate::stack::{Postgres, fresh_database, sql, told};
use serde_json::{Value, json};
use signet_mock::{Behaviour, MockUpstream};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

pub(crate) const PUBLIC: &str = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VuAyEAQxDul9iMwfCIpVdsd6sM9cOseX89lROcbIS1QpxZZio=\n\
                      -----END PUBLIC KEY-----\n";
const PRIVATE: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIIBXmR7vjx8a8Y9KlJHRahzjM/aV1NuOONp1l1xEeOD7\n\
                       -----END PRIVATE KEY-----\n";
/// Of nobody here.
const OTHER: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VuBCIEIPTsmzO3ksNywdLCBjUHtoTvkluMdaQtvL9X1jzNOBYA\n\
                     -----END PRIVATE KEY-----\n";
/// A word that stands nowhere else.
const WORD: &str = "zyzzyva";
const WORD_HEX: &str = "7a797a7a797661";
const ASKED: &str = "What is a zyzzyva by the sea?";

/// The operator's own folder, with both keys.
struct Safe(TempDir);

impl Safe {
    fn new() -> Self {
        let safe = Self(TempDir::new().expect("a folder"));
        for (name, text) in [("public.pem", PUBLIC), ("break-glass.pem", PRIVATE), ("other.pem", OTHER)] {
            fs::write(safe.file(name), text).expect("a file");
        }
        safe
    }

    fn file(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A gateway whose model `m` keeps bodies and whose model `plain` does not.
    fn setup(&self, mock: &MockUpstream) -> Setup {
        let model = |setup: Setup, n: usize, name: &str, capture: &str| {
            setup
                .set(&format!("model.{n}.name"), name)
                .set(&format!("model.{n}.capture"), capture)
                .set(&format!("model.{n}.targets.0.provider"), "mock")
                .set(&format!("model.{n}.targets.0.model"), name)
        };
        let key = self.file("public.pem");
        let setup = Setup::on(mock).set("lineage.break_glass_key_file", key.to_str().expect("a plain name"));
        model(model(setup, 0, "m", "sealed"), 1, "plain", "off")
    }

    fn open(&self, gateway: &Gateway, id: &str, key: &str, source: &[&str]) -> Output {
        let key = self.file(key);
        let admin = gateway.admin.to_string();
        let mut command =
            signet(&["lineage", "open", id, "--basis", "case 7", "--who", "an auditor", "--admin", &admin]);
        command.arg("--key").arg(key).arg("--token-file").arg(gateway.data.join("admin.token"));
        command.args(source).output().expect("it runs")
    }

    /// The bodies of an answer, as soon as they are stored.
    #[track_caller]
    fn opened(&self, gateway: &Gateway, id: &str) -> Value {
        self.opened_from(gateway, id, &["--data", plain(&gateway.data)])
    }

    #[track_caller]
    fn opened_from(&self, gateway: &Gateway, id: &str, source: &[&str]) -> Value {
        let mut said = String::new();
        let found = eventually("the sealed bodies", || {
            let out = self.open(gateway, id, "break-glass.pem", source);
            said = text(&out);
            // Only what is not stored yet is worth another try.
            (out.status.success() || !said.contains("no sealed bodies")).then_some(out)
        });
        assert!(found.status.success(), "{said}");
        serde_json::from_slice(&found.stdout).expect("JSON")
    }

    #[track_caller]
    fn refused(&self, gateway: &Gateway, id: &str, key: &str, why: &str) {
        let out = self.open(gateway, id, key, &["--data", plain(&gateway.data)]);
        let said = text(&out);
        assert!(!out.status.success() && out.stdout.is_empty() && said.contains(why), "{said}");
        assert!(!said.contains(WORD), "{said}");
    }
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain name")
}

fn text(out: &Output) -> String {
    [&out.stdout[..], &out.stderr].map(|part| String::from_utf8_lossy(part).into_owned()).concat()
}

fn capture_of(gateway: &Gateway, answer: &Answer) -> Value {
    gateway.record(&answer.id())["predicate"]["capture"].clone()
}

fn bearer(gateway: &Gateway) -> String {
    format!("Bearer {}", fs::read_to_string(gateway.data.join("admin.token")).expect("a token").trim())
}

/// Every file below a folder that holds these bytes.
fn holding(folder: &Path, bytes: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            found.extend(holding(&path, bytes));
        } else if fs::read(&path).is_ok_and(|held| held.windows(bytes.len()).any(|part| part == bytes)) {
            found.push(path);
        }
    }
    found
}

fn opens(folder: &Path) -> Vec<Value> {
    records(folder).into_iter().filter(|record| record["predicate"]["kind"] == "open").collect()
}

#[test]
fn only_the_offline_key_opens_sealed_bodies_and_the_log_says_who_did_and_why() {
    let (mock, safe) = (mock(), Safe::new());
    let gateway = safe.setup(&mock).start();
    let mut keeper = Keeper::of(&gateway.data);
    let (whole, stream) = (chat(ASKED), streamed("What is a zyzzyva in the hills?"));
    let asked = [(&whole, "MISS"), (&whole, "EXACT"), (&stream, "MISS"), (&stream, "EXACT")];
    let answers = asked.map(|(request, x_cache)| {
        let answer = gateway.chat(request, &[]);
        answer.is(200, x_cache);
        keeper.keep(&answer);
        assert_eq!(capture_of(&gateway, &answer)["state"], "sealed");
        answer
    });
    let off = gateway.chat(&with(chat(ASKED), json!({"model": "plain"})), &[]);
    assert_eq!(capture_of(&gateway, &off), Value::Null);

    let token = bearer(&gateway);
    for ((request, _), answer) in asked.iter().zip(&answers) {
        let opened = safe.opened(&gateway, &answer.id());
        assert_eq!(opened["request"].as_str(), Some(&*request.to_string()));
        assert_eq!(opened["response"].as_str(), Some(&*answer.text()));
        let path = format!("/v1/lineage/{}", opened["open_record"].as_str().expect("an id"));
        let told = payload(&ask(gateway.admin, "GET", &path, &[("Authorization", &token)], b"").json()["envelope"]);
        let facts = &told["predicate"]["control"];
        assert_eq!((facts["who"].as_str(), facts["basis"].as_str()), (Some("an auditor"), Some("case 7")));
        assert_eq!((&facts["log_id"], &facts["seq"]), (&opened["log"], &opened["seq"]));
        let sealed = gateway.record(&answer.id());
        assert_eq!(
            (&facts["log_id"], &facts["seq"]),
            (&sealed["predicate"]["log"]["id"], &sealed["predicate"]["log"]["seq"])
        );
    }
    safe.refused(&gateway, &answers[0].id(), "other.pem", "sealed for another key");
    safe.refused(&gateway, &answers[0].id(), "public.pem", "not an X25519 private key");
    safe.refused(&gateway, &off.id(), "break-glass.pem", "no sealed bodies");

    // Neither what was asked nor what was answered stands anywhere in clear.
    let said = answers[0].json()["choices"][0]["message"]["content"].as_str().expect("a text").to_owned();
    let metrics = ask(gateway.admin, "GET", "/metrics", &[], b"").text();
    for clear in [WORD, &said] {
        assert!(!gateway.log().contains(clear) && !metrics.contains(clear), "{clear}");
        let held = holding(&gateway.data, clear.as_bytes());
        assert!(held.is_empty(), "{clear} stands in {held:?}");
    }
    let folder = gateway.stop();
    assert_eq!(opens(&folder.path).len(), 4, "nothing that was refused is said to be opened");
    let (code, told) = keeper.verify(&["--data", plain(&folder.path)]);
    assert!(code == 0 && !told.contains("sealed bodies"), "{told}");
    assert_eq!(count(&folder.path), 4);
}

/// How many sealed bodies a folder's database holds.
fn count(folder: &Path) -> usize {
    let script =
        "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM capture').fetchone()[0])";
    let out =
        Command::new("python3").args(["-c", script]).arg(folder.join("signet.db")).output().expect("python3 runs");
    String::from_utf8_lossy(&out.stdout).trim().parse().expect("a number")
}

#[test]
fn a_gateway_that_is_down_or_refuses_opens_nothing() {
    let (mock, safe) = (mock(), Safe::new());
    let gateway = safe.setup(&mock).start();
    let answer = gateway.chat(&chat(ASKED), &[]);
    safe.opened(&gateway, &answer.id());
    let id = answer.id();
    let token = gateway.data.join("admin.token");
    let right = fs::read(&token).expect("a token");
    fs::write(&token, "wrong").expect("a file");
    safe.refused(&gateway, &id, "break-glass.pem", "nothing was opened: the gateway says 401");
    fs::write(&token, right).expect("a file");
    let mut bad = signet(&["lineage", "open", &id, "--basis", "", "--admin", &gateway.admin.to_string(), "--data"]);
    let bad = bad.arg(&gateway.data).arg("--key").arg(safe.file("break-glass.pem")).output().expect("it runs");
    assert_eq!((bad.status.code(), bad.stdout.len()), (Some(64), 0), "{}", text(&bad));

    let admin = gateway.admin.to_string();
    let folder = gateway.stop();
    let mut down = signet(&["lineage", "open", &id, "--basis", "case 7", "--admin", &admin, "--data"]);
    let down = down.arg(&folder.path).arg("--key").arg(safe.file("break-glass.pem")).output().expect("it runs");
    assert!(!down.status.success() && down.stdout.is_empty(), "{}", text(&down));
    assert!(text(&down).contains("nothing was opened"), "{}", text(&down));
    assert_eq!(opens(&folder.path).len(), 1);
}

#[test]
fn sealed_bodies_that_are_changed_moved_or_missing_are_told() {
    let (mock, safe) = (mock(), Safe::new());
    let gateway = safe.setup(&mock).start();
    let keeper = Keeper::of(&gateway.data);
    let ids = ["What is a zyzzyva?", "Who saw a zyzzyva?"].map(|asked| {
        let id = gateway.chat(&chat(asked), &[]).id();
        safe.opened(&gateway, &id);
        id
    });
    let data = gateway.data.clone();
    let verify = || keeper.verify(&["--data", plain(&data)]);
    let row = |id: &str| format!("x'{}'", id.replace('-', ""));
    let (one, two) = (row(&ids[0]), row(&ids[1]));
    let saved = "CREATE TABLE saved AS SELECT * FROM capture";
    sqlite(&data, saved);
    let restore = "DELETE FROM capture; INSERT INTO capture SELECT * FROM saved";
    for change in [
        // A bit at the end, the key id, the other answer's.
        format!(
            "UPDATE capture SET sealed = CAST(substr(sealed, 1, length(sealed) - 1) || x'00' AS BLOB) WHERE id = {one}"
        ),
        format!("UPDATE capture SET sealed = (SELECT sealed FROM saved WHERE id = {two}) WHERE id = {one}"),
    ] {
        sqlite(&data, &change);
        safe.refused(&gateway, &ids[0], "break-glass.pem", "not the sealed bodies that the record");
        let (code, said) = verify();
        assert!(
            code == 22 && said.contains(&format!("the sealed bodies of {} are not those", ids[0])),
            "{code}: {said}"
        );
        sqlite(&data, restore);
        assert_eq!(verify().0, 0);
    }
    sqlite(&data, &format!("DELETE FROM capture WHERE id = {one}"));
    safe.refused(&gateway, &ids[0], "break-glass.pem", "no sealed bodies");
    let (code, said) = verify();
    assert!(
        code == 0 && said.contains("not checked: sealed bodies: 1 of the 2 that records name are not there"),
        "{said}"
    );
    let export = data.join("export.jsonl");
    fs::write(&export, signet(&["lineage", "export", "--data"]).arg(&data).output().expect("it runs").stdout)
        .expect("a file");
    let (code, said) = keeper.verify(&["--export", plain(&export)]);
    assert!(code == 0 && said.contains("not checked: sealed bodies: an export holds none of the 2"), "{code}: {said}");
}

#[test]
fn bodies_over_the_bound_are_not_kept_and_their_record_says_so() {
    let (mock, safe) = (mock(), Safe::new());
    let gateway = safe.setup(&mock).set("lineage.capture_max_bytes", "2048").start();
    let keeper = Keeper::of(&gateway.data);
    for request in [chat(&"long ".repeat(600)), streamed(&"longer ".repeat(600))] {
        let answer = gateway.chat(&request, &[]);
        assert_eq!(answer.status, 200);
        assert_eq!(capture_of(&gateway, &answer), json!({"state": "too_large"}));
    }
    let short = gateway.chat(&chat(ASKED), &[]);
    assert_eq!(safe.opened(&gateway, &short.id())["request"], chat(ASKED).to_string());
    let folder = gateway.stop();
    assert_eq!(count(&folder.path), 1);
    keeper.accepts(&folder.path);
}

#[test]
fn what_a_caller_got_of_a_stream_before_it_left_is_kept() {
    let mock = mock_with(Behaviour { chunks: Some(60), chunk_ms: Some(200), ..Behaviour::default() });
    let safe = Safe::new();
    let gateway = safe.setup(&mock).start();
    let mut conn = gateway.begin(&streamed(ASKED), &[]);
    let head = conn.head().expect("a head");
    let first = conn.chunk().expect("no fault").expect("a chunk");
    drop(conn);
    let record = gateway.record_where(|record| record["predicate"]["response"]["outcome"] == "client_abort");
    let id = record["predicate"]["id"].as_str().expect("an id").to_owned();
    assert!(format!("{head:?}").contains(&id), "{head:?}");
    let response = safe.opened(&gateway, &id)["response"].as_str().expect("text").to_owned();
    assert!(response.as_bytes().starts_with(&first) && !response.contains("[DONE]"), "{response}");
}

#[test]
fn what_a_kill_took_on_its_way_to_the_store_is_told_and_is_no_finding() {
    let (mock, safe, postgres) = (mock(), Safe::new(), Postgres::start());
    let setup = safe.setup(&mock).on_services(&postgres.url(), None);
    let data = TempDir::new().expect("a folder");
    let setup = setup.within(data.path());
    let gateway = setup.start();
    let mut keeper = Keeper::of(data.path());
    let kept = gateway.chat(&chat(ASKED), &[]);
    safe.opened_from(&gateway, &kept.id(), &["--db", &postgres.url(), "--data", plain(data.path())]);
    postgres.down();
    let lost = gateway.chat(&chat("Where is the zyzzyva?"), &[]);
    assert_eq!(capture_of(&gateway, &lost)["state"], "sealed");
    keeper.keep(&kept);
    keeper.keep(&lost);
    drop(gateway.kill());
    postgres.up();
    let gateway = setup.start();
    eventually("shipping", || {
        let log = gateway.status()["log"].clone();
        (log["shipped_seq"] == log["next_seq"]).then_some(())
    });
    drop(gateway.stop());
    let (code, said) = keeper.verify(&["--db", &postgres.url()]);
    assert!(code == 0 && said.contains("sealed bodies: 1 of the 2 that records name are not there"), "{code}: {said}");
}

#[test]
fn a_coalesced_answer_has_sealed_bodies_of_its_own() {
    let mock = mock_with(Behaviour { latency_ms: Some(1_000), ..Behaviour::default() });
    let safe = Safe::new();
    let gateway = safe.setup(&mock).start();
    let mut callers = [gateway.begin(&chat(ASKED), &[]), gateway.begin(&chat(ASKED), &[])];
    let answers = callers.each_mut().map(|caller| caller.answer());
    assert_eq!(mock.counts().requests, 1);
    for answer in &answers {
        assert_eq!(safe.opened(&gateway, &answer.id())["response"].as_str(), Some(&*answer.text()));
    }
    assert_ne!(answers[0].id(), answers[1].id());
}

#[test]
fn erased_bodies_are_gone_by_record_and_by_tenant_in_both_databases() {
    let safe = Safe::new();
    for url in [None, Some(fresh_database())] {
        let mock = mock();
        let setup = safe.setup(&mock);
        let setup = url.as_ref().map_or(setup.clone(), |url| setup.on_services(url, None));
        let gateway = setup.start();
        let keeper = Keeper::of(&gateway.data);
        let source = match &url {
            Some(url) => ["--db", url],
            None => ["--data", plain(&gateway.data)],
        };
        let ids = ["What is a zyzzyva?", "Who saw a zyzzyva?"].map(|asked| gateway.chat(&chat(asked), &[]).id());
        for id in &ids {
            assert!(
                safe.opened_from(&gateway, id, &source)["request"].as_str().is_some_and(|body| body.contains(WORD))
            );
        }
        if let Some(url) = &url {
            assert!(in_clear(url).is_empty(), "{:?}", in_clear(url));
        }
        let gone = |id: &str| {
            let out = safe.open(&gateway, id, "break-glass.pem", &source);
            assert!(!out.status.success() && text(&out).contains("no sealed bodies"), "{}", text(&out));
        };
        let token = bearer(&gateway);
        let headers = [("Authorization", &*token), ("Content-Type", "application/json")];
        let order = |path: &str| ask(gateway.admin, "DELETE", path, &headers, br#"{"basis":"an order"}"#);
        let tenant = gateway.record(&ids[1])["predicate"]["caller"]["tenant"].as_str().expect("a tenant").to_owned();
        assert_eq!(order(&format!("/admin/v1/lineage/{}/payload", ids[0])).status, 200);
        gone(&ids[0]);
        assert!(safe.open(&gateway, &ids[1], "break-glass.pem", &source).status.success());
        assert_eq!(order(&format!("/admin/v1/tenants/{tenant}")).status, 200);
        gone(&ids[1]);
        let data = gateway.data.clone();
        eventually("shipping", || {
            let log = gateway.status()["log"].clone();
            (log["shipped_seq"] == log["next_seq"]).then_some(())
        });
        let (code, said) = match &url {
            Some(url) => keeper.verify(&["--db", url]),
            None => keeper.verify(&["--data", plain(&data)]),
        };
        assert!(
            code == 0 && said.contains("sealed bodies: 1 of the 1 that records name are not there"),
            "{code}: {said}"
        );
    }
}

/// Lines of a dump of the whole database in which the word stands, as text or in the hexadecimal form of bytes.
fn in_clear(url: &str) -> Vec<String> {
    assert_ne!(sql(url, "SELECT count(*) FROM capture"), "0");
    let dump = Path::new(&told("SIGNET_TEST_POSTGRES_BIN")).join("pg_dump");
    let out = Command::new(dump).args([url, "--inserts"]).output().expect("pg_dump runs");
    assert!(out.status.success() && out.stdout.len() > 10_000, "{}", String::from_utf8_lossy(&out.stderr));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    text.lines().filter(|line| line.contains(WORD) || line.contains(WORD_HEX)).map(str::to_owned).collect()
}

#[test]
fn a_gateway_does_not_start_with_a_key_that_seals_for_nobody() {
    let (mock, safe) = (mock(), Safe::new());
    let data = TempDir::new().expect("a folder");
    fs::write(safe.file("public.pem"), PRIVATE).expect("a file");
    let out = safe.setup(&mock).run(data.path());
    let said = text(&out);
    assert!(out.status.code() == Some(78) && said.contains("not an X25519 public key"), "{said}");
    assert!(!said.contains("MC4CAQ"), "{said}");
    let named = "lineage.break_glass_key_file";
    let out = safe.setup(&mock).set(named, "nowhere.pem").run(data.path());
    assert!(out.status.code() == Some(78) && text(&out).contains("nowhere.pem"), "{}", text(&out));
    let out = safe.setup(&mock).set(named, "").run(data.path());
    assert!(out.status.code() == Some(78) && text(&out).contains(named), "{}", text(&out));
}
