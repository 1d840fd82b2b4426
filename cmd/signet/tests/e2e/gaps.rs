//! Records that were damaged before the database had them: declared and passed, or waited for and told.

use crate::crash::{damage, segments};
use crate::gateway::{Gateway, Setup, chat, eventually, mock};
use crate::keeper::Keeper;
use crate::stack::Postgres;
use signet_mock::MockUpstream;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A folder for a gateway whose database is away until it is let in.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    database: Database,
}

enum Database {
    Sqlite,
    Postgres(Postgres),
}

impl Place {
    pub(crate) fn sqlite() -> Self {
        Self { folder: TempDir::new().expect("a folder"), database: Database::Sqlite }
    }

    pub(crate) fn postgres() -> Self {
        let postgres = Postgres::start();
        postgres.down();
        Self { folder: TempDir::new().expect("a folder"), database: Database::Postgres(postgres) }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn url(&self) -> String {
        match &self.database {
            // Not there until its folder is.
            Database::Sqlite => format!("sqlite://{}", self.folder.path().join("later/signet.db").display()),
            Database::Postgres(postgres) => postgres.url(),
        }
    }

    pub(crate) fn let_in(&self) {
        match &self.database {
            Database::Sqlite => fs::create_dir(self.folder.path().join("later")).expect("a new folder"),
            Database::Postgres(postgres) => postgres.up(),
        }
    }

    pub(crate) fn setup(&self, mock: &MockUpstream) -> Setup {
        let secret = self.folder.path().join("secret");
        fs::write(&secret, "7".repeat(64)).expect("a file");
        let setup = Setup::on(mock).within(&self.data()).on_services(&self.url(), None);
        setup.set("auth.secret_file", secret.to_str().expect("plain"))
    }

    /// What the database alone proves.
    pub(crate) fn judged(&self, keeper: &Keeper) -> (i32, String) {
        keeper.verify(&["--db", &self.url()])
    }
}

/// Six answers that only the log holds. Two keepers: one that kept the receipts, one that has only the key.
pub(crate) fn unshipped(gateway: &Gateway) -> (Keeper, Keeper) {
    let (mut kept, bare) = (Keeper::of(&gateway.data), Keeper::of(&gateway.data));
    for n in 0..6 {
        kept.keep(&gateway.chat(&chat(&format!("What is cave {n}?")), &[]));
    }
    assert_eq!(gateway.status()["log"]["shipped_seq"], 0);
    (kept, bare)
}

pub(crate) fn all_shipped(gateway: &Gateway) {
    eventually("shipping", || {
        let log = &gateway.status()["log"];
        (log["shipped_seq"] == log["next_seq"]).then_some(())
    });
}

fn declared_and_passed(place: &Place) {
    let mock = mock();
    let gateway = place.setup(&mock).start();
    let (kept, bare) = unshipped(&gateway);
    drop(gateway.kill());
    damage(&place.data(), 3);
    place.let_in();
    let gateway = place.setup(&mock).start();
    all_shipped(&gateway);
    assert_eq!(gateway.get("/readyz").status, 200);
    drop(gateway.stop());
    let (code, said) = place.judged(&bare);
    assert!(code == 0 && said.contains("declared: 1 records are missing"), "{code}: {said}");
    let (code, said) = place.judged(&kept);
    assert_eq!(code, 30, "the receipt of the damaged record: {said}");
}

#[test]
fn a_damaged_record_that_was_not_shipped_is_declared_and_passed_on_sqlite() {
    declared_and_passed(&Place::sqlite());
}

#[test]
fn a_damaged_record_that_was_not_shipped_is_declared_and_passed_on_postgres() {
    declared_and_passed(&Place::postgres());
}

#[test]
fn a_hole_that_nothing_declares_stops_shipping_and_makes_the_gateway_unready_until_it_is_declared() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (_, bare) = unshipped(&gateway);
    drop(gateway.kill());
    // Damaged only after the start that would have declared it.
    let gateway = place.setup(&mock).start();
    damage(&place.data(), 3);
    place.let_in();
    let ready = eventually("unready", || Some(gateway.get("/readyz")).filter(|ready| ready.status == 503));
    assert_eq!(ready.json()["status"], "lineage_gap");
    assert!(ready.json()["faults"]["lineage_gap"].as_str().is_some_and(|why| why.contains("records 3 to 3")));
    assert_eq!(gateway.metric("signet_lineage_undeclared_records "), 1);
    assert!(gateway.log().contains("nothing declares them"), "{}", gateway.log());
    assert_eq!(gateway.status()["log"]["shipped_seq"], 3, "nothing behind the hole");
    assert_eq!(place.judged(&bare).0, 0, "what is in the database is sound");
    gateway.chat(&chat("What is a cave?"), &[]).is(200, "MISS");
    drop(gateway.kill());
    let gateway = place.setup(&mock).start();
    all_shipped(&gateway);
    assert_eq!(gateway.metric("signet_lineage_undeclared_records "), 0);
    drop(gateway.stop());
    let (code, said) = place.judged(&bare);
    assert!(code == 0 && said.contains("declared: 1 records are missing"), "{code}: {said}");
}

