//! Reading tensors out of a safetensors file.

use half::f16;
use ndarray::{Array1, Array2};
use safetensors::{Dtype, SafeTensors};
use signet_vector::TableFault;

/// A model file that cannot be used. The file is at fault; no retry helps.
#[derive(Debug, thiserror::Error)]
pub enum ModelFault {
    /// Not a safetensors file.
    #[error("not a safetensors file: {0}")]
    Format(#[from] safetensors::SafeTensorError),
    /// A tensor of another type or shape than the model needs.
    #[error("the tensor {name} is {found}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is there.
        found: String,
    },
    /// The metadata does not say it, or not as a number that fits.
    #[error("the file does not say how many {0} there are")]
    Metadata(&'static str),
    /// The vocabulary cannot be used.
    #[error(transparent)]
    Vocabulary(#[from] TableFault),
    /// The vocabulary does not fit the model.
    #[error("the vocabulary has no {0}")]
    Token(&'static str),
    /// Not the file that was pinned.
    #[error("its sha256 is {found} and not {expected}")]
    Digest {
        /// The pinned digest.
        expected: String,
        /// The file's.
        found: String,
    },
}

/// The tensors of a file.
pub(crate) struct Weights<'a>(SafeTensors<'a>);

impl<'a> Weights<'a> {
    pub(crate) fn open(bytes: &'a [u8]) -> Result<Self, ModelFault> {
        Ok(Self(SafeTensors::deserialize(bytes)?))
    }

    /// The half-precision numbers of a tensor with `shape`; a length of 0 stands for any.
    fn halves(&self, name: &str, shape: &[usize]) -> Result<(Vec<f16>, Vec<usize>), ModelFault> {
        let tensor = self.0.tensor(name)?;
        let fits = |(found, wanted): (&usize, &usize)| *wanted == 0 || found == wanted;
        let found = tensor.shape();
        if tensor.dtype() != Dtype::F16 || found.len() != shape.len() || !found.iter().zip(shape).all(fits) {
            let found = format!("{:?} of shape {found:?}, where F16 of {shape:?} belongs", tensor.dtype());
            return Err(ModelFault::Tensor { name: name.to_owned(), found });
        }
        let (pairs, _) = tensor.data().as_chunks::<2>();
        Ok((pairs.iter().map(|pair| f16::from_le_bytes(*pair)).collect(), found.to_vec()))
    }

    /// A row of `len` numbers.
    pub(crate) fn row(&self, name: &str, len: usize) -> Result<Array1<f32>, ModelFault> {
        Ok(self.halves(name, &[len])?.0.into_iter().map(f16::to_f32).collect())
    }

    /// A matrix, its numbers kept in half precision.
    pub(crate) fn half_matrix(&self, name: &str, shape: [usize; 2]) -> Result<Array2<f16>, ModelFault> {
        let (numbers, found) = self.halves(name, &shape)?;
        Ok(Array2::from_shape_vec((found[0], found[1]), numbers).expect("the file's lengths were checked"))
    }

    /// A matrix.
    pub(crate) fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Array2<f32>, ModelFault> {
        Ok(self.half_matrix(name, shape)?.mapv(f16::to_f32))
    }

    /// A tensor of bytes.
    pub(crate) fn bytes(&self, name: &str) -> Result<Vec<u8>, ModelFault> {
        let tensor = self.0.tensor(name)?;
        if tensor.dtype() != Dtype::U8 {
            let found = format!("{:?}, where bytes belong", tensor.dtype());
            return Err(ModelFault::Tensor { name: name.to_owned(), found });
        }
        Ok(tensor.data().to_vec())
    }

    /// Whether there is a tensor of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.tensor(name).is_ok()
    }
}

/// A number in a file's metadata, over zero.
pub(crate) fn number(bytes: &[u8], key: &'static str) -> Result<usize, ModelFault> {
    let (_, metadata) = SafeTensors::read_metadata(bytes)?;
    let text = metadata.metadata().as_ref().and_then(|map| map.get(key));
    text.and_then(|text| text.parse().ok()).filter(|number| *number > 0).ok_or(ModelFault::Metadata(key))
}
