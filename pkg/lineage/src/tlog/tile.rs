//! Tiles (C2SP tlog-tiles): the tree's hashes in files of 256 that never change once they are full.

use super::Subtrees;
use crate::TreeHead;
use crate::tree::node_hash;
use sha2::{Digest, Sha256};
use std::fmt;
use std::str::FromStr;

type Hash = [u8; 32];

/// Hashes in a full tile.
pub const TILE_WIDTH: usize = 256;
/// log2 of it: how many levels of the tree a tile spans.
const TILE_HEIGHT: u32 = 8;

/// Which tile. As text its path: `tile/<level>/<index>[.p/<width>]`, with the index in groups of three digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// 0 holds leaf hashes; each hash of the next one is the root of a full tile below.
    pub level: u8,
    /// Its place in the level.
    pub index: u64,
    /// Number of hashes, 1 to 256; below 256 the tile is partial.
    pub width: u16,
}

/// A path that names no tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the path of a tile")]
pub struct TileFault;

impl Tile {
    /// The tiles that the tree of `size` leaves has at its right edge, one a level, and not filled.
    pub fn partial(size: u64) -> impl Iterator<Item = Self> {
        (0_u8..8)
            .map_while(move |level| {
                let hashes = size >> (TILE_HEIGHT * u32::from(level));
                (hashes > 0).then(|| Self {
                    level,
                    index: hashes / TILE_WIDTH as u64,
                    width: u16::try_from(hashes % TILE_WIDTH as u64).expect("below 256"),
                })
            })
            .filter(|tile| tile.width > 0)
    }

    /// The bundle of entries at `tile/entries/<index>[.p/<width>]`, as the tile of level 0 over the same leaves.
    ///
    /// # Errors
    /// The path names no bundle, or is not the one way to write it.
    pub fn of_entries(path: &str) -> Result<Self, TileFault> {
        format!("tile/0/{}", path.strip_prefix("tile/entries/").ok_or(TileFault)?).parse()
    }

    /// The seqs of its leaves, for a tile of level 0.
    pub const fn leaves(&self) -> std::ops::Range<u64> {
        let first = self.index * TILE_WIDTH as u64;
        first..first + self.width as u64
    }

    /// Whether it never changes.
    pub const fn is_full(&self) -> bool {
        self.width as usize == TILE_WIDTH
    }
}

impl fmt::Display for Tile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tile/{}/", self.level)?;
        let mut groups = [0_u16; 7];
        let (mut rest, mut first) = (self.index, 6);
        loop {
            groups[first] = u16::try_from(rest % 1000).expect("below 1000");
            rest /= 1000;
            if rest == 0 {
                break;
            }
            first -= 1;
        }
        groups[first..6].iter().try_for_each(|group| write!(f, "x{group:03}/"))?;
        write!(f, "{:03}", groups[6])?;
        if self.is_full() { Ok(()) } else { write!(f, ".p/{}", self.width) }
    }
}

impl FromStr for Tile {
    type Err = TileFault;

    /// Takes the one way to write a path and no other.
    fn from_str(path: &str) -> Result<Self, TileFault> {
        let read = || {
            let (level, rest) = path.strip_prefix("tile/")?.split_once('/')?;
            let (groups, width) = rest.split_once(".p/").unwrap_or((rest, "256"));
            let mut index = 0_u64;
            for group in groups.split('/') {
                let digits = group.strip_prefix('x').unwrap_or(group);
                index = index.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
            }
            Some(Self { level: level.parse().ok()?, index, width: width.parse().ok()? })
        };
        let good = |tile: &Self| (1..=256).contains(&tile.width) && tile.level < 64 && tile.to_string() == path;
        read().filter(good).ok_or(TileFault)
    }
}

/// Appends an entry to a bundle: its length as u16be, then its bytes. An entry of a tree has fewer than 2^16 of them.
pub fn push_entry(bundle: &mut Vec<u8>, entry: &[u8]) {
    bundle.extend(u16::try_from(entry.len()).expect("an entry is short").to_be_bytes());
    bundle.extend_from_slice(entry);
}

/// A growing tree by its tiles: takes leaf hashes and gives full tiles away; only the right edge stays, at most 255
/// hashes a level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tiles {
    size: u64,
    /// The partial tile of each level, lowest first.
    edge: Vec<Vec<Hash>>,
}

impl Tiles {
    /// Appends a leaf hash. `full` gets each tile that it fills, lowest first.
    pub fn push(&mut self, leaf: Hash, mut full: impl FnMut(Tile, &[Hash])) {
        self.size += 1;
        let (mut hash, mut level) = (leaf, 0_u8);
        loop {
            let at = usize::from(level);
            if self.edge.len() == at {
                self.edge.push(Vec::with_capacity(TILE_WIDTH));
            }
            self.edge[at].push(hash);
            if self.edge[at].len() < TILE_WIDTH {
                return;
            }
            let index = (self.size >> (TILE_HEIGHT * (u32::from(level) + 1))) - 1;
            full(Tile { level, index, width: 256 }, &self.edge[at]);
            hash = perfect_root(&self.edge[at]);
            self.edge[at].clear();
            level += 1;
        }
    }