#[test]
fn without_its_gap_record_the_hole_in_the_database_is_a_finding() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (_, bare) = unshipped(&gateway);
    drop(gateway.kill());
    damage(&place.data(), 3);
    place.let_in();
    let gateway = place.setup(&mock).start();
    all_shipped(&gateway);
    drop(gateway.stop());
    assert_eq!(place.judged(&bare).0, 0);
    crate::lineage::sqlite(
        &place.folder.path().join("later"),
        "UPDATE lineage_entry SET payload = NULL WHERE kind = 'gap'",
    );
    let (code, said) = place.judged(&bare);
    assert_eq!(code, 14, "{said}");
}

/// Spoils every GROUP_END of the log's only segment: the trees that were written down beside the records.
pub(crate) fn spoil_group_ends(data: &Path) {
    let segment = segments(data).remove(0);
    let mut bytes = fs::read(&segment).expect("a file");
    let number = |bytes: &[u8], at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes")) as usize;
    let (mut at, mut ends) = (number(&bytes, 12), 0);
    while number(&bytes, at) > 0 {
        let next = at + (20 + number(&bytes, at)).next_multiple_of(8);
        if bytes[at + 8] == 3 {
            bytes[at + 20] ^= 1;
            ends += 1;
        }
        at = next;
    }
    assert!(ends > 0);
    fs::write(segment, bytes).expect("a file");
}

/// Waits for a checkpoint over all records.
pub(crate) fn covered(gateway: &Gateway) {
    eventually("a checkpoint", || {
        let size = fs::read_to_string(gateway.data.join("lineage/checkpoint")).ok()?.lines().nth(1)?.parse().ok();
        (size == gateway.status()["log"]["next_seq"].as_u64()).then_some(())
    });
}

#[test]
fn damage_to_records_and_group_ends_under_a_checkpoint_is_declared_with_their_leaves_and_the_log_goes_on() {
    let mock = mock();
    let place = Place::sqlite();
    let gateway = place.setup(&mock).start();
    let (mut kept, bare) = unshipped(&gateway);
    covered(&gateway);
    kept.keep(&gateway.chat(&chat("What is a cave?"), &[]));
    drop(gateway.kill());
    spoil_group_ends(&place.data());
    damage(&place.data(), 3);
    place.let_in();
    let gateway = place.setup(&mock).start();
    kept.keep(&gateway.chat(&chat("What is a cavern?"), &[]));
    all_shipped(&gateway);
    covered(&gateway);
    drop(gateway.stop());
    let (code, said) = place.judged(&bare);
    assert!(code == 0 && said.contains("declared: 1 records are missing"), "{code}: {said}");
    assert!(!said.contains("tree heads of log"), "all roots are checked: {said}");
    assert_eq!(place.judged(&kept).0, 30, "the receipt of the damaged record, and no other");
}
