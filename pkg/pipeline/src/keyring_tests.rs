//! Keyrings that turn up in a database and in a file, on a clock that stands still.

use super::*;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_lineage::{KeySet, KeyringEntry, Signer, draft_keyring, sign_keyring};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::time::Instant;

const LOG: LogId = LogId::from_bytes([7; 16]);

/// A table of keyrings that may hang.
#[derive(Default)]
struct Table {
    rows: Mutex<Vec<(u64, Vec<u8>)>>,
    hangs: AtomicBool,
}

#[async_trait]
impl KeyringStore for Table {
    async fn publish(&self, version: u64, envelope: &[u8]) -> Result<bool, ShipFault> {
        let mut rows = self.rows.lock();
        let new = rows.iter().all(|(other, _)| *other != version);
        if new {
            rows.push((version, envelope.to_vec()));
        }
        Ok(new)
    }

    async fn keyrings(&self, above: u64, limit: u32) -> Result<Vec<Vec<u8>>, ShipFault> {
        if self.hangs.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let mut rows = self.rows.lock().clone();
        rows.retain(|(version, _)| *version > above);
        rows.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
        Ok(rows.into_iter().take(limit as usize).map(|(_, envelope)| envelope).collect())
    }
}

struct Bench {
    root: Signer,
    key: PublicKey,
    table: Arc<Table>,
    folder: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        Self { root: Signer::generate(), key: Signer::generate().public_key(), table: Arc::default(), folder }
    }

    fn roots(&self) -> RootPolicy {
        RootPolicy::all(KeySet::new([self.root.public_key()]).expect("a key"))
    }

    fn entry(&self, revoked: Option<u64>) -> KeyringEntry {
        KeyringEntry { key: self.key, key_use: KeyUse::Attest, log: Some(LOG), from: 0, retired: None, revoked }
    }

    fn ring(&self, version: u64, revoked: Option<u64>) -> Vec<u8> {
        sign_keyring(&draft_keyring(version, &[self.entry(revoked)]), &self.root).expect("an envelope")
    }

    fn parts(&self) -> RingParts {
        let kept = self.folder.path().join("kept");
        RingParts {
            roots: self.roots(),
            store: self.table.clone(),
            file: Some(self.folder.path().join("ring")),
            keep: Box::new(move |bytes| std::fs::write(&kept, bytes)),
        }
    }

    fn replica(&self) -> Replica {
        let kept = std::fs::read(self.folder.path().join("kept")).ok();
        let ring = Arc::new(Ring::new(self.parts(), kept.as_deref()).expect("it was signed"));
        let (stop, faults) = (CancellationToken::new(), Arc::<Mutex<Vec<String>>>::default());
        let told = faults.clone();
        let then = move |met: &[RingFault]| *told.lock() = met.iter().map(ToString::to_string).collect();
        tokio::spawn(ring.clone().run(stop.clone(), then));
        Replica { ring, faults, _stop: stop.drop_guard() }
    }

    fn put_file(&self, bytes: &[u8]) {
        // In one step: a replica reads on a thread of its own.
        let (beside, place) = (self.folder.path().join("ring.new"), self.folder.path().join("ring"));
        std::fs::write(&beside, bytes).and_then(|()| std::fs::rename(beside, place)).expect("a file");
    }
}

struct Replica {
    ring: Arc<Ring>,
    faults: Arc<Mutex<Vec<String>>>,
    _stop: tokio_util::sync::DropGuard,
}

impl Replica {
    fn is_void(&self, bench: &Bench) -> bool {
        matches!(self.ring.standing(LOG, KeyUse::Attest, &bench.key, 3), Standing::Void(_))
    }

