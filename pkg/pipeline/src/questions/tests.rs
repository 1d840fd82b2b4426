use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::fs;
use tempfile::TempDir;

const MAX_BYTES: u64 = 65_536;
const MAX_AGE: Duration = Duration::from_secs(160);

fn files(dir: &TempDir) -> QuestionFiles {
    QuestionFiles::new(dir.path().join("questions"), MAX_BYTES, MAX_AGE)
}

fn line(at_ms: u64, len: usize) -> Line {
    Line { tenant: TenantId::from_bytes([7; 16]), at_ms, sealed: vec![5; len] }
}

fn on_disk(dir: &TempDir) -> u64 {
    let entries = fs::read_dir(dir.path().join("questions")).map(|dir| dir.map(|entry| entry.expect("an entry")));
    entries.map_or(0, |entries| entries.map(|entry| entry.metadata().expect("a file").len()).sum())
}

fn oldest_file_ms(dir: &TempDir) -> u64 {
    let names = fs::read_dir(dir.path().join("questions")).expect("a folder").map(|entry| entry.expect("one").path());
    let since =
        names.map(|path| path.file_stem().expect("a name").to_str().expect("digits").parse().expect("a number"));
    since.min().expect("a file")
}

fn held(files: &QuestionFiles, now_ms: u64) -> (Vec<Line>, u64) {
    let mut lines = Vec::new();
    let damaged = files.read(now_ms, &mut |line| lines.push(line)).expect("readable files");
    (lines, damaged)
}

/// What happens to a log.
#[derive(Debug, Clone)]
enum Event {
    Asked(usize),
    Passed(u64),
    /// A crash in the middle of a line: so many bytes of the newest one are lost.
    Cut(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (400_usize..700).prop_map(Event::Asked),
        2 => (1_u64..30_000).prop_map(Event::Passed),
        1 => (2_u64..40).prop_map(Event::Cut),
    ]
}

fn cut(dir: &TempDir, bytes: u64) -> bool {
    let Ok(entries) = fs::read_dir(dir.path().join("questions")) else { return false };
    let newest = entries.map(|entry| entry.expect("an entry").path()).max();
    let Some(newest) = newest else { return false };
    // Within the last line, if it is whole: every one is longer than that.
    let text = fs::read(&newest).expect("a file");
    let is_whole = text.ends_with(b"\n");
    if is_whole {
        fs::write(newest, &text[..text.len() - usize::try_from(bytes).expect("few")]).expect("a shorter file");
    }
    is_whole
}

/// Each case writes some hundred files, so `PROPTEST_CASES`, which is for cheap ones, does not count here.
#[test]
fn whatever_comes_the_files_stay_within_bytes_and_age_and_hold_the_newest() {
    let cases = if std::env::var_os("SIGNET_SOAK").is_some() { 240 } else { 24 };
    let mut runner = TestRunner::new(ProptestConfig { cases, ..ProptestConfig::default() });
    let outcome = runner.run(&proptest::collection::vec(event(), 1..150), stays_within);
    outcome.unwrap_or_else(|failure| panic!("{failure}\n{runner}"));
}

fn stays_within(events: Vec<Event>) -> Result<(), TestCaseError> {
    let dir = TempDir::new().expect("a folder");
    let (mut now_ms, mut kept, mut cuts) = (1_000_000_u64, Vec::<Line>::new(), 0);
    for event in events {
        match event {
            Event::Passed(ms) => now_ms += ms,
            Event::Cut(bytes) => {
                if cut(&dir, bytes) {
                    kept.pop();
                    cuts += 1;
                }
            }
            Event::Asked(len) => {
                let line = line(now_ms, len);
                // A value of its own each time, as after a restart.
                prop_assert_eq!(files(&dir).append(now_ms, std::slice::from_ref(&line)).expect("a write"), 0);
                kept.push(line);
                prop_assert!(on_disk(&dir) <= MAX_BYTES, "{}", on_disk(&dir));
                let (lines, _) = held(&files(&dir), now_ms);
                prop_assert!(lines.iter().all(|line| now_ms - line.at_ms < 160_000));
                prop_assert!(oldest_file_ms(&dir) + 160_000 > now_ms, "what is too old is gone from the disk");
                prop_assert_eq!(&lines[..], &kept[kept.len() - lines.len()..], "the newest, in order");
                // Of each bound a sixteenth may be lost before its time, and of each file the room of a line.
                let young: Vec<&Line> = kept.iter().filter(|line| now_ms - line.at_ms < 150_000).collect();
                let mut bytes = 0;
                let sure = young.iter().rev().take_while(|line| {
                    bytes += line.sealed.len() * 4 / 3 + 90;
                    bytes + cuts * 1_100 < 44_000
                });
                prop_assert!(lines.len() >= sure.count(), "{} of {}", lines.len(), young.len());
            }
        }
    }
    Ok(())
}

