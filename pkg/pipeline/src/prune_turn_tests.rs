//! When a turn comes, and which logs it leaves for a later one.

use super::*;

/// Counts how often it is asked.
#[derive(Default)]
struct Asked(AtomicU32);

#[async_trait]
impl PruneStore for Asked {
    async fn retained(&self, days: u32) -> Result<Option<u32>, ShipFault> {
        Ok(Some(days))
    }

    async fn expired_below(&self, _: LogId, _: u64, _: u32, _: u64) -> Result<u64, ShipFault> {
        Ok(0)
    }

    async fn pruned(&self) -> Result<Vec<PrunedLog>, ShipFault> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Err(ShipFault::Unavailable("away".to_owned()))
    }

    async fn note_prune(&self, _: &Record) -> Result<(), ShipFault> {
        Ok(())
    }

    async fn drop_pruned(&self, _: u32) -> Result<u64, ShipFault> {
        Ok(0)
    }
}

#[tokio::test]
async fn a_turn_comes_each_hour_and_not_at_once_and_its_fault_is_told() {
    let place = Place::sqlite().await;
    let process = Process::start(&place, "a");
    process.write(1).await;
    let (asked, told) = (Arc::new(Asked::default()), Arc::new(Lock::new(None)));
    let (tell, stop) = (told.clone(), CancellationToken::new());
    let parts = PruneParts {
        recorder: process.recorder.clone(),
        view: process.view.clone(),
        shown: process.shown.clone(),
        records: place.stores.records.clone(),
        trees: place.stores.trees.clone(),
        store: asked.clone(),
        anchors: Vec::new(),
        days: DAYS,
        clock: place.clock.clone(),
        note: Box::new(move |fault| *tell.lock() = fault),
    };
    process.end().await;
    place.stores.close().await;
    tokio::time::pause();
    let running = tokio::spawn(Arc::new(Pruner::new(parts)).run(stop.clone()));
    tokio::time::sleep(Duration::from_mins(59)).await;
    assert_eq!(asked.0.load(Ordering::SeqCst), 0);
    tokio::time::sleep(Duration::from_mins(12)).await;
    assert_eq!(asked.0.load(Ordering::SeqCst), 1);
    assert_eq!(told.lock().as_deref(), Some("unavailable: away"));
    tokio::time::sleep(Duration::from_hours(10)).await;
    assert!((9..=11).contains(&asked.0.load(Ordering::SeqCst)));
    stop.cancel();
    running.await.expect("it ends");
}

#[test]
fn a_log_waits_whose_prune_of_another_is_not_signed_again() {
    let log = |n: u8| LogId::from_bytes([n; 16]);
    let plan = |below| Plan { below, peaks: Vec::new() };
    let said = |of: u8, by: u8, seq| (log(of), PrunedLog { log: log(of), below_seq: 5, by: (log(by), seq) });
    // 1 is told by 2, and 2 by 3.
    let noted: Noted = [said(1, 2, 10), said(2, 3, 10)].into();
    let left = |plans: &[(u8, u64)]| {
        let mut plans = plans.iter().map(|(n, below)| (log(*n), plan(*below))).collect();
        keep_said(&mut plans, &noted);
        plans.into_keys().map(|log| log.as_uuid().into_bytes()[0]).collect::<Vec<_>>()
    };
    assert_eq!(left(&[(1, 6), (2, 11), (3, 11)]), [1, 2, 3]);
    assert_eq!(left(&[(2, 10), (3, 10)]), [2, 3], "what says so stays");
    assert_eq!(left(&[(2, 11), (3, 10)]), [3]);
    assert_eq!(left(&[(2, 11), (3, 11)]), [0; 0], "without 1 no 2, and without 2 no 3");
}
