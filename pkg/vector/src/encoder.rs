//! The static encoder: a sentence vector is the sum of its word pieces' rows, made unit length.

use crate::table::{Table, TableFault};
use crate::tokenise::{MAX_PIECES, Tokeniser};
use crate::vocab::Vocab;
use async_trait::async_trait;
use sha2::{Digest, Sha256};
use signet_cache::{EmbedFault, Embedder};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// Dimensions of the vectors.
pub const DIMS: usize = 256;

/// Made by `make static-table`.
static EMBEDDED: &[u8] = include_bytes!("../model/static_256.semb");
/// First bytes of the embedded table's SHA-256. A constant, checked by a test, so that a start need not read all of it.
const EMBEDDED_DIGEST: [u8; 8] = [0x46, 0xf2, 0xcb, 0xad, 0x63, 0xb6, 0x9f, 0xdd];

/// Why a text has no vector. The lookup is a miss; nobody is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EncodeFault {
    /// It holds nothing but space and control characters.
    #[error("the text is empty")]
    Empty,
    /// It has over 254 word pieces. It is never cut: that would make different prompts equal.
    #[error("the text has over {MAX_PIECES} word pieces")]
    TooLong,
    /// It holds a word that the vocabulary cannot spell, or one of over 100 characters.
    #[error("the text holds a word unknown to the vocabulary")]
    UnknownWord,
    /// It is mostly not in Latin script, or in one whose marks the tokeniser would lose.
    #[error("the text is in a script that this encoder does not read")]
    Script,
}

/// Sentence vectors of [`DIMS`] dimensions from a table of word-piece vectors.
pub struct StaticEncoder {
    table: Table,
    vocab: Vocab,
    id: String,
}

impl StaticEncoder {
    /// The encoder over the table in this binary.
    pub fn embedded() -> Self {
        Self::build(Cow::Borrowed(EMBEDDED), EMBEDDED_DIGEST).expect("the embedded table is read by a test")
    }

    /// The encoder over a SEMB1 table of [`DIMS`] dimensions.
    ///
    /// # Errors
    /// Any fault of the table; see [`TableFault`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, TableFault> {
        let digest = digest(&bytes);
        Self::build(Cow::Owned(bytes), digest)
    }

    fn build(bytes: Cow<'static, [u8]>, digest: [u8; 8]) -> Result<Self, TableFault> {
        let table = Table::parse(bytes, DIMS)?;
        let vocab = Vocab::parse(table.vocab(), table.len())?;
        // "wp1" is the tokeniser: any change of it that changes a piece needs a new name.
        let id = format!("static-{DIMS}/wp1/{:016x}", u64::from_be_bytes(digest));
        Ok(Self { table, vocab, id })
    }

    /// The vector of `text`, of unit length.
    ///
    /// # Errors
    /// The text has no vector that stands for all of it; see [`EncodeFault`].
    pub fn encode(&self, text: &str) -> Result<[f32; DIMS], EncodeFault> {
        let mut sum = [0.0; DIMS];
        for row in self.pieces(text)? {
            self.table.add_row(row as usize, &mut sum);
        }
        // Sixteen sums side by side: a single one would wait for each addition.
        let mut squares = [0.0f32; 16];
        for part in sum.as_chunks::<16>().0 {
            squares.iter_mut().zip(part).for_each(|(square, x)| *square += x * x);
        }
        let norm = squares.iter().sum::<f32>().sqrt();
        if norm == 0.0 {
            return Err(EncodeFault::Empty);
        }
        Ok(sum.map(|x| x / norm))
    }

    fn pieces(&self, text: &str) -> Result<Vec<u32>, EncodeFault> {
        Tokeniser::new(&self.vocab, self.table.vocab()).run(text)
    }
}

/// The digest's prefix that goes into the id.
fn digest(bytes: &[u8]) -> [u8; 8] {
    let hash: [u8; 32] = Sha256::digest(bytes).into();
    hash[..8].try_into().expect("eight of thirty-two bytes")
}

impl fmt::Debug for StaticEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEncoder").field("id", &self.id).finish_non_exhaustive()
    }
}

#[async_trait]
impl Embedder for StaticEncoder {
    fn id(&self) -> &str {
        &self.id
    }

    async fn embed(&self, text: &str) -> Result<Arc<[f32]>, EmbedFault> {
        let vector = self.encode(text).map_err(|fault| EmbedFault(fault.to_string()))?;
        Ok(Arc::from(vector.as_slice()))
    }
}

#[cfg(test)]
#[path = "encoder_tests.rs"]
mod tests;