    /// How long until this is so; the clock moves only while everybody waits.
    async fn until(&self, done: impl Fn(&Self) -> bool) -> Duration {
        let started = Instant::now();
        while !done(self) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            assert!(started.elapsed() < Duration::from_mins(2), "it never was");
        }
        started.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn a_revocation_that_one_replica_publishes_is_known_to_another_within_a_second() {
    let bench = Bench::new();
    let (one, other) = (bench.replica(), Bench { folder: tempfile::tempdir().expect("a folder"), ..Bench::new() });
    let other = Bench { root: Signer::from_pkcs8(&bench.root.to_pkcs8()).expect("a key"), key: bench.key, ..other };
    let other = Bench { table: bench.table.clone(), ..other };
    let far = other.replica();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(!one.is_void(&bench) && !far.is_void(&bench));
    assert_eq!(one.ring.publish(&bench.ring(4, Some(9))).await.expect("a good one"), 4);
    assert!(one.is_void(&bench), "at once where it was published");
    let took = far.until(|replica| replica.is_void(&bench)).await;
    assert!(took <= Duration::from_millis(1_010), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_file_is_looked_at_within_the_bound_though_the_database_hangs() {
    let bench = Bench::new();
    let replica = bench.replica();
    bench.table.hangs.store(true, Ordering::Relaxed);
    for version in 1..20 {
        tokio::time::sleep(Duration::from_millis(317)).await;
        bench.put_file(&bench.ring(version, Some(9)));
        let took = replica.until(|replica| replica.ring.held().is_some_and(|held| held.version == version)).await;
        assert!(took <= EVERY + ASK + Duration::from_millis(20), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_older_a_second_and_a_foreign_keyring_are_refused_and_reported() {
    let bench = Bench::new();
    let replica = bench.replica();
    replica.ring.publish(&bench.ring(5, Some(9))).await.expect("a good one");
    let stranger = Signer::generate();
    let foreign = sign_keyring(&draft_keyring(6, &[bench.entry(None)]), &stranger).expect("an envelope");
    for (bad, why) in [
        (bench.ring(4, None), "version 4 is older than version 5"),
        (bench.ring(5, None), "another keyring of version 5"),
        (foreign.clone(), "signed by 0 of the 1 roots"),
        (b"{}".to_vec(), "no DSSE envelope"),
    ] {
        bench.put_file(&bad);
        replica.until(|replica| replica.faults.lock().iter().any(|fault| fault.contains(why))).await;
        assert!(replica.ring.publish(&bad).await.is_err(), "{why}");
        assert!(replica.is_void(&bench), "{why}");
    }
    // What a stranger puts into the table hides nothing, and a later file is taken.
    bench.table.rows.lock().push((1_000, foreign));
    bench.table.rows.lock().push((7, bench.ring(7, None)));
    replica.until(|replica| replica.ring.held().is_some_and(|held| held.version == 7)).await;
    bench.put_file(&bench.ring(8, Some(1)));
    replica.until(|replica| replica.ring.held().is_some_and(|held| held.version == 8)).await;
    replica.until(|replica| replica.faults.lock().len() == 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_knows_the_keyring_that_was_in_force_and_goes_back_to_none_before_it() {
    let bench = Bench::new();
    bench.replica().ring.publish(&bench.ring(5, Some(9))).await.expect("a good one");
    // The database was set back to before, and somebody put the old file there.
    bench.table.rows.lock().clear();
    bench.put_file(&bench.ring(4, None));
    let replica = bench.replica();
    assert!(replica.is_void(&bench));
    replica.until(|replica| !replica.faults.lock().is_empty()).await;
    assert_eq!(replica.ring.held().map(|held| held.version), Some(5));
    assert_eq!(
        replica.ring.pinned_text(LOG),
        format!("# keyring version 5\nrevoked {} {LOG} 9\n", bench.key.key_id_text())
    );
}

#[test]
fn a_key_stands_as_the_keyring_says_at_the_place_that_it_signs_next() {
    let bench = Bench::new();
    let standing = |entry: KeyringEntry| {
        let ring = sign_keyring(&draft_keyring(1, &[entry]), &bench.root).expect("an envelope");
        let ring = Ring::new(bench.parts(), Some(&ring)).expect("signed");
        ring.standing(LOG, KeyUse::Attest, &bench.key, 3)
    };
    let (own, stranger) = (bench.entry(None), Signer::generate().public_key());
    assert_eq!(standing(own), Standing::Good);
    assert!(
        matches!(standing(KeyringEntry { revoked: Some(100), ..own }), Standing::Void(_)),
        "wherever it is revoked"
    );
    assert!(matches!(standing(KeyringEntry { retired: Some(3), ..own }), Standing::Void(_)));
    assert!(matches!(standing(KeyringEntry { retired: Some(4), ..own }), Standing::Doubtful(_)));
    assert!(matches!(standing(KeyringEntry { key: stranger, ..own }), Standing::Doubtful(_)));
    let none = Ring::new(bench.parts(), None).expect("nothing was kept");
    assert_eq!(none.standing(LOG, KeyUse::Attest, &bench.key, 3), Standing::Good);
    assert_eq!(none.pinned_text(LOG), "");
}
