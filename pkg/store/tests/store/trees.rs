//! Checkpoints and tiles, as other replicas find them.

use crate::support::{Fixture, log_row, new_log, records};
use signet_lineage::tlog::Tile;
use signet_lineage::{Leaf, TreeFault, TreeHead};
use signet_types::LogId;

fn head(size: u64) -> TreeHead {
    TreeHead { size, root: [u8::try_from(size).unwrap_or(255); 32] }
}

async fn registered(fixture: &Fixture, epoch: u32) -> LogId {
    let log = new_log();
    fixture.stores.records.register(&log_row(log, epoch)).await.expect("a new log");
    log
}

pub(crate) async fn the_newest_checkpoint_is_found_and_each_one_stays(fixture: Fixture) {
    let (trees, log) = (fixture.stores.trees.clone(), registered(&fixture, 1).await);
    assert_eq!(trees.newest_checkpoint(log).await.expect("an answer"), None);
    for size in [3, 9, 9] {
        trees.put_checkpoint(log, 1, &head(size), &format!("note {size}\n")).await.expect("a larger one, or the same");
    }
    assert_eq!(trees.newest_checkpoint(log).await.expect("an answer").as_deref(), Some("note 9\n"));
    trees.put_checkpoint(log, 1, &head(3), "note 3\n").await.expect("it is there already");
    assert_eq!(trees.newest_checkpoint(new_log()).await.expect("an answer"), None);
}

pub(crate) async fn a_smaller_or_a_different_checkpoint_is_refused(fixture: Fixture) {
    let (trees, log) = (fixture.stores.trees.clone(), registered(&fixture, 1).await);
    trees.put_checkpoint(log, 1, &head(9), "note 9\n").await.expect("the first");
    let older = trees.put_checkpoint(log, 1, &head(8), "note 8\n").await;
    assert!(matches!(older, Err(TreeFault::Older { ours: 8, found: 9 })), "{older:?}");
    let other = TreeHead { root: [7; 32], ..head(9) };
    let differs = trees.put_checkpoint(log, 1, &other, "another note 9\n").await;
    assert!(matches!(differs, Err(TreeFault::Conflict { size: 9 })), "{differs:?}");
    assert_eq!(trees.newest_checkpoint(log).await.expect("an answer").as_deref(), Some("note 9\n"));
}

pub(crate) async fn only_the_owner_of_a_known_log_publishes(fixture: Fixture) {
    let (trees, log) = (fixture.stores.trees.clone(), registered(&fixture, 2).await);
    let late = trees.put_checkpoint(log, 1, &head(1), "note\n").await;
    assert!(matches!(late, Err(TreeFault::Fenced { ours: 1, found: 2 })), "{late:?}");
    let unknown = trees.put_checkpoint(new_log(), 1, &head(1), "note\n").await;
    assert!(matches!(unknown, Err(TreeFault::Unavailable(_))), "{unknown:?}");
}

pub(crate) async fn tiles_grow_and_never_shrink(fixture: Fixture) {
    let (trees, log) = (fixture.stores.trees.clone(), new_log());
    let tile = |level, index, width: u16| (Tile { level, index, width }, vec![level; usize::from(width) * 32]);
    trees.put_tiles(log, &[tile(1, 0, 2), tile(1, 1, 1), tile(2, 0, 1)]).await.expect("kept");
    trees.put_tiles(log, &[tile(1, 0, 3)]).await.expect("kept");
    trees.put_tiles(log, &[tile(1, 0, 1)]).await.expect("left out");
    assert_eq!(trees.tile(log, 1, 0).await.expect("an answer"), Some(tile(1, 0, 3).1));
    assert_eq!(trees.tile(log, 1, 7).await.expect("an answer"), None);
    assert_eq!(trees.tile_ends(log).await.expect("an answer"), [(1, 1), (2, 0)]);
}

pub(crate) async fn leaf_hashes_come_up_to_the_first_hole(fixture: Fixture) {
    let (trees, log) = (fixture.stores.trees.clone(), registered(&fixture, 1).await);
    let batch = records(log, 0..6);
    fixture.stores.records.ship(log, 1, &batch).await.expect("shipped");
    let hashes: Vec<[u8; 32]> = batch.iter().map(|record| Leaf::of(record).hash()).collect();
    assert_eq!(trees.leaf_hashes(log, 1, 3).await.expect("an answer"), hashes[1..4]);
    assert_eq!(trees.leaf_hashes(log, 6, 3).await.expect("an answer"), [[0; 32]; 0]);
    fixture.execute("DELETE FROM lineage_entry WHERE seq = 4").await;
    assert_eq!(trees.leaf_hashes(log, 2, 9).await.expect("an answer"), hashes[2..4]);
    assert_eq!(trees.leaf_hashes(log, 4, 9).await.expect("an answer"), [[0; 32]; 0]);
}
