//! A real directory and the sync thread.

use super::*;
use crate::files::Disk;
use std::collections::HashSet;
use std::ops::ControlFlow;

fn on(dir: &std::path::Path) -> Result<(Spool, Recovered), OpenFault> {
    let config = Config { dir: dir.into(), segment_bytes: 1 << 18, ..config() };
    Spool::open(config, Arc::new(ManualClock::at(NOW_MS)), None)
}

fn by_reader(dir: &std::path::Path, from_seq: u64) -> Vec<Arc<Record>> {
    let mut records = Vec::new();
    let each = |record| {
        records.push(Arc::new(record));
        ControlFlow::Continue(())
    };
    assert!(crate::read_records(dir, from_seq, each).expect("sound").is_some());
    records
}

#[test]
fn a_second_process_cannot_have_the_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = on(dir.path()).expect("fresh");
    // With fcntl locks, closing any descriptor of the file would let the next one in.
    drop(std::fs::File::open(dir.path().join("LOCK")).expect("it exists"));
    assert!(matches!(on(dir.path()), Err(OpenFault::Held)));
    let aside = Spool::start_new_log(Config { dir: dir.path().into(), ..config() }, Arc::new(ManualClock::at(NOW_MS)));
    assert!(matches!(aside, Err(OpenFault::Held)), "not even to move it aside");
    drop(log);
    on(dir.path()).expect("free again");
}

#[test]
fn many_threads_get_seqs_without_holes_and_everything_is_there_afterwards() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = on(dir.path()).expect("fresh");
    assert_eq!(Spool::peek(&Config::new(dir.path())).expect("sound"), Some(log.id()));
    std::thread::scope(|threads| {
        for t in 0..4 {
            let log = &log;
            threads.spawn(move || {
                for n in 0..500 {
                    let n = t * 1000 + n;
                    let opened = log.open(id(n), b"facts").expect("room");
                    close(log, Some(opened), n).expect("room");
                }
            });
        }
    });
    log.sync().expect("no fault");
    assert_eq!(log.stats().durable_seq, 2000);
    let all = read_all(&log, 0);
    assert!(all.iter().zip(0..).all(|(r, seq)| r.seq == seq));
    assert_eq!(ids(&all).into_iter().collect::<HashSet<_>>().len(), 2000);
    assert_eq!(by_reader(dir.path(), 0), all, "an auditor reads beside a running writer");
    assert_eq!(by_reader(dir.path(), 1500), all[1500..]);
    drop(log);
    let (log, found) = on(dir.path()).expect("sound");
    assert!(found.clean && found.same_boot && found.segments > 1 && found.orphans.is_empty());
    assert_eq!(found.head, head(&all));
    assert_eq!(read_all(&log, 0), all);
}

#[test]
fn the_sync_thread_makes_records_durable_without_being_asked() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = on(dir.path()).expect("fresh");
    fill(&log, 0, 5);
    while log.stats().durable_seq < 5 {
        std::thread::yield_now();
    }
    assert_eq!(read_all(&log, 0).len(), 5);
}

#[test]
fn a_new_log_is_begun_beside_the_old_one_on_disk() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = on(dir.path()).expect("fresh");
    fill(&log, 0, 5);
    let old = log.id();
    drop(log);
    let config = Config { dir: dir.path().into(), ..config() };
    let (log, found) = Spool::start_new_log(config, Arc::new(ManualClock::at(NOW_MS))).expect("moved");
    assert!(found.fresh && log.id() != old);
    let aside = Disk::new(dir.path().join(format!("old-{old}")));
    assert_eq!(crate::identity::read(&aside).expect("sound"), Some(old));
}

#[test]
fn a_log_whose_folder_is_gone_takes_nothing_more() {
    type Spoil = fn(&std::path::Path);
    let ways: [(&str, Spoil); 4] = [
        ("deleted", |dir| std::fs::remove_dir_all(dir).expect("removed")),
        ("moved", |dir| std::fs::rename(dir, dir.with_extension("away")).expect("moved")),
        ("replaced by a file", |dir| {
            std::fs::remove_dir_all(dir).expect("removed");
            std::fs::write(dir, "").expect("written");
        }),
        ("replaced by a copy", |dir| {
            for entry in std::fs::read_dir(dir).expect("a folder") {
                let path = entry.expect("an entry").path();
                let copy = path.with_extension("copy");
                std::fs::copy(&path, &copy).expect("a copy");
                std::fs::rename(copy, path).expect("in its place");
            }
        }),
    ];
    for (what, spoil) in ways {
        let folder = tempfile::tempdir().expect("a directory");
        let dir = folder.path().join("lineage");
        let (log, _) = on(&dir).expect("fresh");
        let opened = log.open(id(1), b"facts").expect("room");
        fill(&log, 2, 3);
        log.check().expect("all is well");
        spoil(&dir);
        assert!(matches!(log.check(), Err(LogFault::Failed(why)) if why.contains("is gone")), "{what}");
        log.check().expect_err(what);
        log.open(id(3), b"facts").expect_err(what);
        close(&log, Some(opened), 1).expect_err(what);
    }
}

#[test]
fn a_log_that_rolled_is_looked_for_in_its_newest_segment() {
    let dir = tempfile::tempdir().expect("a directory");
    let (log, _) = Spool::open(Config { dir: dir.path().into(), ..config() }, Arc::new(ManualClock::at(NOW_MS)), None)
        .expect("fresh");
    for n in 0..30 {
        fill(&log, n, n + 1);
        log.check().expect("all is well");
    }
    assert!(log.stats().bytes > 4096);
}
