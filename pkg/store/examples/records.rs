//! Writes a log of signed records as a gateway would leave it: `records COUNT FOLDER` gives `FOLDER/signet.db`,
//! `FOLDER/export.jsonl` and the public key in `FOLDER/key.pem`. One answer in three is a hit on an earlier one.

use signet_lineage::Record;
use signet_store::{Options, Stores};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

#[path = "../../lineage/tests/lineage/sample.rs"]
#[expect(dead_code, reason = "shared with the tests, which use all of it")]
mod sample;

use sample::{ALICE, Writer};

const BATCH: usize = 2_000;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [count, folder] = arguments.as_slice() else { panic!("records COUNT FOLDER") };
    let (count, folder): (u64, _) = (count.parse().expect("a number"), Path::new(folder));
    fs::create_dir_all(folder).expect("a folder");
    let mut export = BufWriter::new(File::create(folder.join("export.jsonl")).expect("a file"));
    let stores = Stores::open(&Options::new("sqlite://signet.db", folder)).expect("a good URL");
    stores.migrate().await.expect("a new database");
    let mut log = Writer::open(1, "spool");
    fs::write(folder.join("key.pem"), log.signer.public_key().to_pem()).expect("a file");
    stores.records.register(&signet_lineage::LogRow { next_seq: 0, ..log.row() }).await.expect("a new log");
    let mut source: Option<Record> = None;
    while log.tree.size() < count {
        match &source {
            Some(source) if log.tree.size().is_multiple_of(3) => drop(log.hit(ALICE, &source.clone())),
            _ => source = Some(log.ask(ALICE)),
        }
        if log.records.len() >= BATCH || log.tree.size() == count {
            for record in &log.records {
                export.write_all(&record.to_envelope_json()).and_then(|()| export.write_all(b"\n")).expect("room");
            }
            stores.records.ship(log.log, 1, &log.records).await.expect("shipped");
            log.records.clear();
        }
    }
    export.flush().expect("room");
    stores.close().await;
}
