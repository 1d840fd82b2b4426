//! The layers of BERT (J. Devlin et al., 2019): attention, then two linear maps, each normalised after its sum.

use crate::erf::gelu;
use crate::weights::{ModelFault, Weights};
use half::f16;
use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, Axis, Slice};

/// Added to a variance before its root; the model's own.
const EPSILON: f32 = 1e-12;

/// x W + b. The weights lie in the order of the product's inner loop: a transposed matrix takes half as long again.
struct Linear {
    weight: Array2<f32>,
    bias: Array1<f32>,
}

impl Linear {
    /// From `from` numbers to `to`; 0 for any.
    fn read(weights: &Weights<'_>, name: &str, from: usize, to: usize) -> Result<Self, ModelFault> {
        let weight = weights.matrix(&format!("{name}.weight"), [to, from])?;
        let bias = weights.row(&format!("{name}.bias"), weight.nrows())?;
        Ok(Self { weight: weight.t().as_standard_layout().into_owned(), bias })
    }

    fn apply(&self, x: &Array2<f32>) -> Array2<f32> {
        let shape = (x.nrows(), self.bias.len());
        let mut y = self.bias.broadcast(shape).expect("a row fits any number of rows").to_owned();
        general_mat_mul(1.0, x, &self.weight, 1.0, &mut y);
        y
    }

    fn outputs(&self) -> usize {
        self.bias.len()
    }
}

/// Layer normalisation (J. L. Ba et al., 2016).
pub(crate) struct Norm {
    scale: Array1<f32>,
    shift: Array1<f32>,
}

impl Norm {
    pub(crate) fn read(weights: &Weights<'_>, name: &str, size: usize) -> Result<Self, ModelFault> {
        let (scale, shift) = (format!("{name}.weight"), format!("{name}.bias"));
        Ok(Self { scale: weights.row(&scale, size)?, shift: weights.row(&shift, size)? })
    }

    pub(crate) fn apply(&self, x: &mut Array2<f32>) {
        for mut row in x.rows_mut() {
            let size = row.len() as f32;
            row -= row.sum() / size;
            let factor = 1.0 / (row.dot(&row) / size + EPSILON).sqrt();
            row *= factor;
            row *= &self.scale;
            row += &self.shift;
        }
    }
}

/// The sum of a piece's vector, its place's and the segment's, normalised.
pub(crate) struct Embeddings {
    /// By far the largest matrix, and of each text only some rows are read: it stays in half precision.
    words: Array2<f16>,
    places: Array2<f32>,
    norm: Norm,
}

impl Embeddings {
    pub(crate) fn read(weights: &Weights<'_>, tokens: usize) -> Result<Self, ModelFault> {
        let words = weights.half_matrix("embeddings.word_embeddings.weight", [tokens, 0])?;
        let size = words.ncols();
        let mut places = weights.matrix("embeddings.position_embeddings.weight", [0, size])?;
        let segments = weights.matrix("embeddings.token_type_embeddings.weight", [0, size])?;
        // Every text is the first segment.
        places += &segments.index_axis(Axis(0), 0);
        Ok(Self { words, places, norm: Norm::read(weights, "embeddings.LayerNorm", size)? })
    }

    pub(crate) fn size(&self) -> usize {
        self.words.ncols()
    }

    pub(crate) fn places(&self) -> usize {
        self.places.nrows()
    }

    /// The rows of `tokens`, of which there are no more than places.
    pub(crate) fn apply(&self, tokens: &[u32]) -> Array2<f32> {
        let mut x = self.places.slice_axis(Axis(0), Slice::from(..tokens.len())).to_owned();
        for (mut row, &token) in x.rows_mut().into_iter().zip(tokens) {
            row.zip_mut_with(&self.words.row(token as usize), |sum, half| *sum += half.to_f32());
        }
        self.norm.apply(&mut x);
        x
    }
}

/// One layer.
pub(crate) struct Layer {
    heads: usize,
    query: Linear,
    key: Linear,
    value: Linear,
    joined: Linear,
    joined_norm: Norm,
    wider: Linear,
    narrower: Linear,
    narrower_norm: Norm,
}

impl Layer {
    /// Layer `number`; none if there are not so many.
    pub(crate) fn read(
        weights: &Weights<'_>,
        number: usize,
        size: usize,
        heads: usize,
    ) -> Result<Option<Self>, ModelFault> {
        let at = |name: &str| format!("encoder.layer.{number}.{name}");
        if !weights.has(&at("attention.self.query.weight")) {
            return Ok(None);
        }
        let square = |name: &str| Linear::read(weights, &at(name), size, size);
        let wider = Linear::read(weights, &at("intermediate.dense"), size, 0)?;
        Ok(Some(Self {
            heads,
            query: square("attention.self.query")?,
            key: square("attention.self.key")?,
            value: square("attention.self.value")?,
            joined: square("attention.output.dense")?,
            joined_norm: Norm::read(weights, &at("attention.output.LayerNorm"), size)?,
            narrower: Linear::read(weights, &at("output.dense"), wider.outputs(), size)?,
            wider,
            narrower_norm: Norm::read(weights, &at("output.LayerNorm"), size)?,
        }))
    }

    pub(crate) fn apply(&self, mut x: Array2<f32>) -> Array2<f32> {
        x += &self.joined.apply(&self.attention(&x));
        self.joined_norm.apply(&mut x);
        let mut inner = self.wider.apply(&x);
        inner.mapv_inplace(gelu);
        x += &self.narrower.apply(&inner);
        self.narrower_norm.apply(&mut x);
        x
    }

    /// What each piece takes from the others, head by head.
    fn attention(&self, x: &Array2<f32>) -> Array2<f32> {
        let (query, key, value) = (self.query.apply(x), self.key.apply(x), self.value.apply(x));
        let size = x.ncols() / self.heads;
        let scale = 1.0 / (size as f32).sqrt();
        let mut seen = Array2::zeros(x.raw_dim());
        for head in 0..self.heads {
            let columns = Slice::from(head * size..(head + 1) * size);
            let [query, key, value] = [&query, &key, &value].map(|all| all.slice_axis(Axis(1), columns));
            let mut shares = query.dot(&key.t());
            for row in shares.rows_mut() {
                softmax(row.into_slice().expect("a product's rows lie together"), scale);
            }
            general_mat_mul(1.0, &shares, &value, 0.0, &mut seen.slice_axis_mut(Axis(1), columns));
        }
        seen
    }
}

/// Shares that sum to one, from scores times `scale`.
fn softmax(scores: &mut [f32], scale: f32) {
    let highest = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in &mut *scores {
        *score = ((*score - highest) * scale).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}
