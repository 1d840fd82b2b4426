//! Lanes: one thread and runtime for each core that the process may use.

use anyhow::{Context, Result};
use std::thread::{self, JoinHandle};
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

/// Running lanes.
pub(crate) struct Lanes {
    lanes: Vec<(Handle, JoinHandle<()>)>,
    end: CancellationToken,
}

impl Lanes {
    /// One lane a core; the count obeys CPU affinity and the cgroup quota (`available_parallelism`).
    pub(crate) fn start() -> Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let end = CancellationToken::new();
        let lanes = (0..cores).map(|number| lane(number, end.clone())).collect::<Result<_>>()?;
        Ok(Self { lanes, end })
    }

    /// The lanes' runtimes.
    pub(crate) fn handles(&self) -> Vec<Handle> {
        self.lanes.iter().map(|(handle, _)| handle.clone()).collect()
    }

    /// Ends all lanes; what still runs on them is dropped.
    pub(crate) fn end(self) {
        self.end.cancel();
        for (_, thread) in self.lanes {
            drop(thread.join());
        }
    }
}

fn lane(number: usize, end: CancellationToken) -> Result<(Handle, JoinHandle<()>)> {
    let runtime = Builder::new_current_thread().enable_all().build().context("starting a lane")?;
    let handle = runtime.handle().clone();
    let run = move || runtime.block_on(end.cancelled());
    let thread = thread::Builder::new().name(format!("lane-{number}")).spawn(run).context("starting a lane")?;
    Ok((handle, thread))
}
