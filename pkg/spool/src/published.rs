//! Leaf hashes out of the tiles that were published of a log, for records that no segment holds any more.

use crate::files::Files;
use crate::frame::Hash;
use crate::scan::read_full;
use signet_lineage::TreeHead;
use signet_lineage::tlog::{FromTiles, Subtrees, TILE_WIDTH, Tile, TileFault, inclusion};
use signet_lineage::verify::includes;
use std::sync::Arc;

type Read = Box<dyn FnMut(Tile) -> Result<Vec<Hash>, TileFault> + Send>;

/// The tree of the checkpoint that was signed last, as its tiles tell it.
pub(crate) struct Published {
    head: Option<TreeHead>,
    tiles: FromTiles<Read>,
    /// The tile that was read last: its first leaf, and its leaves if they fit the signed root.
    held: Option<(u64, Vec<Hash>)>,
}

impl Published {
    pub(crate) fn new(head: Option<TreeHead>, files: Arc<dyn Files>) -> Self {
        let read: Read = Box::new(move |tile| {
            let mut bytes = vec![0; usize::from(tile.width) * 32];
            let file = files.open(&tile.to_string()).map_err(|_| TileFault)?;
            let got = read_full(&*file, &mut bytes, 0).map_err(|_| TileFault)?;
            if got == bytes.len() { Ok(bytes.as_chunks().0.to_vec()) } else { Err(TileFault) }
        });
        Self { head, tiles: FromTiles::new(head.map_or(0, |head| head.size), read), held: None }
    }

    pub(crate) const fn head(&self) -> Option<TreeHead> {
        self.head
    }

    /// The leaf hash that the signed tree has at `seq`; none if it has none, or the tiles do not prove it.
    pub(crate) fn leaf(&mut self, seq: u64) -> Option<Hash> {
        let head = self.head.filter(|head| seq < head.size)?;
        let first = seq - seq % TILE_WIDTH as u64;
        if self.held.as_ref().is_none_or(|(held, _)| *held != first) {
            self.held = Some((first, self.load(head, first).unwrap_or_default()));
        }
        let (_, leaves) = self.held.as_ref()?;
        leaves.get(usize::try_from(seq - first).ok()?).copied()
    }

    /// The leaves of the tile that begins with `first`. All of them enter into the proof of any one.
    fn load(&mut self, head: TreeHead, first: u64) -> Option<Vec<Hash>> {
        let end = head.size.min(first + TILE_WIDTH as u64);
        let leaves: Vec<Hash> = (first..end).map(|seq| self.tiles.root(0, seq)).collect::<Result<_, _>>().ok()?;
        let path = inclusion(&mut self.tiles, first, head.size).ok()?;
        includes(&head.root, head.size, first, &leaves[0], &path).then_some(leaves)
    }
}
