//! What offline roots say of keys: verified by auditors, and taken by running gateways.

use crate::client::ask;
use crate::gateway::{Gateway, Setup, chat, eventually, mock, signet};
use crate::keeper::Keeper;
use crate::keys::{rotated, shipped};
use crate::stack::fresh_database;
use serde_json::Value;
use signet_lineage::Signer;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Three roots, of which two must agree, on a machine of their own.
struct Offline(TempDir);

impl Offline {
    fn new() -> Self {
        let folder = TempDir::new().expect("a folder");
        let keys: Vec<_> = (0..3).map(|_| Signer::generate()).collect();
        for (at, key) in keys.iter().enumerate() {
            fs::write(folder.path().join(format!("root{at}")), &*key.to_pkcs8()).expect("a file");
        }
        let public: String = keys.iter().map(|key| key.public_key().to_pem()).collect();
        fs::write(folder.path().join("roots.pem"), public).expect("a file");
        Self(folder)
    }

    fn place(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a plain name").to_owned()
    }

    fn two(&self) -> String {
        format!("{}:2", self.place("roots.pem"))
    }

    /// A keyring of what the records of `source` say, signed by two roots, in the file `ring`.
    #[track_caller]
    fn sign(&self, source: &[&str], version: u64, revoked: Option<(&str, u64)>) -> String {
        let (ring, version) = (self.place("ring"), version.to_string());
        let revoked = revoked.map(|(key, place)| format!("{key}:{place}"));
        let revoked: Vec<&str> = revoked.iter().flat_map(|order| ["--revoke", order.as_str()]).collect();
        let (code, drafted) =
            run(&[&["keys", "keyring", "draft", "--version", version.as_str()], source, &revoked].concat());
        assert_eq!(code, Some(0), "{drafted}");
        fs::write(&ring, drafted).expect("a file");
        for root in ["root0", "root2"] {
            let (code, said) = run(&["keys", "keyring", "sign", &ring, "--root-key", &self.place(root)]);
            assert!(code == Some(0) && said.contains(&format!("keyring version {version}")), "{said}");
        }
        ring
    }

    fn setup(&self, setup: Setup) -> Setup {
        setup.set("lineage.root_file", &self.place("roots.pem")).set("lineage.root_threshold", "2")
    }
}

fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let out = signet(&[&["lineage"], arguments].concat()).output().expect("it runs");
    (out.status.code(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned())
}

fn publish(gateway: &Gateway, ring: &str) -> (Option<i32>, String) {
    let (admin, data) = (gateway.admin.to_string(), gateway.data.to_str().expect("a plain name"));
    run(&["keys", "keyring", "publish", ring, "--admin", &admin, "--data", data])
}

fn shown(gateway: &Gateway) -> String {
    gateway.admin_get("/v1/lineage/keys").text()
}

fn ready(gateway: &Gateway) -> Value {
    serde_json::from_str(&ask(gateway.admin, "GET", "/readyz", &[], b"").text()).expect("JSON")
}

/// The id of the key that signs a folder's records.
fn key_of(data: &Path) -> String {
    let bytes = fs::read(data.join("lineage.key")).expect("a key");
    Signer::from_pkcs8(&bytes).expect("a key").public_key().key_id_text()
}

#[test]
fn a_keyring_that_enough_roots_signed_stands_in_for_pinned_keys() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    let turn = rotated(&gateway);
    gateway.chat(&chat("What is an ebb?"), &[]);
    let folder = gateway.stop();
    let data = folder.path.to_str().expect("a plain name");
    let offline = Offline::new();
    let (two, source) = (offline.two(), ["--data", data]);
    let verify = |root: &str, ring: &str| run(&["verify", "--data", data, "--keyring", ring, "--root", root]);
    let ring = offline.sign(&source, 1, None);
    let (code, said) = verify(&two, &ring);
    assert_eq!(code, Some(0), "{said}");
    let (code, said) = run(&["keys", "keyring", "check", &ring, "--root", &two]);
    let old = turn["old_key"].as_str().expect("an id");
    let from = turn["seq"].as_u64().expect("a seq") + 1;
    assert!(code == Some(0) && said.contains(&format!("attest {old} from 0 retired at {from}")), "{said}");
    // Two of three are not all of them, and what is not signed is not believed at all.
    let (code, said) = verify(&offline.place("roots.pem"), &ring);
    assert!(code == Some(1) && said.contains("signed by 2 of the 3 roots"), "{said}");
    let inside = folder.path.join("ring");
    fs::copy(&ring, &inside).expect("copied");
    assert_eq!(verify(&two, inside.to_str().expect("a plain name")).0, Some(64));
    let (code, said) = run(&["verify", "--data", data, "--keyring", &ring]);
    assert_eq!(code, Some(64), "a keyring proves nothing by itself: {said}");

    let ring = offline.sign(&source, 2, Some((turn["new_key"].as_str().expect("an id"), from)));
    let (code, said) = verify(&two, &ring);
    assert_eq!(code, Some(19), "{said}");
    assert!(said.contains("REVOKED_KEY") && !said.contains(&format!("seq {} ", from - 1)), "{said}");
}

