//! How fast answers are shipped, packing included: `ship_rate URL...`, each an empty database or a new SQLite file. First whatever the
//! store takes, then a backlog while answers come in at [`LIVE`] a second and are signed by the same process. Build it as it
//! runs: `CARGO_PROFILE_DEV_OPT_LEVEL=3 cargo run -p signet-store --example ship_rate -- URL`.

use signet_lineage::Record;
use signet_store::{Options, Stores};
use signet_types::{Clock, SystemClock};
use std::sync::mpsc;
use std::time::Duration;

#[path = "../tests/store/answers.rs"]
mod answers;

use answers::Answers;

/// Answers a second.
const LIVE: u64 = 2_000;
const BACKLOG: u64 = 40_000;
/// As the shipper's.
const BATCH: usize = 1_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for url in std::env::args().skip(1) {
        let stores = Stores::open(&Options::new(url.as_str(), ".")).expect("a good URL");
        stores.migrate().await.expect("the database answers");
        let scheme = url.split(':').next().unwrap_or_default();
        for batch in [1, 100, 1000] {
            let mut answers = Answers::new(batch);
            let row = stores.records.register(&answers.row()).await.expect("a new log");
            let records = answers.take(batch * 200.min(10_000 / batch));
            let (clock, begun) = started();
            for part in records.chunks(usize::try_from(batch).expect("small")) {
                stores.records.ship(row.log, 3, part).await.expect("shipped");
            }
            report(scheme, &format!("{batch} a batch"), records.len(), clock.mono_ns() - begun);
        }
        catch_up(scheme, &stores).await;
    }
}

fn started() -> (SystemClock, u64) {
    let clock = SystemClock::new();
    let begun = clock.mono_ns();
    (clock, begun)
}

fn report(scheme: &str, what: &str, rows: usize, took_ns: u64) {
    let rate = rows as f64 / Duration::from_nanos(took_ns).as_secs_f64();
    eprintln!("{scheme:10} {what:>28}: {rate:8.0} rows/s");
}

async fn catch_up(scheme: &str, stores: &Stores) {
    let mut answers = Answers::new(7);
    let row = stores.records.register(&answers.row()).await.expect("a new log");
    let mut waiting: std::collections::VecDeque<Record> = answers.take(BACKLOG).into();
    let (live, arrived) = mpsc::channel::<Vec<Record>>();
    let producer = std::thread::spawn(move || {
        // A tenth of a second's answers at a time, until nobody wants them.
        while live.send(answers.take(LIVE / 10)).is_ok() {
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let (clock, begun) = started();
    let mut shipped = 0;
    while !waiting.is_empty() {
        waiting.extend(arrived.try_iter().flatten());
        let batch: Vec<Record> = waiting.drain(..waiting.len().min(BATCH)).collect();
        stores.records.ship(row.log, 3, &batch).await.expect("shipped");
        shipped += batch.len();
    }
    report(scheme, &format!("a backlog beside {LIVE}/s"), shipped, clock.mono_ns() - begun);
    drop(arrived);
    producer.join().expect("no panic");
}