    /// Takes up a tree of `size` leaves, of which `read` gives the partial tiles.
    ///
    /// # Errors
    /// That of `read`, or its answer has not as many hashes as were asked for.
    pub fn resume<E: From<TileFault>>(
        size: u64,
        mut read: impl FnMut(Tile) -> Result<Vec<Hash>, E>,
    ) -> Result<Self, E> {
        let levels = size.checked_ilog2().map_or(0, |top| top / TILE_HEIGHT + 1);
        let mut edge = vec![Vec::with_capacity(TILE_WIDTH); levels as usize];
        for tile in Tile::partial(size) {
            let hashes = read(tile)?;
            if hashes.len() != usize::from(tile.width) {
                return Err(TileFault.into());
            }
            edge[usize::from(tile.level)].extend(hashes);
        }
        Ok(Self { size, edge })
    }

    /// Number of leaves.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// The partial tiles and their hashes: what a checkpoint at this size needs beside the full ones.
    pub fn partial(&self) -> impl Iterator<Item = (Tile, &[Hash])> {
        Tile::partial(self.size).map(|tile| (tile, self.edge[usize::from(tile.level)].as_slice()))
    }

    /// The roots of its perfect subtrees, largest first, one for each bit of the size.
    pub fn peaks(&self) -> Vec<Hash> {
        let mut peaks = Vec::new();
        for row in &self.edge {
            let mut end = row.len();
            while end > 0 {
                let width = 1 << end.trailing_zeros();
                peaks.push(perfect_root(&row[end - width..end]));
                end -= width;
            }
        }
        peaks.reverse();
        peaks
    }

    /// The root, and the size.
    pub fn head(&self) -> TreeHead {
        let root = self.peaks().into_iter().rev().reduce(|right, left| node_hash(&left, &right));
        TreeHead { size: self.size, root: root.unwrap_or_else(|| Sha256::digest([]).into()) }
    }
}

/// The root over a power of two of hashes.
fn perfect_root(hashes: &[Hash]) -> Hash {
    let mut row = hashes.to_vec();
    while row.len() > 1 {
        row = row.as_chunks::<2>().0.iter().map(|[left, right]| node_hash(left, right)).collect();
    }
    row[0]
}

/// [`Subtrees`] out of tiles, which `read` gives by name. The last tile of each level is kept: a proof asks for several
/// hashes of it.
#[derive(Debug)]
pub struct FromTiles<R> {
    size: u64,
    read: R,
    kept: Vec<(Tile, Vec<Hash>)>,
}

impl<R> FromTiles<R> {
    /// The tree of `size` leaves.
    pub const fn new(size: u64, read: R) -> Self {
        Self { size, read, kept: Vec::new() }
    }
}

impl<E: From<TileFault>, R: FnMut(Tile) -> Result<Vec<Hash>, E>> FromTiles<R> {
    /// Reads a tile in the place of the one of its level that is kept; where it is kept now.
    fn fetch(&mut self, tile: Tile) -> Result<usize, E> {
        let hashes = (self.read)(tile)?;
        if hashes.len() != usize::from(tile.width) {
            return Err(TileFault.into());
        }
        self.kept.retain(|(kept, _)| kept.level != tile.level);
        self.kept.push((tile, hashes));
        Ok(self.kept.len() - 1)
    }
}

impl<E: From<TileFault>, R: FnMut(Tile) -> Result<Vec<Hash>, E>> Subtrees for FromTiles<R> {
    type Fault = E;

    fn root(&mut self, level: u32, index: u64) -> Result<Hash, E> {
        // The tile whose hashes are at this level or the next one below it.
        let tile_level = level / TILE_HEIGHT;
        let below = level % TILE_HEIGHT;
        let (first, width) = (index << below, 1_usize << below);
        let tile_index = first / TILE_WIDTH as u64;
        let hashes = self.size >> (TILE_HEIGHT * tile_level);
        let held = (hashes - tile_index * TILE_WIDTH as u64).min(TILE_WIDTH as u64);
        let tile = Tile {
            level: u8::try_from(tile_level).expect("below 8"),
            index: tile_index,
            width: u16::try_from(held).expect("at most 256"),
        };
        let at = self.kept.iter().position(|(kept, _)| *kept == tile);
        let at = at.map_or_else(|| self.fetch(tile), Ok)?;
        let offset = usize::try_from(first % TILE_WIDTH as u64).expect("below 256");
        Ok(perfect_root(&self.kept[at].1[offset..offset + width]))
    }
}
