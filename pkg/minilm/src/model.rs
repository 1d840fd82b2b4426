//! The sentence transformer: word pieces through the layers, their mean made unit length.

use crate::bert::{Embeddings, Layer};
use crate::source;
use crate::weights::{ModelFault, Weights, number};
use ndarray::Array2;
use signet_vector::{EncodeFault, WordPieces};
use std::fmt;

/// Word pieces of the longest text that is encoded: the length that the model was trained on.
pub const MAX_PIECES: usize = 128;

/// Why a text has no vector. The candidate is no hit; nobody is at fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SentenceFault {
    /// The tokeniser refuses it.
    #[error(transparent)]
    Text(#[from] EncodeFault),
    /// It has over [`MAX_PIECES`] word pieces, or more than the model has places for. It is never cut.
    #[error("the text has {0} word pieces, which is too many")]
    TooLong(usize),
}

/// The model, ready to run. About 70 MB, and nothing of it changes.
pub struct MiniLm {
    words: WordPieces,
    first: u32,
    last: u32,
    embeddings: Embeddings,
    layers: Vec<Layer>,
}

/// The last layer's vectors of a text, one a token, `[CLS]` and `[SEP]` included.
#[derive(Debug, Clone)]
pub struct Tokens {
    /// The tokens' numbers in the vocabulary.
    pub numbers: Vec<u32>,
    vectors: Array2<f32>,
}

impl Tokens {
    /// The vectors in the order of the tokens. They are of no particular length.
    pub fn vectors(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        let rows = self.vectors.rows().into_iter();
        rows.map(|row| row.to_slice().expect("the rows of a standard matrix lie together"))
    }

    /// Their mean, made unit length.
    pub fn sentence(&self) -> Vec<f32> {
        let sum = self.vectors.sum_axis(ndarray::Axis(0));
        let length = sum.dot(&sum).sqrt();
        sum.iter().map(|x| x / length).collect()
    }
}

impl MiniLm {
    /// Reads a file that [`source`] made; its digest is checked.
    ///
    /// # Errors
    /// It is another file, or damaged.
    pub fn read(bytes: &[u8]) -> Result<Self, ModelFault> {
        source::check_file(bytes)?;
        Self::parse(bytes)
    }

    /// Reads a model of this kind, whatever its weights: a safetensors file of half-precision tensors under the names of
    /// BERT, with the vocabulary's text as the bytes `vocab` and the number of `heads` in its metadata.
    ///
    /// # Errors
    /// It lacks something, or something does not fit.
    pub fn parse(bytes: &[u8]) -> Result<Self, ModelFault> {
        let weights = Weights::open(bytes)?;
        let heads = number(bytes, "heads")?;
        let words = WordPieces::parse(weights.bytes("vocab")?)?;
        let embeddings = Embeddings::read(&weights, words.count())?;
        if !embeddings.size().is_multiple_of(heads) {
            return Err(ModelFault::Metadata("heads"));
        }
        let mut layers = Vec::new();
        while let Some(layer) = Layer::read(&weights, layers.len(), embeddings.size(), heads)? {
            layers.push(layer);
        }
        let special = |token| words.number(token).ok_or(ModelFault::Token(token));
        let (first, last) = (special("[CLS]")?, special("[SEP]")?);
        Ok(Self { words, first, last, embeddings, layers })
    }

    /// The vector of `text`, of unit length.
    ///
    /// # Errors
    /// The text has no vector that stands for all of it.
    pub fn encode(&self, text: &str) -> Result<Vec<f32>, SentenceFault> {
        Ok(self.tokens(text)?.sentence())
    }

    /// The last layer's vectors of `text`.
    ///
    /// # Errors
    /// As [`MiniLm::encode`].
    pub fn tokens(&self, text: &str) -> Result<Tokens, SentenceFault> {
        let pieces = self.words.pieces(text)?;
        if pieces.len() > MAX_PIECES || pieces.len() + 2 > self.embeddings.places() {
            return Err(SentenceFault::TooLong(pieces.len()));
        }
        let numbers: Vec<u32> = [self.first].into_iter().chain(pieces).chain([self.last]).collect();
        let embedded = self.embeddings.apply(&numbers);
        let vectors = self.layers.iter().fold(embedded, |x, layer| layer.apply(x));
        Ok(Tokens { numbers, vectors })
    }
}

impl fmt::Debug for MiniLm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MiniLm").field("layers", &self.layers.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "model_tests.rs"]
pub(crate) mod tests;
