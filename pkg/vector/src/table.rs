//! The SEMB1 file: rows of small integers with a half-precision scale each, and the vocabulary that names them.
//!
//! Little endian: `"SEMB1\0\0\0"`, u32 rows, u32 dimensions, u32 vocabulary bytes, u32 bits (0: 8 an element, or 4),
//! f16 scale\[rows\], row\[rows\] (a byte an element, or two elements a byte as in [`Packing::Nibbles`]), vocabulary text
//! (one token a line, the line's number is the row). Nothing follows.

use crate::accumulate::{Packing, add_scaled};
use half::f16;
use std::borrow::Cow;
use std::ops::Range;

const MAGIC: &[u8; 8] = b"SEMB1\0\0\0";
const HEADER: usize = 24;

/// A table that cannot be used. The file is at fault; no retry helps.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableFault {
    /// Not a table of this format.
    #[error("not a SEMB1 table")]
    Magic,
    /// Another number of dimensions than this encoder has, or no rows.
    #[error("{rows} rows of {dims} dimensions cannot be used")]
    Shape {
        /// Rows that the file claims.
        rows: u32,
        /// Dimensions that the file claims.
        dims: u32,
    },
    /// The file is shorter or longer than its header says.
    #[error("{found} bytes where the header asks for {expected}")]
    Size {
        /// Bytes that follow from the header.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A scale that is not a finite number over zero.
    #[error("the scale of row {row} is not a positive number")]
    Scale {
        /// The row.
        row: usize,
    },
    /// The vocabulary does not fit the rows.
    #[error("the vocabulary {reason}")]
    Vocabulary {
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// A parsed table. The rows are read where they lie: an embedded table costs no copy and is paged in as it is used.
pub(crate) struct Table {
    bytes: Cow<'static, [u8]>,
    scales: Vec<f32>,
    rows: Range<usize>,
    vocab: Range<usize>,
    stride: usize,
    packing: Packing,
}

impl Table {
    /// Parses `bytes`, which must hold a table of `dims` dimensions.
    pub(crate) fn parse(bytes: Cow<'static, [u8]>, dims: usize) -> Result<Self, TableFault> {
        let found = bytes.len() as u64;
        let header = bytes.get(..HEADER).filter(|h| h.starts_with(MAGIC)).ok_or(TableFault::Magic)?;
        let field = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let (rows, wide, text, bits) = (field(8), field(12), field(16), field(20));
        if rows == 0 || wide as usize != dims {
            return Err(TableFault::Shape { rows, dims: wide });
        }
        let (packing, stride) = match bits {
            0 => (Packing::Bytes, dims),
            4 if dims.is_multiple_of(2) => (Packing::Nibbles, dims / 2),
            _ => return Err(TableFault::Magic),
        };
        // rows · dims < 2^64 and the rest is under 2^35, so only a sum at the very top could wrap.
        let body = u64::from(rows) * stride as u64;
        let expected = body.saturating_add(HEADER as u64 + u64::from(rows) * 2 + u64::from(text));
        if expected != found {
            return Err(TableFault::Size { expected, found });
        }
        let rows_from = HEADER + rows as usize * 2; // cannot wrap: it lies inside `bytes`
        let vocab_from = rows_from + rows as usize * stride;
        let scales = scales(&bytes[HEADER..rows_from])?;
        let (rows, vocab) = (rows_from..vocab_from, vocab_from..bytes.len());
        if std::str::from_utf8(&bytes[vocab.clone()]).is_err() {
            return Err(TableFault::Vocabulary { reason: "is not UTF-8" });
        }
        Ok(Self { bytes, scales, rows, vocab, stride, packing })
    }

    /// Number of rows.
    pub(crate) fn len(&self) -> usize {
        self.scales.len()
    }

    /// The vocabulary's text: bytes, because proving again that 200 kB are UTF-8 would be most of an encoding's time.
    pub(crate) fn vocab(&self) -> &[u8] {
        &self.bytes[self.vocab.clone()]
    }

    /// Adds row `row` to `sum`, which has as many elements as the table has dimensions.
    pub(crate) fn add_row(&self, row: usize, sum: &mut [f32]) {
        let bytes = &self.bytes[self.rows.start + row * self.stride..][..self.stride];
        add_scaled(bytes, self.packing, self.scales[row], sum);
    }
}

fn scales(bytes: &[u8]) -> Result<Vec<f32>, TableFault> {
    let scale = |(row, pair): (usize, &[u8])| {
        let scale = f16::from_le_bytes([pair[0], pair[1]]).to_f32();
        (scale.is_finite() && scale > 0.0).then_some(scale).ok_or(TableFault::Scale { row })
    };
    bytes.chunks_exact(2).enumerate().map(scale).collect()
}
