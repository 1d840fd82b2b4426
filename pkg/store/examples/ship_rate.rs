//! How fast records of 1.3 KB are shipped: `ship_rate URL...`, each an empty database or a new SQLite file.

use signet_lineage::{LogRow, Record};
use signet_store::{Options, Stores};
use signet_types::{Clock, LineageId, LogId, SystemClock};
use std::time::Duration;

const SPAN: Duration = Duration::from_secs(4);

#[tokio::main(flavor = "current_thread")]
async fn main() {
    for url in std::env::args().skip(1) {
        let stores = Stores::open(&Options::new(url.as_str(), ".")).expect("a good URL");
        stores.migrate().await.expect("the database answers");
        for batch in [1, 100, 500, 1000] {
            let (rows, took) = measure(&stores, batch).await;
            let scheme = url.split(':').next().unwrap_or_default();
            eprintln!("{scheme:10} {batch:5} a batch: {:8.0} rows/s", rows as f64 / took.as_secs_f64());
        }
    }
}

async fn measure(stores: &Stores, batch: u64) -> (u64, Duration) {
    let clock = SystemClock::new();
    let log = LogId::generate(clock.now_ms());
    let row = LogRow { log, origin: "bench/signet".to_owned(), epoch: 1, attest_key: [0; 32], next_seq: 0 };
    stores.records.register(&row).await.expect("a new log");
    let (start, mut next) = (clock.mono_ns(), 0);
    while Duration::from_nanos(clock.mono_ns() - start) < SPAN {
        let records: Vec<_> = (next..next + batch).map(|seq| record(log, seq, clock.now_ms())).collect();
        next = stores.records.ship(log, 1, &records).await.expect("shipped");
    }
    (next, Duration::from_nanos(clock.mono_ns() - start))
}

fn record(log: LogId, seq: u64, now_ms: u64) -> Record {
    let id = LineageId::generate(now_ms);
    let mut payload = format!(
        r#"{{"predicate":{{"cache":{{"decision":"miss"}},"caller":{{"tenant":"000102030405060708090a0b0c0d0e0f"}},"http":{{"status":200}},"id":"{id}","kind":"request","model":{{"asked":"small"}},"parents":[],"time":{{"completed_ms":{now_ms}}},"usage":{{"in":12,"out":34}},"v":1}},"x":""#
    );
    while payload.len() < 1300 {
        payload.push('f');
    }
    payload.push_str("\"}");
    Record { id, log, epoch: 1, seq, payload: payload.into_bytes().into(), key_id: [9; 32], sig: [7; 64] }
}
