//! The limit on open files, and the connections that fit under it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Kept for the log, the store, Redis and the listeners.
const KEPT: u64 = 128;

/// How many of the `wanted` connections there is room for, after the soft limit was raised as far as the system lets us:
/// beyond that neither the log nor a provider could open anything.
pub(crate) fn room_for(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let files = if setrlimit(Resource::Nofile, raised).is_ok() { limit.maximum } else { limit.current };
    let fit = fit(wanted, files);
    if let Some(files) = files.filter(|_| fit < wanted) {
        tracing::warn!("{}", too_low(files, wanted, fit));
    }
    fit
}

fn too_low(files: u64, wanted: usize, fit: usize) -> String {
    let needed = (wanted as u64).saturating_mul(2).saturating_add(KEPT);
    format!(
        "the hard limit on open files is {files}, and server.max_connections = {wanted} can use {needed}: no more than {fit} \
         connections are taken at a time; raise the limit (ulimit -Hn, LimitNOFILE= of systemd, --ulimit nofile of Docker) or \
         lower server.max_connections"
    )
}

/// A caller's connection may need one to a provider beside it. No limit is `None`.
fn fit(wanted: usize, files: Option<u64>) -> usize {
    let most = files.map_or(u64::MAX, |files| (files.saturating_sub(KEPT) / 2).max(1));
    wanted.min(usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_a_file_for_each_connection_and_for_its_call_and_some_are_left() {
        assert_eq!(fit(10_000, Some(1024)), 448);
        assert_eq!(fit(10_000, Some(1_048_576)), 10_000);
        assert_eq!(fit(10_000, None), 10_000);
        assert_eq!(fit(10_000, Some(0)), 1);
    }

    #[test]
    fn a_limit_that_is_too_low_is_told_with_what_is_needed_and_what_to_do() {
        let told = too_low(1024, 10_000, 448);
        for part in ["is 1024,", "server.max_connections = 10000 can use 20128:", "than 448 ", "LimitNOFILE="] {
            assert!(told.contains(part), "{part} in {told}");
        }
    }

    #[test]
    fn what_fits_anyway_is_not_cut() {
        assert_eq!(room_for(1), 1);
    }
}
