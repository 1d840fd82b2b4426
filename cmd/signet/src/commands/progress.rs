//! How far a long run is: a bar on a terminal, a line now and then elsewhere. Drawn here because it is forty lines.

use super::out::complain;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: u64 = 30;
/// Often enough to look alive.
const REDRAW: Duration = Duration::from_millis(100);
/// Seldom enough for a log.
const REPORT: Duration = Duration::from_secs(2);

/// Says on standard error how far a long run is.
pub(crate) struct Progress {
    what: &'static str,
    terminal: bool,
    started: Instant,
    told: Instant,
    drawn: bool,
}

impl Progress {
    pub(crate) fn new(what: &'static str) -> Self {
        let now = Instant::now();
        Self { what, terminal: std::io::stderr().is_terminal(), started: now, told: now, drawn: false }
    }

    pub(crate) fn step(&mut self, done: u64, of: Option<u64>) {
        let every = if self.terminal { REDRAW } else { REPORT };
        if self.told.elapsed() < every {
            return;
        }
        self.told = Instant::now();
        let text = text(self.what, done, of, self.started.elapsed());
        if self.terminal {
            self.drawn = true;
            let mut out = std::io::stderr().lock();
            drop(write!(out, "\r{text}\x1b[K").and_then(|()| out.flush()));
        } else {
            complain(&text);
        }
    }

    /// Takes the bar away, so that other lines can be written.
    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            let mut out = std::io::stderr().lock();
            drop(write!(out, "\r\x1b[K").and_then(|()| out.flush()));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn text(what: &str, done: u64, of: Option<u64>, elapsed: Duration) -> String {
    let rate = done as f64 / elapsed.as_secs_f64().max(0.001);
    let Some(of) = of.filter(|of| *of > 0) else { return format!("{done} {what}, {rate:.0} a second") };
    let full = usize::try_from((done.min(of)) * WIDTH / of).expect("at most the width");
    let (bar, rest) = ("#".repeat(full), ".".repeat(usize::try_from(WIDTH).expect("small") - full));
    let left = of.saturating_sub(done) as f64 / rate.max(0.001);
    format!("[{bar}{rest}] {done}/{of} {what}, {rate:.0} a second, {left:.0} s left")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_long_as_what_is_done() {
        let half = text("arrivals", 500, Some(1_000), Duration::from_secs(5));
        assert_eq!(half, format!("[{}{}] 500/1000 arrivals, 100 a second, 5 s left", "#".repeat(15), ".".repeat(15)));
        assert!(text("arrivals", 9, Some(3), Duration::ZERO).starts_with(&format!("[{}]", "#".repeat(30))));
    }

    #[test]
    fn without_an_end_there_is_no_bar() {
        assert_eq!(text("pairs", 30, None, Duration::from_secs(3)), "30 pairs, 10 a second");
    }
}
