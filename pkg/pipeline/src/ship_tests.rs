//! The shipper at a hole, with a log and a store that judge nothing themselves.

use super::*;
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_lineage::{Columns, ControlStamp, Draft, Gateway, Leaf, Position, Signer, Tree};
use signet_spool::{LogFault, LogStats, Opened, Written};
use signet_types::{LineageId, LogId, TenantId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

const LOG: LogId = LogId::from_bytes([1; 16]);

/// A log that lacks records 2 and 3 of 7; the one at 5 may declare them.
struct Holed {
    records: Vec<Arc<Record>>,
    durable: AtomicU64,
    /// What is older is gone.
    held: AtomicU64,
}

impl RecordLog for Holed {
    fn id(&self) -> LogId {
        LOG
    }

    fn epoch(&self) -> u32 {
        1
    }

    fn open(&self, _id: LineageId, _facts: &[u8]) -> Result<Opened, LogFault> {
        unreachable!("a shipper opens nothing")
    }

    fn close(&self, _: Option<Opened>, _: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault> {
        unreachable!("a shipper writes nothing")
    }

    fn close_alone(&self, _: Option<Opened>, _: &mut dyn FnMut(&Position) -> Record) -> Result<Written, LogFault> {
        unreachable!("a shipper writes nothing")
    }

    fn find(&self, id: LineageId) -> Option<Arc<Record>> {
        self.records.iter().find(|record| record.id == id).cloned()
    }

    fn read_from(&self, from_seq: u64, _: usize, _: usize) -> Result<Vec<Arc<Record>>, LogFault> {
        let durable = self.durable.load(Ordering::Relaxed);
        let from_seq = from_seq.max(self.held.load(Ordering::Relaxed));
        let mut batch: Vec<Arc<Record>> = Vec::new();
        for record in self.records.iter().filter(|record| (from_seq..durable).contains(&record.seq)) {
            if batch.last().is_none_or(|last| last.seq + 1 == record.seq) {
                batch.push(record.clone());
            }
        }
        Ok(batch)
    }

    fn shipped(&self, _next_seq: u64) {}

    fn mark(&self) -> Mark {
        Mark::record(6)
    }

    fn poll_synced(&self, _: Mark, _: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shipped(&self, _: Mark, _: &mut Context<'_>) -> Poll<Result<(), LogFault>> {
        unreachable!("a shipper does not wait for itself")
    }

    fn published_tree(&self) -> Tree {
        Tree::new()
    }

    fn holds_from(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    fn reread_leaves(&self, _: u64, _: usize) -> Result<Vec<[u8; 32]>, LogFault> {
        unreachable!("a shipper hashes nothing")
    }

    fn sync(&self) -> Result<(), LogFault> {
        Ok(())
    }

    fn check(&self) -> Result<(), LogFault> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        LogStats { next_seq: 7, durable_seq: self.durable.load(Ordering::Relaxed), shipped_seq: 0, bytes: 0 }
    }

    fn bound(&self) -> u64 {
        u64::MAX
    }
}

/// Takes whatever follows on, and every gap: what may be passed is the shipper's to judge here.
#[derive(Default)]
struct Yes {
    next: Mutex<u64>,
    passed: AtomicU64,
}

#[async_trait]
impl RecordStore for Yes {
    async fn register(&self, log: &LogRow) -> Result<LogRow, ShipFault> {
        Ok(LogRow { next_seq: *self.next.lock(), ..log.clone() })
    }

    async fn ship(&self, _: LogId, _: u32, batch: &[Record]) -> Result<u64, ShipFault> {
        let mut next = self.next.lock();
        if batch[0].seq > *next {
            return Err(ShipFault::Gap { expected: *next, found: batch[0].seq });
        }
        *next = batch.last().map_or(0, |last| last.seq + 1).max(*next);
        Ok(*next)
    }

    async fn pass_gap(&self, _: LogId, _: u32, gap: &Record) -> Result<u64, ShipFault> {
        self.passed.store(gap.seq, Ordering::Relaxed);
        *self.next.lock() = 4;
        Ok(4)
    }

    async fn find(&self, _: LineageId, _: Option<TenantId>) -> Result<Option<Record>, ShipFault> {
        Ok(None)
    }

    async fn erase(&self, _: &Record) -> Result<bool, ShipFault> {
        Ok(false)
    }

    async fn is_erased(&self, _: LogId, _: u64) -> Result<bool, ShipFault> {
        Ok(false)
    }

    async fn list(&self, _: Option<TenantId>, _: Option<LineageId>, _: u32) -> Result<Vec<Columns>, ShipFault> {
        Ok(Vec::new())
    }

    async fn logs(&self) -> Result<Vec<LogRow>, ShipFault> {
        Ok(Vec::new())
    }

    async fn records(&self, _: LogId, _: u64, _: u32) -> Result<Vec<Record>, ShipFault> {
        Ok(Vec::new())
    }

    async fn leaves(&self, _: LogId, _: u64, _: u32) -> Result<Vec<Leaf>, ShipFault> {
        Ok(Vec::new())
    }
}

fn sealed(signer: &Signer, seq: u64, draft: impl FnOnce(&ControlStamp) -> Draft) -> Arc<Record> {
    let text = || "x".to_owned();
    let stamp = ControlStamp {
        id: LineageId::generate(seq),
        at_ms: seq,
        gateway: Arc::new(Gateway { version: text(), config_sha256: [7; 32], instance: text(), durability: text() }),
    };
    Arc::new(draft(&stamp).seal(&Position { log: LOG, epoch: 1, seq, base: Tree::new().head() }, signer))
}

type Told = Arc<Mutex<Vec<Hole>>>;

/// A shipper of the holed log with 2..=`to` declared at seq 5, told of the records in `known`.
fn shipper(
    to: u64,
    durable: u64,
    known: impl Fn(&Arc<Record>) -> Arc<Record>,
) -> (Shipper, Arc<Holed>, Arc<Yes>, Told) {
    let signer = Signer::generate();
    let plain = |seq| sealed(&signer, seq, |stamp| Draft::clock(stamp, 1, 2));
    let gap = sealed(&signer, 5, |stamp| Draft::gap(stamp, 2, to, "unreadable", None));
    let known = vec![known(&gap)];
    let records = vec![plain(0), plain(1), plain(4), gap, plain(6)];
    let log = Arc::new(Holed { records, durable: AtomicU64::new(durable), held: AtomicU64::new(0) });
    let attest_key = *signer.public_key().as_bytes();
    let row = LogRow { log: LOG, origin: "x".to_owned(), epoch: 1, attest_key, next_seq: 0 };
    let (store, told) = (Arc::new(Yes::default()), Told::default());
    let tell = told.clone();
    let shipper = Shipper::new(log.clone(), store.clone(), row).over(known, move |hole| tell.lock().push(hole));
    (shipper, log, store, told)
}

async fn steps(shipper: &mut Shipper, count: usize) {
    let mut next = None;
    for _ in 0..count {
        shipper.step(&mut next).await.expect("not fatal");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hole_is_passed_only_once_its_gap_record_is_on_the_disk() {
    let (mut shipper, log, store, told) = shipper(3, 5, Arc::clone);
    steps(&mut shipper, 4).await;
    assert_eq!((*store.next.lock(), store.passed.load(Ordering::Relaxed)), (2, 0));
    assert_eq!(*told.lock(), [], "it is declared, only not safe yet");
    log.durable.store(7, Ordering::Relaxed);
    steps(&mut shipper, 3).await;
    assert_eq!((*store.next.lock(), store.passed.load(Ordering::Relaxed)), (7, 5));
    assert_eq!(*told.lock(), []);
}

#[tokio::test(start_paused = true)]
async fn shipping_waits_and_tells_where_no_record_in_the_log_declares_the_hole() {
    let other = Signer::generate();
    let foreign = sealed(&other, 5, |stamp| Draft::gap(stamp, 2, 3, "unreadable", None));
    let absent = |gap: &Arc<Record>| Arc::new(Record { id: LineageId::generate(99), ..(**gap).clone() });
    for (mut shipper, _, store, told) in
        [shipper(4, 7, Arc::clone), shipper(3, 7, |_| foreign.clone()), shipper(3, 7, absent)]
    {
        steps(&mut shipper, 5).await;
        assert_eq!((*store.next.lock(), store.passed.load(Ordering::Relaxed)), (2, 0));
        assert_eq!(*told.lock(), [Some((2, 3))], "told once");
    }
}

#[tokio::test(start_paused = true)]
async fn that_shipping_goes_on_is_told_too() {
    let (mut shipper, log, store, told) = shipper(4, 7, Arc::clone);
    steps(&mut shipper, 3).await;
    // As if the log's files had been restored, or the database had got them elsewhere.
    *store.next.lock() = 4;
    drop(log);
    steps(&mut shipper, 2).await;
    assert_eq!((*store.next.lock(), told.lock().clone()), (7, vec![Some((2, 3)), None]));
}

/// A shipper that has shipped all seven records, and what it tells of regressions.
async fn all_shipped() -> (Shipper, Arc<Holed>, Arc<Yes>, Arc<Mutex<Vec<Option<Regression>>>>) {
    let (shipper, log, store, _) = shipper(3, 7, Arc::clone);
    let told = Arc::new(Mutex::new(Vec::new()));
    let tell = told.clone();
    let mut shipper = shipper.watched(move |regression| tell.lock().push(regression));
    steps(&mut shipper, 3).await;
    assert_eq!((*store.next.lock(), told.lock().len()), (7, 0));
    (shipper, log, store, told)
}

#[tokio::test(start_paused = true)]
async fn a_database_that_fell_back_is_told_and_gets_its_records_again() {
    let (mut shipper, _, store, told) = all_shipped().await;
    *store.next.lock() = 1;
    steps(&mut shipper, 3).await;
    let lost = Regression { first_seq: 1, last_seq: 6, gone: false };
    assert_eq!((*store.next.lock(), told.lock().clone()), (7, vec![Some(lost), None]));
}

#[tokio::test(start_paused = true)]
async fn a_fall_is_noticed_though_nothing_is_written() {
    let (mut shipper, _, store, told) = all_shipped().await;
    let mut next = Some(7);
    *store.next.lock() = 4;
    for _ in 0..IDLE_PAUSES + 3 {
        shipper.step(&mut next).await.expect("not fatal");
    }
    assert_eq!((*store.next.lock(), told.lock().len(), next), (7, 2, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn what_neither_database_nor_log_holds_stays_told_and_nothing_is_shipped() {
    let (mut shipper, log, store, told) = all_shipped().await;
    for held in [7, 6] {
        log.held.store(held, Ordering::Relaxed);
        *store.next.lock() = 4;
        steps(&mut shipper, 3).await;
        let gone = Regression { first_seq: 4, last_seq: 6, gone: true };
        assert_eq!((*store.next.lock(), *told.lock().last().expect("told")), (4, Some(gone)));
    }
    *store.next.lock() = 7;
    steps(&mut shipper, 1).await;
    assert_eq!(*told.lock().last().expect("told"), None, "a newer copy was restored");
}
