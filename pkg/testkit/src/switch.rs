//! What is wrong with a fake just now.

use parking_lot::RwLock;
use signet_cache::StoreFault;
use std::future::pending;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How a fake store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// [`StoreFault::Unavailable`].
    Down,
    /// [`StoreFault::Timeout`]: what an adapter says that keeps its budget.
    Slow,
    /// [`StoreFault::Corrupt`].
    Confused,
    /// No answer, ever: what an adapter must not do.
    Hanging,
}

/// Breaks and mends a fake, and counts the calls that reached it, failed ones included.
#[derive(Debug, Default)]
pub struct Switch {
    trouble: RwLock<Option<Trouble>>,
    calls: AtomicU64,
}

impl Switch {
    /// From now on every call fails so.
    pub fn breaks(&self, trouble: Trouble) {
        *self.trouble.write() = Some(trouble);
    }

    /// From now on calls are answered.
    pub fn mend(&self) {
        *self.trouble.write() = None;
    }

    /// Calls so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) async fn pass(&self) -> Result<(), StoreFault> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let trouble = *self.trouble.read();
        match trouble {
            None => Ok(()),
            Some(Trouble::Down) => Err(StoreFault::Unavailable("switched off".to_owned())),
            Some(Trouble::Slow) => Err(StoreFault::Timeout(Duration::ZERO)),
            Some(Trouble::Confused) => Err(StoreFault::Corrupt("switched to nonsense".to_owned())),
            Some(Trouble::Hanging) => pending().await,
        }
    }
}