#[test]
fn a_line_that_a_crash_cut_short_costs_nothing_but_itself() {
    let dir = TempDir::new().expect("a folder");
    let log = files(&dir);
    log.append(1_000, &[line(1_000, 10), line(1_000, 11)]).expect("a write");
    assert!(cut(&dir, 9));
    assert_eq!(held(&log, 1_000), (vec![line(1_000, 10)], 1));
    log.append(2_000, &[line(2_000, 12)]).expect("a write");
    assert_eq!(held(&log, 2_000), (vec![line(1_000, 10), line(2_000, 12)], 1));
}

#[test]
fn the_files_may_be_removed_while_they_are_written_and_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = TempDir::new().expect("a folder");
    let log = files(&dir);
    log.append(1_000, &[line(1_000, 10)]).expect("a write");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let folder = dir.path().join("questions");
    let file = fs::read_dir(&folder).expect("a folder").next().expect("a file").expect("an entry").path();
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
    assert_eq!(files(&dir).erase().expect("removable"), 1);
    assert_eq!(held(&log, 1_000), (vec![], 0));
    log.append(1_001, &[line(1_001, 10)]).expect("a write");
    assert_eq!(held(&log, 1_001).0, [line(1_001, 10)]);
}

#[test]
fn a_line_longer_than_a_sixteenth_of_the_bound_is_left_out() {
    let dir = TempDir::new().expect("a folder");
    assert_eq!(files(&dir).append(1, &[line(1, 4_000), line(1, 20)]).expect("a write"), 1);
    assert_eq!(held(&files(&dir), 1).0, [line(1, 20)]);
}

fn draw(share: f64) -> (QuestionDraw, QuestionWriter, Arc<Metrics>, TempDir) {
    let (dir, metrics) = (TempDir::new().expect("a folder"), Arc::new(Metrics::new()));
    let clock: Arc<dyn Clock> = Arc::new(signet_types::SystemClock::new());
    let roomy = QuestionFiles::new(dir.path().join("questions"), 1 << 20, MAX_AGE);
    let (draw, writer) = question_log(share, roomy, clock, metrics.clone());
    (draw, writer, metrics, dir)
}

#[test]
fn the_share_is_drawn_and_not_by_the_bits_that_draw_labels() {
    let (draw, ..) = draw(0.25);
    let id = |high: u8, low: u8| {
        let mut bytes = [0xAB; 16];
        bytes[9] = high;
        bytes[12] = low;
        LineageId::from_bytes(bytes)
    };
    assert!(draw.takes(id(0x3F, 0)) && draw.takes(id(0x3F, 0xFF)));
    assert!(!draw.takes(id(0x40, 0)) && !draw.takes(id(0x40, 0xFF)));
    let taken = (0..20_000).filter(|_| draw.takes(LineageId::generate(1))).count();
    assert!((4_500..=5_500).contains(&taken), "{taken} of 20,000 is 8 standard deviations from 5,000");
}

fn drawn(question: &str) -> Drawn {
    let keys = TenantKeys {
        tenant: TenantId::from_bytes([7; 16]),
        epoch: 1,
        proof: signet_lineage::TenantKey::from_bytes([3; 32].into()),
        seal: signet_cache::SealKey::derive(&[3; 32], 1),
        hide: signet_cache::HideKey::derive(&[3; 32]),
        unstored: None,
    };
    Drawn {
        id: LineageId::generate(1),
        keys: Arc::new(keys),
        model: "m".to_owned(),
        partition: Partition::from_row(TenantId::from_bytes([7; 16]), [9; 32]),
        question: question.to_owned(),
        decision: Decision::default(),
        is_exact: false,
        matched: None,
    }
}

#[tokio::test]
async fn a_full_queue_drops_and_counts_and_only_eligible_questions_are_written() {
    let (draw, writer, metrics, dir) = draw(1.0);
    draw.send(drawn("Where is my order?"));
    for _ in 0..QUEUE + 2 {
        draw.send(drawn("What is a watershed?"));
    }
    assert!(metrics.encode().contains("signet_queue_dropped_total{queue=\"questions\"} 3"), "{}", metrics.encode());
    let stop = CancellationToken::new();
    stop.cancel();
    writer.run(stop).await;
    let (lines, damaged) = held(&files(&dir), 1);
    assert_eq!((lines.len(), damaged), (QUEUE - 1, 0), "what was queued is written at the end");
}
