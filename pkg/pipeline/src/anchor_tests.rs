//! Anchors that are away, slow, torn and repeated.

use super::*;
use parking_lot::Mutex;
use signet_lineage::TreeHead;
use signet_lineage::tlog::notes_in;
use signet_types::ManualClock;
use tokio::sync::watch;

fn published(size: u64) -> Published {
    let note = format!("test.example/signet/log\n{size}\nroot\n\n\u{2014} test.example/signet/log signature{size}\n");
    Published { note, head: TreeHead { size, root: [1; 32] }, at_ms: 1_000 * size }
}

/// Keeps what it gets, unless it is away.
#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<(bool, Vec<u64>)>>);

#[async_trait]
impl Anchor for Shelf {
    fn name(&self) -> &'static str {
        "shelf"
    }

    async fn put(&self, checkpoint: &Published) -> Result<(), AnchorFault> {
        let mut kept = self.0.lock();
        if kept.0 {
            return Err(AnchorFault("away".to_owned()));
        }
        kept.1.push(checkpoint.head.size);
        Ok(())
    }
}

#[tokio::test]
async fn a_file_holds_each_note_once_and_goes_on_behind_a_torn_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("anchors");
    let anchor = FileAnchor::new(&path);
    for size in [1, 2, 2] {
        anchor.put(&published(size)).await.expect("a file");
    }
    // A process that died while it wrote, and one that tries what it may have written before.
    let torn = std::fs::read_to_string(&path).expect("text") + "test.example/signet/log\n3";
    std::fs::write(&path, torn).expect("written");
    for size in [4, 4, 5] {
        FileAnchor::new(&path).put(&published(size)).await.expect("a file");
    }
    let text = std::fs::read_to_string(&path).expect("text");
    let (whole, torn): (Vec<_>, Vec<_>) = notes_in(&text).into_iter().partition(Result::is_ok);
    let notes: Vec<&str> = whole.into_iter().filter_map(Result::ok).collect();
    let expected: Vec<String> = [1, 2, 4, 5].map(|size| published(size).note).to_vec();
    assert_eq!(notes, expected);
    assert_eq!(torn, [Err(13), Err(14)], "the fragment's lines are named");
}

#[tokio::test]
async fn a_file_in_a_folder_that_is_not_there_is_a_fault_and_taken_up_once_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("later").join("anchors");
    let anchor = FileAnchor::new(&path);
    assert!(anchor.put(&published(1)).await.is_err());
    std::fs::create_dir(folder.path().join("later")).expect("made");
    anchor.put(&published(2)).await.expect("a file");
    assert_eq!(std::fs::read_to_string(&path).expect("text"), format!("{}\n", published(2).note));
}

/// Lets the paused clock run on to here: no time passes, and every timer before it fires in its order.
async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn each_anchor_gets_the_newest_checkpoint_and_one_that_is_away_shows_its_age() {
    let (show, shown) = watch::channel(Some(Arc::new(published(1))));
    let (clock, metrics) = (Arc::new(ManualClock::at(1_000)), Arc::new(Metrics::new()));
    let (shelf, stop, stale) = (Shelf::default(), CancellationToken::new(), Arc::new(Mutex::new(None)));
    let told = stale.clone();
    let note = move |_: &str, fault| *told.lock() = fault;
    let every = Duration::from_secs(10);
    let task = Anchoring::new(Box::new(shelf.clone()), shown, every, clock.clone(), metrics.clone(), note);
    let running = tokio::spawn(task.run(stop.clone()));
    pass(Duration::from_secs(5)).await;
    assert_eq!(shelf.0.lock().1, [1]);
    show.send_replace(Some(Arc::new(published(2))));
    show.send_replace(Some(Arc::new(published(3))));
    pass(Duration::from_secs(15)).await;
    assert_eq!(shelf.0.lock().1, [1, 3], "not more often than asked for, and the newest");

    shelf.0.lock().0 = true;
    show.send_replace(Some(Arc::new(published(4))));
    clock.advance(Duration::from_mins(1));
    pass(Duration::from_mins(1)).await;
    assert_eq!(stale.lock().as_deref(), Some("away"));
    let text = metrics.encode();
    assert!(text.contains("signet_anchor_age_seconds{anchor=\"shelf\"} 58.0"), "{text}");
    let failures = text.lines().find_map(|line| line.strip_prefix("signet_anchor_failures_total{anchor=\"shelf\"} "));
    assert!(failures.is_some_and(|n| n.parse::<u64>().is_ok_and(|n| (4..12).contains(&n))), "{failures:?}");

    shelf.0.lock().0 = false;
    pass(Duration::from_secs(40)).await;
    assert_eq!(shelf.0.lock().1, [1, 3, 4]);
    assert_eq!(*stale.lock(), None);
    assert!(metrics.encode().contains("signet_anchor_age_seconds{anchor=\"shelf\"} 0.0"));

    show.send_replace(Some(Arc::new(published(9))));
    stop.cancel();
    running.await.expect("it ends");
    assert_eq!(shelf.0.lock().1, [1, 3, 4, 9], "the last one is not left behind");
}
