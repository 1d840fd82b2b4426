//! An encoder whose vectors a test writes down.

use async_trait::async_trait;
use signet_cache::{EmbedFault, Embedder};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// An [`Embedder`] over a table. A text that is not in it is a fault: a test says which texts it means.
#[derive(Debug)]
pub struct TableEmbedder {
    table: HashMap<String, Arc<[f32]>>,
    broken: AtomicBool,
    id: &'static str,
}

impl TableEmbedder {
    /// An encoder of these texts. Vectors are scaled to unit length.
    ///
    /// # Panics
    /// If a vector is zero or not finite.
    pub fn new<const D: usize>(rows: &[(&str, [f32; D])]) -> Self {
        let table = rows.iter().map(|(text, vector)| ((*text).to_owned(), unit(vector))).collect();
        Self { table, broken: AtomicBool::new(false), id: "table" }
    }

    /// The same encoder under another identity.
    #[must_use]
    pub fn named(self, id: &'static str) -> Self {
        Self { id, ..self }
    }

    /// From now on every text is a fault, or none in the table is.
    pub fn set_broken(&self, broken: bool) {
        self.broken.store(broken, Ordering::Relaxed);
    }
}

fn unit(vector: &[f32]) -> Arc<[f32]> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    assert!(length.is_normal(), "{vector:?} has no direction");
    vector.iter().map(|x| x / length).collect()
}

#[async_trait]
impl Embedder for TableEmbedder {
    fn id(&self) -> &'static str {
        self.id
    }

    async fn embed(&self, text: &str) -> Result<Arc<[f32]>, EmbedFault> {
        if self.broken.load(Ordering::Relaxed) {
            return Err(EmbedFault("switched off".to_owned()));
        }
        self.table.get(text).cloned().ok_or_else(|| EmbedFault(format!("{text:?} is not in the table")))
    }
}
