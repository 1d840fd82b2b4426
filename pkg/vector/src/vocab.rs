//! The word-piece vocabulary: which row a piece of text has.

use crate::table::TableFault;
use ahash::RandomState;
use hashbrown::HashTable;

/// Fixed, because the table's content is fixed and callers only look up: they cannot lengthen a probe by inserting.
const SEEDS: [u64; 4] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344, 0xa409_3822_299f_31d0, 0x082e_fa98_ec4e_6c89];

/// Pieces that continue a word carry this mark in the vocabulary.
const CONTINUES: &[u8] = b"##";

/// Where in a word a piece may stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Position {
    /// At its start.
    Head,
    /// Behind another piece.
    Tail,
}

/// A token as the table holds it: all but its text, so that a look-up reads two places in memory.
#[derive(Debug, Clone, Copy)]
struct Token {
    row: u32,
    start: u32,
    len: u16,
    position: Position,
}

/// An index over the vocabulary text; the text itself stays where it is and is passed to every call.
pub(crate) struct Vocab {
    tokens: HashTable<Token>,
    hasher: RandomState,
    longest: usize,
}

impl Vocab {
    /// Reads one token a line, the line's number being the row.
    pub(crate) fn parse(text: &[u8], rows: usize) -> Result<Self, TableFault> {
        let [a, b, c, d] = SEEDS;
        let mut vocab =
            Self { tokens: HashTable::with_capacity(rows), hasher: RandomState::with_seeds(a, b, c, d), longest: 0 };
        let lines = text.strip_suffix(b"\n").unwrap_or(text).split(|&byte| byte == b'\n');
        for line in lines {
            vocab.add(text, line)?;
        }
        if vocab.tokens.len() != rows {
            return Err(TableFault::Vocabulary { reason: "holds another number of tokens than there are rows" });
        }
        Ok(vocab)
    }

    fn add(&mut self, text: &[u8], line: &[u8]) -> Result<(), TableFault> {
        let (piece, position) = match line.strip_prefix(CONTINUES) {
            Some(tail) if !tail.is_empty() => (tail, Position::Tail),
            _ => (line, Position::Head),
        };
        let len = u16::try_from(piece.len()).ok().filter(|&len| len > 0);
        let len = len.ok_or(TableFault::Vocabulary { reason: "holds an empty or overlong token" })?;
        if self.row(text, piece, position).is_some() {
            return Err(TableFault::Vocabulary { reason: "holds a token twice" });
        }
        let start = piece.as_ptr() as usize - text.as_ptr() as usize;
        let start = u32::try_from(start).expect("the vocabulary's size is a u32 in the file");
        let row = u32::try_from(self.tokens.len()).expect("tokens are fewer than the text's bytes");
        let Self { tokens, hasher, .. } = self;
        let hash = |token: &Token| hasher.hash_one((piece_of(text, *token), token.position));
        let token = Token { row, start, len, position };
        tokens.insert_unique(hash(&token), token, hash);
        self.longest = self.longest.max(piece.len());
        Ok(())
    }

    /// The row of `piece` at `position`. `text` is the vocabulary that was parsed.
    pub(crate) fn row(&self, text: &[u8], piece: &[u8], position: Position) -> Option<u32> {
        let same = |token: &Token| token.position == position && piece_of(text, *token) == piece;
        self.tokens.find(self.hasher.hash_one((piece, position)), same).map(|token| token.row)
    }

    /// Bytes of the longest piece.
    pub(crate) const fn longest(&self) -> usize {
        self.longest
    }
}

fn piece_of(text: &[u8], token: Token) -> &[u8] {
    &text[token.start as usize..token.start as usize + usize::from(token.len)]
}
