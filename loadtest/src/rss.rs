//! How much memory of its own a process holds, and how long it has computed.

use std::time::Duration;

use anyhow::Context as _;

/// Anonymous resident bytes: files that are mapped (a log, a table) are not the streams' memory.
pub(crate) fn anonymous(pid: u32) -> anyhow::Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    parse(&status).with_context(|| format!("{path} has no RssAnon"))
}

fn parse(status: &str) -> Option<u64> {
    let kilobytes = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    kilobytes.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kb| kb * 1024)
}

/// How long the threads of a process that are alive have been on a CPU. To the nanosecond, where the sums in
/// `/proc/PID/stat` come in hundredths of a second.
pub(crate) fn computed(pid: u32) -> anyhow::Result<Duration> {
    let path = format!("/proc/{pid}/task");
    let threads = std::fs::read_dir(&path).with_context(|| format!("cannot read {path}"))?;
    // A thread that has ended meanwhile counts no more.
    let times = threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("schedstat")).ok());
    let nanos = |text: String| text.split_whitespace().next()?.parse::<u64>().ok();
    Ok(Duration::from_nanos(times.filter_map(nanos).sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_read_in_bytes() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t     412 kB\nRssFile:\t 488 kB\n";
        assert_eq!(parse(status), Some(412 * 1024));
        assert_eq!(parse("Name:\tx\n"), None);
    }

    #[test]
    fn what_a_process_holds_is_seen() {
        let own = std::process::id();
        let before = anonymous(own).expect("this process is alive");
        let held = std::hint::black_box(vec![1_u8; 32 << 20]);
        assert!(anonymous(own).expect("this process is alive") >= before + (24 << 20));
        drop(held);
        assert!(anonymous(u32::MAX).is_err());
    }

    #[test]
    fn the_time_that_a_process_computes_is_counted() {
        let own = std::process::id();
        let before = computed(own).expect("this process is alive");
        let end = before + Duration::from_millis(30);
        while computed(own).expect("this process is alive") < end {
            std::hint::spin_loop();
        }
        assert!(computed(u32::MAX).is_err());
    }
}
