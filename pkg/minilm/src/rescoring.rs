//! Scoring candidates on threads of their own, within a deadline. Whatever goes wrong, or takes too long, is a miss.

use crate::model::MiniLm;
use crate::source;
use async_trait::async_trait;
use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use signet_cache::{EmbedFault, Rescorer};
use signet_types::EntryId;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Vectors of stored questions that are kept, those that were candidates last; 1.5 kB each. Few ever are.
const KEPT: u64 = 8_192;

type Encoded = Result<Arc<[f32]>, EmbedFault>;
type Encode = Arc<dyn Fn(&str) -> Encoded + Send + Sync>;

/// A [`Rescorer`] whose model may still be on its way: until [`Rescoring::serve`] every candidate is a fault.
///
/// The vector of a stored question is made when it is first a candidate, and kept. That may take longer than the deadline
/// allows; it is made all the same, so that the question's next candidacy finds it.
pub struct Rescoring {
    encode: OnceLock<Encode>,
    deadline: Duration,
    permits: Arc<Semaphore>,
    kept: Cache<EntryId, Kept>,
}

/// With its text, so that an id that comes with another text is never scored by its former one.
#[derive(Clone)]
struct Kept {
    text: Arc<str>,
    vector: Arc<[f32]>,
}

impl Rescoring {
    /// Half of the cores may score at a time, but at least one: the others serve.
    pub fn new(deadline: Duration) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self::with_permits(deadline, (cores / 2).max(1))
    }

    fn with_permits(deadline: Duration, permits: usize) -> Self {
        let kept = Cache::builder().max_capacity(KEPT).eviction_policy(EvictionPolicy::lru()).build();
        Self { encode: OnceLock::new(), deadline, permits: Arc::new(Semaphore::new(permits)), kept }
    }

    /// Scores by this model from now on; a second one is not taken.
    pub fn serve(&self, model: MiniLm) {
        self.encode_with(move |text| {
            let vector = model.encode(text).map_err(|fault| EmbedFault(fault.to_string()))?;
            Ok(vector.into())
        });
    }

    fn encode_with(&self, encode: impl Fn(&str) -> Encoded + Send + Sync + 'static) {
        drop(self.encode.set(Arc::new(encode)));
    }
}

#[async_trait]
impl Rescorer for Rescoring {
    fn id(&self) -> &'static str {
        source::ID
    }

    async fn rescore(&self, asked: &Arc<str>, stored: &[(EntryId, Arc<str>)]) -> Result<Vec<f32>, EmbedFault> {
        let encode = self.encode.get().ok_or_else(|| EmbedFault("the model is not loaded".to_owned()))?.clone();
        let gone = Arc::new(AtomicBool::new(false));
        let _leaving = Leaving(gone.clone());
        let work = Work { encode, kept: self.kept.clone(), asked: asked.clone(), stored: stored.to_vec(), gone };
        let scoring = async {
            let permit = self.permits.clone().acquire_owned().await.expect("the semaphore is never closed");
            let run = move || {
                let scores = work.run();
                drop(permit); // only now: work that outlives its deadline still takes a core
                scores
            };
            tokio::task::spawn_blocking(run).await
        };
        match timeout(self.deadline, scoring).await {
            Ok(Ok(scores)) => scores,
            Ok(Err(broken)) => Err(EmbedFault(broken.to_string())),
            Err(_) => Err(EmbedFault(format!("no scores within {:?}", self.deadline))),
        }
    }

    fn forget(&self, id: EntryId) {
        self.kept.invalidate(&id);
    }
}

impl fmt::Debug for Rescoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rescoring").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

/// Tells the work that nobody waits for it any more.
struct Leaving(Arc<AtomicBool>);

impl Drop for Leaving {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// One asked question and its candidates.
struct Work {
    encode: Encode,
    kept: Cache<EntryId, Kept>,
    asked: Arc<str>,
    stored: Vec<(EntryId, Arc<str>)>,
    gone: Arc<AtomicBool>,
}

impl Work {
    /// The stored questions first: their vectors are worth keeping, whether or not there is time for the asked one.
    fn run(&self) -> Result<Vec<f32>, EmbedFault> {
        let stored = self.stored.iter().map(|(id, text)| self.vector_of(*id, text));
        let stored = stored.collect::<Result<Vec<_>, _>>()?;
        let asked = self.encode(&self.asked)?;
        Ok(stored.iter().map(|stored| stored.iter().zip(&*asked).map(|(x, y)| x * y).sum()).collect())
    }

    fn vector_of(&self, id: EntryId, text: &Arc<str>) -> Encoded {
        if let Some(kept) = self.kept.get(&id).filter(|kept| kept.text == *text) {
            return Ok(kept.vector);
        }
        let vector = self.encode(text)?;
        self.kept.insert(id, Kept { text: text.clone(), vector: vector.clone() });
        Ok(vector)
    }

    fn encode(&self, text: &str) -> Encoded {
        if self.gone.load(Ordering::Relaxed) {
            return Err(EmbedFault("nobody waits".to_owned()));
        }
        (self.encode)(text)
    }
}

#[cfg(test)]
#[path = "rescoring_tests.rs"]
mod tests;
