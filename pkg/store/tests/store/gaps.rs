//! Missing records that a signed record declares, and everything that does not declare them.

use crate::support::{Fixture, NOON, log_row, new_log};
use signet_lineage::verify::{Code, Options, Report, Verifier};
use signet_lineage::{
    ControlStamp, Draft, Gateway, KeySet, LogRow, Position, Record, RecordStore, ShipFault, Signer, Tree,
};
use signet_types::{LineageId, LogId};
use std::sync::Arc;

/// A writer whose signatures hold.
struct Writer {
    log: LogId,
    signer: Signer,
}

impl Writer {
    fn new() -> Self {
        Self { log: new_log(), signer: Signer::generate() }
    }

    fn row(&self) -> LogRow {
        LogRow { attest_key: *self.signer.public_key().as_bytes(), ..log_row(self.log, 1) }
    }

    fn stamp() -> ControlStamp {
        let (version, instance, durability) = ("0.1.0".to_owned(), "i-1".to_owned(), "spool".to_owned());
        ControlStamp {
            id: LineageId::generate(NOON),
            at_ms: NOON,
            gateway: Arc::new(Gateway { version, config_sha256: [7; 32], instance, durability }),
        }
    }

    fn seal(&self, seq: u64, draft: &Draft) -> Record {
        draft.seal(&Position { log: self.log, epoch: 1, seq, base: Tree::new().head() }, &self.signer)
    }

    /// A record like any other: a `log_open` first, then reports of the clock.
    fn plain(&self, seq: u64) -> Record {
        let stamp = Self::stamp();
        self.seal(
            seq,
            &match seq {
                0 => Draft::log_open(&stamp, &self.row().origin, &self.signer.public_key()),
                _ => Draft::clock(&stamp, NOON, NOON + seq),
            },
        )
    }

    fn gap(&self, seq: u64, from: u64, to: u64) -> Record {
        self.seal(seq, &Draft::gap(&Self::stamp(), from, to, "unreadable", None))
    }

    /// Registered, with records 0 to 2 in the database.
    async fn begun(&self, fixture: &Fixture) -> Arc<dyn RecordStore> {
        let store = fixture.stores.records.clone();
        store.register(&self.row()).await.expect("a new log");
        let batch: Vec<Record> = (0..3).map(|seq| self.plain(seq)).collect();
        assert_eq!(store.ship(self.log, 1, &batch).await.expect("shipped"), 3);
        store
    }

    /// What `verify` says of the database.
    async fn verified(&self, fixture: &Fixture) -> Report {
        let keys = KeySet::new([self.signer.public_key()]).expect("a key");
        let mut verifier = Verifier::new(&keys, Options::default());
        for row in fixture.stores.records.logs().await.expect("a read") {
            verifier.log(row);
        }
        for (record, stored) in fixture.stores.stored(self.log, 0, 100).await.expect("a read") {
            verifier.row(record, stored);
        }
        verifier.finish()
    }
}

async fn next_seq(store: &Arc<dyn RecordStore>) -> u64 {
    store.logs().await.expect("a read")[0].next_seq
}

pub(crate) async fn a_declared_gap_is_passed_and_stays_a_declared_hole(fixture: Fixture) {
    let writer = Writer::new();
    let store = writer.begun(&fixture).await;
    let behind = [writer.plain(6), writer.gap(7, 3, 5), writer.plain(8)];
    let found = store.ship(writer.log, 1, &behind).await;
    assert!(matches!(found, Err(ShipFault::Gap { expected: 3, found: 6 })), "{found:?}");

    for _ in 0..2 {
        assert_eq!(store.pass_gap(writer.log, 1, &behind[1]).await.expect("declared"), 6);
    }
    assert_eq!(store.ship(writer.log, 1, &behind).await.expect("shipped"), 9);
    assert_eq!(store.pass_gap(writer.log, 1, &behind[1]).await.expect("long ago"), 9);
    let report = writer.verified(&fixture).await;
    assert_eq!((report.exit_code(), report.declared_missing, report.records), (0, 3, 6), "{report}");

    assert!(store.erase(&behind[1]).await.expect("what declares it is gone"));
    let report = writer.verified(&fixture).await;
    assert_eq!(report.exit_code(), Code::Gap as u8, "{report}");
}

