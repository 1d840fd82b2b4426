//! Who may read which records: a caller its own, an auditor all, and an auditor nothing else.

use crate::client::{Answer, ask, payload};
use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use tempfile::TempDir;

const AUDITOR: (&str, &str) = ("Authorization", "Bearer an-auditor-0123456789");

struct Audited {
    gateway: Gateway,
    _folder: TempDir,
}

fn audited(setup: &Setup) -> Audited {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("tokens");
    fs::write(&file, "# the auditors\nanother-auditor-0123456789\nan-auditor-0123456789\n").expect("a file");
    let gateway = setup.clone().set("lineage.auditor_tokens_file", file.to_str().expect("a plain name")).start();
    Audited { gateway, _folder: folder }
}

fn ids(answer: &Answer) -> Vec<String> {
    let listed = answer.json();
    let data = listed["data"].as_array().expect("a list");
    data.iter().map(|line| line["id"].as_str().expect("an id").to_owned()).collect()
}

/// Every page, `limit` lines each; the caller's own listing makes records too, so it goes back from `from`.
fn pages(gateway: &Gateway, auth: (&str, &str), from: &str, limit: usize) -> Vec<Value> {
    let (mut all, mut before) = (Vec::new(), from.to_owned());
    loop {
        let path = format!("/v1/lineage?limit={limit}&before={before}");
        let listed = ask(gateway.addr, "GET", &path, &[auth], b"").json();
        let data = listed["data"].as_array().expect("a list").clone();
        assert!(data.len() <= limit);
        all.extend(data);
        match listed["next"].as_str() {
            Some(next) => next.clone_into(&mut before),
            None => return all,
        }
    }
}

#[test]
fn a_caller_lists_its_own_records_only_shipped_or_not_page_by_page() {
    let mock = mock();
    let gateway = Setup::passthrough(&mock).start();
    let (ann, bob) = (("Authorization", "Bearer ann"), ("Authorization", "Bearer bob"));
    let mut own = Vec::new();
    for n in 0..7 {
        let answer = gateway.chat(&chat(&format!("What is tide {n}?")), &[if n % 3 == 0 { bob } else { ann }]);
        own.push((n % 3 == 0, answer.id()));
        if n == 4 {
            eventually("shipping", || (gateway.status()["log"]["shipped_seq"].as_u64() > Some(4)).then_some(()));
        }
    }
    // Before the first id of this millisecond: the lists themselves are recorded too, and may get ids within it.
    let now = ask(gateway.addr, "GET", "/v1/models", &[ann], b"").id();
    let end = format!("{}-7000-8000-000000000000", &now[..13]);
    for (auth, is_bob) in [(ann, false), (bob, true)] {
        let mut expected: Vec<_> = own.iter().filter(|(bob, _)| *bob == is_bob).map(|(_, id)| id.clone()).collect();
        expected.reverse();
        let found = eventually("what is durable", || {
            let found = pages(&gateway, auth, &end, 2);
            (found.len() == expected.len()).then_some(found)
        });
        let ids: Vec<_> = found.iter().map(|line| line["id"].as_str().expect("an id")).collect();
        assert_eq!(ids, expected);
        assert!(found.iter().all(|line| {
            line["model"] == "m" && line["status"] == 200 && line["cache"] == "miss" && line["tenant"].is_null()
        }));
    }
    let refused = |path: &str| ask(gateway.addr, "GET", path, &[ann], b"").refusal(400);
    refused("/v1/lineage?limit=0");
    refused("/v1/lineage?limit=1001");
    refused("/v1/lineage?before=x");
    refused("/v1/lineage?limit=1&limit=2");
    refused("/v1/lineage?tenant=00000000000000000000000000000000");
    ask(gateway.addr, "GET", "/v1/lineage", &[], b"").refusal(401);
}

#[test]
fn an_auditor_reads_every_tenants_records_on_the_admin_listener_and_may_do_nothing_else() {
    let mock = mock();
    let Audited { gateway, _folder } = audited(&Setup::passthrough(&mock));
    let (ann, bob) = (("Authorization", "Bearer ann"), ("Authorization", "Bearer bob"));
    let [of_ann, of_bob] = [ann, bob].map(|auth| gateway.chat(&chat("What is a neap tide?"), &[auth]).id());
    let audit = |path: &str, auth: &[(&str, &str)]| ask(gateway.admin, "GET", path, auth, b"");
    for id in [&of_ann, &of_bob] {
        let path = format!("/v1/lineage/{id}");
        let shown = audit(&path, &[AUDITOR]);
        assert_eq!(
            (shown.status, payload(&shown.json()["envelope"])["predicate"]["id"].as_str()),
            (200, Some(&id[..]))
        );
        for stranger in
            [&[][..], &[ann], &[("Authorization", "Bearer an-auditor-012345678")], &[("Authorization", "Bearer ")]]
        {
            assert_eq!(audit(&path, stranger).status, 401);
            assert_eq!(audit("/v1/lineage", stranger).status, 401);
        }
    }
    assert_eq!(audit("/v1/lineage/x", &[AUDITOR]).status, 404);
    assert_eq!(audit("/v1/lineage?limit=0", &[AUDITOR]).status, 400);
    let everyone = eventually("both records", || {
        let listed = ids(&audit("/v1/lineage", &[AUDITOR]));
        [&of_ann, &of_bob].iter().all(|id| listed.contains(*id)).then_some(listed)
    });
    assert_eq!(everyone.iter().collect::<BTreeSet<_>>().len(), everyone.len());
    let listed = audit("/v1/lineage", &[AUDITOR]).json();
    let line = listed["data"].as_array().and_then(|all| all.iter().find(|line| line["id"] == of_ann.as_str()));
    let tenant = line.and_then(|line| line["tenant"].as_str()).expect("the tenant").to_owned();
    assert_eq!(ids(&audit(&format!("/v1/lineage?tenant={tenant}"), &[AUDITOR])), std::slice::from_ref(&of_ann));
    assert_eq!(audit("/v1/lineage/keys", &[AUDITOR]).status, 200);
    assert_eq!(audit("/v1/lineage/keys", &[]).status, 401, "they are not published");

    for (method, path) in [
        ("GET", "/admin/v1/status"),
        ("POST", "/admin/v1/cache/purge"),
        ("PUT", "/admin/v1/semantic"),
        ("POST", "/admin/v1/semantic/reset"),
        ("POST", "/admin/v1/lineage/keys/rotate"),
        ("POST", "/admin/v1/reload"),
        ("GET", "/admin/v1/reload"),
        ("DELETE", &format!("/admin/v1/tenants/{tenant}")),
    ] {
        assert_eq!(ask(gateway.admin, method, path, &[AUDITOR], b"{\"all\": true}").status, 401, "{method} {path}");
    }
    // To callers it is a provider key like any other, of a tenant that has nothing.
    assert_eq!(
        ask(gateway.addr, "GET", &format!("/v1/lineage/{of_ann}"), &[AUDITOR], b"").refusal(404)["code"],
        "lineage_not_found"
    );
}