#[test]
fn a_revocation_stops_the_replica_whose_key_it_is_and_is_shown_by_all() {
    let (mock, offline, database) = (mock(), Offline::new(), fresh_database());
    let setup = offline.setup(Setup::on(&mock).on_services(&database, None));
    let folders = [TempDir::new().expect("a folder"), TempDir::new().expect("a folder")];
    let [stolen, other] = folders.each_ref().map(|folder| setup.clone().within(folder.path()).start());
    let first = stolen.chat(&chat("What is a neap tide?"), &[]);
    other.chat(&chat("What is an ebb?"), &[]);
    shipped(&stolen);
    shipped(&other);
    let (key, good) = (key_of(&stolen.data), stolen.status()["log"]["next_seq"].as_u64().expect("a seq"));
    let source = ["--db", database.as_str()];
    // What was signed by too few is told so, and changes nothing.
    let unsigned = offline.place("unsigned");
    let (_, drafted) = run(&[&["keys", "keyring", "draft"], &source[..]].concat());
    fs::write(&unsigned, drafted).expect("a file");
    let (code, said) = publish(&other, &unsigned);
    assert!(code == Some(1) && said.contains("signed by 0 of the 2 roots"), "{said}");
    let (code, said) = publish(&other, &offline.sign(&source, 1, None));
    assert_eq!(code, Some(0), "{said}");
    eventually("the keyring", || shown(&stolen).contains("# keyring version 1").then_some(()));
    assert_eq!(stolen.chat(&chat("What is a tidal bore?"), &[]).status, 200);

    // Published at one replica, it stops another.
    shipped(&stolen);
    let ring = offline.sign(&source, 2, Some((&key, good)));
    let (code, said) = publish(&other, &ring);
    assert_eq!(code, Some(0), "{said}");
    eventually("the revocation", || (ready(&stolen)["status"] == "lineage_key").then_some(()));
    let refused = stolen.chat(&chat("What is a tide race?"), &[]);
    assert_eq!((refused.status, refused.json()["error"]["code"].as_str()), (503, Some("lineage_unavailable")));
    assert_eq!(other.chat(&chat("What is a tide race?"), &[]).status, 200);
    for replica in [&stolen, &other] {
        assert!(shown(replica).contains("# keyring version 2"), "{}", shown(replica));
    }
    assert!(shown(&stolen).contains(&format!("revoked {key} ")), "{}", shown(&stolen));
    let (code, said) = publish(&other, &offline.sign(&source, 1, None));
    assert!(code == Some(1) && said.contains("409"), "an older one: {said}");
    shipped(&other);
    let next = stolen.status()["log"]["next_seq"].as_u64().expect("a seq");
    assert_eq!(next, good + 1, "nothing was signed behind the revocation");

    // A restart knows it without asking anybody, and a new log begins with a new key.
    drop(stolen.stop());
    let out = setup.clone().within(folders[0].path()).run(folders[0].path());
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(78) && said.contains("revokes the attest key"), "{said}");
    fs::rename(folders[0].path().join("lineage"), folders[0].path().join("lost")).expect("moved");
    fs::rename(folders[0].path().join("lineage.key"), folders[0].path().join("lost.key")).expect("moved");
    let again = setup.within(folders[0].path()).start();
    let last = again.chat(&chat("What is a tide race?"), &[]);
    assert_eq!(last.status, 200);
    shipped(&again);
    drop((again.stop(), other.stop()));
    let ring = offline.sign(&source, 3, Some((&key, good)));
    let (code, said) = run(&["verify", "--db", &database, "--keyring", &ring, "--root", &offline.two()]);
    assert_eq!(code, Some(19), "the answer between the theft and the revocation: {said}");
    assert_eq!(said.matches("REVOKED_KEY").count(), 1, "{said}");
    assert_eq!(first.status, 200);
}

#[test]
fn a_keyring_file_is_taken_by_a_running_gateway_and_a_bad_one_reported() {
    let (mock, offline) = (mock(), Offline::new());
    let file = offline.place("kept");
    let gateway = offline.setup(Setup::on(&mock)).set("lineage.keyring_file", &file).start();
    gateway.chat(&chat("What is a neap tide?"), &[]);
    let data = gateway.data.to_str().expect("a plain name").to_owned();
    let source = ["--data", data.as_str()];
    let checkpoints = fs::read(gateway.data.join("lineage-checkpoint.key")).expect("a key");
    let checkpoints = Signer::from_pkcs8(&checkpoints).expect("a key").public_key().key_id_text();
    let put = |version: u64, revoked: Option<(&str, u64)>| {
        fs::rename(offline.sign(&source, version, revoked), &file).expect("moved");
    };
    put(3, Some((&checkpoints, 1)));
    eventually("the revocation", || {
        gateway.chat(&chat("What is an ebb?"), &[]);
        ready(&gateway)["faults"]["checkpoint"].as_str()?.contains("revokes the checkpoint key").then_some(())
    });
    assert_eq!(gateway.chat(&chat("What is a bore?"), &[]).status, 200, "answers have records all the same");
    put(2, None);
    eventually("a report", || {
        ready(&gateway)["faults"]["keyring"].as_str()?.contains("older than version 3").then_some(())
    });
    put(4, None);
    eventually("the end of it", || ready(&gateway)["faults"].as_object()?.is_empty().then_some(()));
    let folder = gateway.stop();
    Keeper::of(&folder.path).accepts(&folder.path);
}
