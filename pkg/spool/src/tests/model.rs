//! Random histories against a plain list.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, Copy)]
enum Step {
    Open,
    CloseOldest,
    CloseDirect,
    Sync,
    Ship(u8),
    Drop,
    Crash,
    CrashSoon(u8),
    FailSync,
    FailWrite,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Open),
        6 => Just(Step::CloseOldest),
        6 => Just(Step::CloseDirect),
        3 => Just(Step::Sync),
        2 => any::<u8>().prop_map(Step::Ship),
        1 => Just(Step::Drop),
        1 => Just(Step::Crash),
        1 => (0..12_u8).prop_map(Step::CrashSoon),
        1 => Just(Step::FailSync),
        1 => Just(Step::FailWrite),
    ]
}

/// Little is retained, so that segments go as they are shipped.
fn start(files: &SimFiles) -> (Spool, Recovered) {
    open_with(files, Config { retain_bytes: 1500, ..config() }, None).expect("the directory is sound")
}

/// The log and what must be true of it.
struct World {
    files: SimFiles,
    log: Option<Spool>,
    next_id: u64,
    closed: Vec<Arc<Record>>,
    open: Vec<Opened>,
    /// The request whose call failed when the process died.
    unsure: Option<LineageId>,
    epoch: u32,
}

impl World {
    fn new() -> Self {
        let files = SimFiles::new();
        let (log, found) = start(&files);
        let epoch = found.epoch;
        Self { files, log: Some(log), next_id: 0, closed: Vec::new(), open: Vec::new(), unsure: None, epoch }
    }

    fn log(&self) -> &Spool {
        self.log.as_ref().expect("running")
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Open => {
                self.next_id += 1;
                let id = id(self.next_id);
                match self.log().open(id, &self.next_id.to_le_bytes()) {
                    Ok(opened) => self.open.push(opened),
                    Err(_) => self.died(Some(id)),
                }
            }
            Step::CloseOldest if self.open.is_empty() => {}
            Step::CloseOldest => {
                let opened = self.open.remove(0);
                self.close(opened.id, Some(opened));
            }
            Step::CloseDirect => {
                self.next_id += 1;
                self.close(id(self.next_id), None);
            }
            Step::Sync => {
                if self.log().sync().is_err() {
                    self.died(None);
                }
            }
            Step::Ship(part) => {
                let durable = self.log().stats().durable_seq;
                self.log().shipped(durable * u64::from(part) / 255);
            }
            Step::Drop => self.restart(false),
            Step::Crash => self.restart(true),
            Step::CrashSoon(calls) => self.files.crash_at(self.files.calls() + u64::from(calls)),
            Step::FailSync => self.files.fail_next(crate::sim::Call::Sync, std::io::ErrorKind::Other),
            Step::FailWrite => self.files.fail_next(crate::sim::Call::Write, std::io::ErrorKind::Other),
        }
    }

    fn close(&mut self, id: LineageId, opened: Option<Opened>) {
        match self.log().close(opened, &mut |at| record(id, at)) {
            Ok(record) => self.closed.push(record.record),
            Err(_) => self.died(Some(id)),
        }
    }

    /// A call failed: by a crash, or because two injected faults met and the log gave up. Either way start again.
    fn died(&mut self, unsure: Option<LineageId>) {
        self.unsure = unsure;
        self.restart(true);
    }

    fn restart(&mut self, crash: bool) {
        if crash {
            self.files.crash();
        }
        self.log = None;
        self.files = self.files.after_crash();
        let (log, found) = start(&self.files);
        assert!(found.gaps.is_empty() && found.epoch >= self.epoch);
        self.epoch = found.epoch;
        let kept = read_all(&log, 0);
        let first = kept.first().map_or(found.next_seq, |r| r.seq);
        let mut expected: Vec<_> = self.closed.iter().filter(|r| r.seq >= first).cloned().collect();
        let unsure = self.unsure.take();
        if kept.len() > expected.len() {
            let extra = kept.last().expect("one more");
            assert_eq!(Some(extra.id), unsure, "only the call that failed may have left a record");
            expected.push(Arc::clone(extra));
            self.closed.push(Arc::clone(extra));
        }
        assert_eq!(kept, expected);
        assert_eq!(found.head, head(&self.closed));
        self.adopt(found.orphans, unsure);
        self.log = Some(log);
    }

    fn adopt(&mut self, orphans: Vec<(Opened, Vec<u8>)>, unsure: Option<LineageId>) {
        for opened in &self.open {
            assert!(orphans.iter().any(|(o, _)| o.id == opened.id), "a request left open is reported");
        }
        for (orphan, _) in &orphans {
            let known = self.open.iter().any(|o| o.id == orphan.id) || unsure == Some(orphan.id);
            assert!(known, "nothing else is");
        }
        self.open = orphans.into_iter().map(|(opened, _)| opened).collect();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_history_of_requests_syncs_shipping_and_crashes_keeps_what_was_acknowledged(
        steps in prop::collection::vec(step(), 1..80),
    ) {
        let mut world = World::new();
        for step in steps {
            world.step(step);
        }
        world.restart(true);
    }

    #[test]
    fn no_bytes_in_a_segment_make_recovery_panic(
        at in 0..2000_usize,
        bytes in prop::collection::vec(any::<u8>(), 1..300),
    ) {
        let files = SimFiles::new();
        let (log, _) = open(&files);
        fill(&log, 0, 8);
        drop(log);
        let name = segments(&files)[0].clone();
        files.edit(&name, |content| {
            content.resize(content.len().max(at + bytes.len()), 0);
            content[at..at + bytes.len()].copy_from_slice(&bytes);
        });
        if let Ok((log, found)) = try_open(&files, None) {
            let lost: u64 = found.gaps.iter().map(|g| g.last_seq - g.first_seq + 1).sum();
            prop_assert_eq!(read_all(&log, 0).len() as u64 + lost, found.next_seq);
        }
    }
}