pub(crate) async fn gaps_side_by_side_are_passed_one_after_the_other(fixture: Fixture) {
    let writer = Writer::new();
    let store = writer.begun(&fixture).await;
    let gaps = [writer.gap(7, 3, 3), writer.gap(8, 4, 6)];
    store.pass_gap(writer.log, 1, &gaps[1]).await.expect_err("its turn has not come");
    assert_eq!(store.pass_gap(writer.log, 1, &gaps[0]).await.expect("declared"), 4);
    assert_eq!(store.pass_gap(writer.log, 1, &gaps[1]).await.expect("declared"), 7);
    assert_eq!(store.ship(writer.log, 1, &gaps).await.expect("shipped"), 9);
    let report = writer.verified(&fixture).await;
    assert_eq!((report.exit_code(), report.declared_missing), (0, 4), "{report}");
}

pub(crate) async fn what_does_not_declare_exactly_what_is_missing_passes_nothing(fixture: Fixture) {
    let (writer, other) = (Writer::new(), Writer::new());
    let store = writer.begun(&fixture).await;
    let good = writer.gap(7, 3, 5);
    let altered = |alter: fn(&mut Record)| {
        let mut record = good.clone();
        alter(&mut record);
        record
    };
    let counted = writer.seal(7, &Draft::unrecorded(&Writer::stamp(), 3, "log_full"));
    let elsewhere = Writer { log: writer.log, signer: Signer::generate() };
    for (what, record) in [
        ("a range that begins before", writer.gap(7, 2, 5)),
        ("a range that begins behind", writer.gap(7, 4, 5)),
        ("a range over the record itself", writer.gap(7, 3, 7)),
        ("a range without an element", writer.gap(7, 3, 2)),
        ("a count", counted),
        ("another kind", writer.plain(7)),
        ("another log", other.gap(7, 3, 5)),
        ("another key", elsewhere.gap(7, 3, 5)),
        ("another place", altered(|record| record.seq = 8)),
        ("another signature", altered(|record| record.sig[9] ^= 1)),
        (
            "another payload",
            altered(|record| *Arc::make_mut(&mut record.payload).last_mut().expect("not empty") = b' '),
        ),
    ] {
        let found = store.pass_gap(writer.log, 1, &record).await;
        assert!(matches!(found, Err(ShipFault::Gap { expected: 3, .. })), "{what}: {found:?}");
        assert_eq!(next_seq(&store).await, 3, "{what}");
    }
    assert_eq!(store.pass_gap(writer.log, 1, &good).await.expect("declared"), 6);
}

pub(crate) async fn only_the_owning_epoch_passes_a_gap(fixture: Fixture) {
    let writer = Writer::new();
    let store = writer.begun(&fixture).await;
    store.register(&LogRow { epoch: 2, ..writer.row() }).await.expect("a takeover");
    let gap = writer.gap(7, 3, 5);
    let late = store.pass_gap(writer.log, 1, &gap).await;
    assert!(matches!(late, Err(ShipFault::Fenced { ours: 1, found: 2 })), "{late:?}");
    let early = store.pass_gap(writer.log, 3, &gap).await;
    assert!(matches!(early, Err(ShipFault::Unavailable(_))), "{early:?}");
    let unknown = store.pass_gap(new_log(), 2, &gap).await;
    assert!(matches!(unknown, Err(ShipFault::Unavailable(_))), "{unknown:?}");
    assert_eq!(next_seq(&store).await, 3);
    assert_eq!(store.pass_gap(writer.log, 2, &gap).await.expect("the new owner"), 6);
}
