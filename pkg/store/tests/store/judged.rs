//! What the auditor makes of rows that were changed behind the gateway's back.

use crate::support::Fixture;
use signet_lineage::verify::{Code, Options, Report, Verifier};
use signet_lineage::{ControlValue, Draft, Kind, Leaf, Record, ShipFault};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, SqliteConnection};

#[path = "../../../lineage/tests/lineage/sample.rs"]
#[expect(dead_code, reason = "shared with the crate's own tests, which use all of it")]
mod sample;

use sample::{ALICE, Writer};

/// A connection of the intruder's own.
enum Line {
    Postgres(Box<PgConnection>),
    Sqlite(SqliteConnection),
}

struct Intruder {
    line: Line,
    /// The table that holds the records.
    entries: &'static str,
}

impl Intruder {
    async fn at(fixture: &Fixture) -> Self {
        let line = if fixture.options.url.starts_with("postgres") {
            Line::Postgres(Box::new(PgConnection::connect(&fixture.options.url).await.expect("the server answers")))
        } else {
            let file = SqliteConnectOptions::new().filename(fixture.options.data_dir.join("signet.db"));
            Line::Sqlite(SqliteConnection::connect_with(&file).await.expect("the file opens"))
        };
        Self { line, entries: fixture.entries }
    }

    /// Sets a column of the row at seq 2; false where the database refuses such a value.
    async fn set(&mut self, column: &str, value: &str) -> bool {
        self.execute(format!("UPDATE {} SET {column} = {value} WHERE seq = 2", self.entries)).await
    }

    async fn execute(&mut self, sql: String) -> bool {
        let sql = AssertSqlSafe(sql);
        match &mut self.line {
            Line::Postgres(conn) => conn.execute(sql).await.is_ok(),
            Line::Sqlite(conn) => conn.execute(sql).await.is_ok(),
        }
    }

    /// What stands for the payload of the row at seq 2, and how.
    async fn payload(&mut self) -> (Vec<u8>, i16) {
        let ask = AssertSqlSafe(format!("SELECT payload, enc FROM {} WHERE seq = 2", self.entries));
        match &mut self.line {
            Line::Postgres(conn) => sqlx::query_as(ask).fetch_one(&mut **conn).await.expect("the row"),
            Line::Sqlite(conn) => sqlx::query_as(ask).fetch_one(conn).await.expect("the row"),
        }
    }

    /// A kind as its column holds it.
    fn kind(&self, word: &str, number: &str) -> String {
        if self.entries == "lineage_record" { number.to_owned() } else { format!("'{word}'") }
    }

    fn bytes(&self, bytes: &[u8]) -> String {
        let digits = sample::hex(bytes);
        match self.line {
            Line::Postgres(_) => format!("'\\x{digits}'::bytea"),
            Line::Sqlite(_) => format!("x'{digits}'"),
        }
    }

    fn uuid(&self, bytes: &[u8]) -> String {
        match self.line {
            Line::Postgres(_) => format!("'{}'::uuid", uuid::Uuid::from_slice(bytes).expect("16 bytes")),
            Line::Sqlite(_) => self.bytes(bytes),
        }
    }
}

/// A log of four records, of which the one at seq 2 is a hit on the one before it.
async fn shipped(fixture: &Fixture) -> Writer {
    let mut log = Writer::filled(1, 2);
    let source = log.records[1].clone();
    log.hit(ALICE, &source);
    log.ask(ALICE);
    fixture.stores.records.register(&signet_lineage::LogRow { next_seq: 0, ..log.row() }).await.expect("a new log");
    fixture.stores.records.ship(log.log, 1, &log.records).await.expect("shipped");
    log
}

async fn judged(fixture: &Fixture, log: &Writer) -> Result<Report, ShipFault> {
    let mut verifier = Verifier::new(&log.keys(), Options { threads: 1, ..Options::default() });
    for row in fixture.stores.records.logs().await? {
        verifier.log(row);
    }
    for row in fixture.stores.rows(log.log, i64::MIN, 100).await? {
        match row {
            Ok((record, beside)) => verifier.row(record, beside),
            Err(row) => {
                verifier.unread(log.log, row.seq.and_then(|seq| u64::try_from(seq).ok()), row.to_string());
            }
        }
    }
    Ok(verifier.finish())
}

/// Every column of the row, as the literals of its value with one bit changed.
fn flips(of: &Record, (payload, enc): &(Vec<u8>, i16), by: &Intruder) -> Vec<(&'static str, String, Vec<String>)> {
    let columns = signet_lineage::Columns::read(&of.payload).expect("a statement");
    let flipped = |bytes: &[u8], step: usize| {
        let bits = (0..bytes.len() * 8).step_by(step);
        let flip = |bit: usize| {
            let mut bytes = bytes.to_vec();
            bytes[bit / 8] ^= 1 << (bit % 8);
            bytes
        };
        bits.map(flip).collect::<Vec<_>>()
    };
    let blob = |name, bytes: &[u8], step| {
        (name, by.bytes(bytes), flipped(bytes, step).iter().map(|bytes| by.bytes(bytes)).collect())
    };
    let uuid = |name, bytes: &[u8]| {
        (name, by.uuid(bytes), flipped(bytes, 1).iter().map(|bytes| by.uuid(bytes)).collect::<Vec<_>>())
    };
    let int = |name, value: i64| {
        (name, value.to_string(), (0..64).map(|bit| (value ^ (1_i64 << bit)).to_string()).collect::<Vec<_>>())
    };
    let count = |name, value: u64| int(name, i64::try_from(value).expect("small"));
    let text = |name, value: &str| {
        let texts = flipped(value.as_bytes(), 1).into_iter().filter_map(|bytes| String::from_utf8(bytes).ok());
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let literals = texts.filter(|text| !text.contains('\0')).map(|text| quoted(&text)).collect::<Vec<_>>();
        (name, quoted(value), literals)
    };
    let (parent_log, parent_seq) = columns.parent.expect("a hit");
    let (log, leaf) = (of.log.as_bytes(), Leaf::of(of).hash());
    let mut flips = vec![
        // The fields of a record have every bit flipped in its own crate; of the longest, some are enough here.
        blob("payload", payload, if *enc == 0 { 61 } else { 7 }),
        blob("sig", &of.sig, 1),
        blob("tenant", columns.tenant.expect("a caller").as_bytes(), 1),
        uuid("id", of.id.as_bytes()),
        count("seq", of.seq),
        count("ts_ms", columns.ts_ms),
        count("status", u64::from(columns.status.expect("a status"))),
        count("tok_in", columns.tok_in.expect("tokens")),
        count("tok_out", columns.tok_out.expect("tokens")),
        int("enc", i64::from(*enc)),
        text("model", &columns.model.expect("a model")),
    ];
    if by.entries == "lineage_record" {
        let parent = [parent_log.as_bytes().as_slice(), &parent_seq.to_be_bytes()].concat();
        flips.push(blob("parent", &parent, 1));
        flips.push(int("leaf", i64::from_be_bytes(*leaf.first_chunk().expect("32 bytes"))));
        // Numbers as they are given out: the first log, its writer behind one that was rolled back for want of a partition, a
        // request, an exact hit.
        flips.extend([int("log_no", 1), int("writer", 2), int("kind", 1), int("cache", 2)]);
    } else {
        flips.extend([blob("key_id", &of.key_id, 1), blob("leaf_hash", &leaf, 1), uuid("log_id", log)]);
        flips.extend([uuid("parent_log", parent_log.as_bytes()), count("parent_seq", parent_seq)]);
        flips.extend([text("kind", columns.kind.as_str()), text("cache", &columns.cache.expect("a decision"))]);
        flips.push(count("epoch", u64::from(of.epoch)));
    }
    flips
}

pub(crate) async fn no_flipped_bit_of_a_stored_row_goes_unseen(fixture: Fixture) {
    let log = shipped(&fixture).await;
    let clean = judged(&fixture, &log).await.expect("it can be read");
    assert_eq!((clean.exit_code(), clean.edges), (0, 1), "{clean}");
    let mut intruder = Intruder::at(&fixture).await;
    let stored = intruder.payload().await;
    let is_packed = fixture.entries == "lineage_record";
    assert!(if is_packed { stored.0.len() < 400 && stored.1 == 3 } else { stored.1 == 0 }, "{stored:?}");
    for (column, good, changed) in flips(&log.records[2], &stored, &intruder) {
        assert!(changed.len() > 7, "{column}");
        let mut taken = 0;
        for value in changed {
            if !intruder.set(column, &value).await {
                continue;
            }
            taken += 1;
            if let Ok(report) = judged(&fixture, &log).await {
                assert_ne!(report.exit_code(), 0, "{column} = {value}: {report}");
            }
            let moved = ["seq", "log_id", "log_no"].contains(&column);
            if moved {
                // The row has to be found again by what it is now.
                let back = format!("{column} = {value}");
                restore(&mut intruder, column, &good, &back).await;
            }
        }
        assert!(taken > 2, "{column}: the database takes some");
        assert!(intruder.set(column, &good).await || column == "seq");
        assert_eq!(judged(&fixture, &log).await.expect("it can be read").exit_code(), 0, "{column} is as it was");
    }
}

/// Columns and values that no record can have, and the seq under which the row is told then.
fn unreadable(by: &Intruder) -> Vec<(&'static str, String, Option<u64>)> {
    let here = |column, value: &str| (column, value.to_owned(), Some(2));
    let byte = by.bytes(&[7]);
    let mut all = vec![here("enc", "77"), here("ts_ms", "-1"), here("tok_in", "-1"), here("tenant", &byte)];
    all.extend([here("sig", &by.bytes(&[])), here("sig", &byte), ("seq", "-1".to_owned(), None)]);
    all.push(("seq", i64::MAX.to_string(), Some(i64::MAX.cast_unsigned())));
    if by.entries == "lineage_record" {
        all.extend([here("parent", &byte), here("writer", "4711"), here("payload", &byte)]);
    } else {
        all.extend([here("key_id", &byte), here("epoch", "-1"), here("leaf_hash", &byte), here("parent_seq", "-1")]);
    }
    if let Line::Sqlite(_) = by.line {
        // Every column there holds whatever it is given.
        all.extend([here("id", &byte), here("ts_ms", "'soon'"), here("enc", "'plain'"), here("parent_log", &byte)]);
        all.extend([here("seq", "2.5"), ("seq", "'two'".to_owned(), None), here("model", &byte)]);
    }
    all
}

pub(crate) async fn a_row_that_cannot_be_read_is_a_finding_and_hides_no_other(fixture: Fixture) {
    let log = shipped(&fixture).await;
    let mut intruder = Intruder::at(&fixture).await;
    let entries = fixture.entries;
    assert!(intruder.execute(format!("CREATE TABLE saved AS SELECT * FROM {entries} WHERE seq = 2")).await);
    assert!(intruder.execute(format!("UPDATE {entries} SET status = 599 WHERE seq = 3")).await);
    for (column, value, told) in unreadable(&intruder) {
        assert!(intruder.set(column, &value).await, "{column} = {value} is taken");
        let report = judged(&fixture, &log).await.expect("the others can be read");
        assert_eq!((report.exit_code(), report.records), (Code::BadLeaf as u8, 4), "{column} = {value}: {report}");
        let found =
            |code, seq| report.findings.iter().any(|it| (it.code, it.log, it.seq) == (code, Some(log.log), seq));
        assert!(found(Code::BadLeaf, told), "{column} = {value}: {report}");
        assert!(found(Code::IndexMismatch, Some(3)), "{column} = {value}: {report}");
        let records = &fixture.stores.records;
        let seqs: Vec<_> = records.records(log.log, 0, 10).await.expect("a page").iter().map(|it| it.seq).collect();
        assert!([0, 1, 3].iter().all(|seq| seqs.contains(seq)), "{column} = {value}: {seqs:?}");
        assert!(records.list(None, None, 10).await.expect("a page").len() >= 3, "{column} = {value}");
        assert!(records.leaves(log.log, 0, 10).await.expect("a page").len() >= 3, "{column} = {value}");
        assert!(records.find(log.records[3].id, None).await.expect("read").is_some(), "{column} = {value}");
        assert!(intruder.execute(format!("DELETE FROM {entries} WHERE seq NOT IN (0, 1, 3)")).await);
        assert!(intruder.execute(format!("INSERT INTO {entries} SELECT * FROM saved")).await);
    }
    let report = judged(&fixture, &log).await.expect("it can be read");
    assert_eq!(report.exit_code(), Code::IndexMismatch as u8, "as it was: {report}");
}

/// Every row of a process stands on its writer's.
#[tokio::test]
async fn a_writer_that_cannot_be_read_is_a_finding_of_each_of_its_rows() {
    let fixture = Fixture::postgres().await;
    let log = shipped(&fixture).await;
    fixture.execute("CREATE TABLE saved AS SELECT * FROM lineage_writer").await;
    for change in
        ["constants = '\\x'", "constants = '\\x00'", "constants = '\\x070007'", "key_id = '\\x07'", "epoch = -1"]
    {
        let mut intruder = Intruder::at(&fixture).await;
        assert!(intruder.execute(format!("UPDATE lineage_writer SET {change}")).await);
        let report = judged(&fixture, &log).await.expect("it can be read");
        // Other constants may unpack to other bytes, which nobody signed.
        let codes = [Code::BadLeaf, Code::BadSig];
        assert!(
            codes.iter().any(|code| *code as u8 == report.exit_code()) && report.records == 4,
            "{change}: {report}"
        );
        for seq in 0..4 {
            let told = report.findings.iter().any(|it| codes.contains(&it.code) && it.seq == Some(seq));
            assert!(told, "{change}, seq {seq}: {report}");
        }
        fixture.execute("DELETE FROM lineage_writer").await;
        fixture.execute("INSERT INTO lineage_writer SELECT * FROM saved").await;
    }
    assert_eq!(judged(&fixture, &log).await.expect("as it was").exit_code(), 0);
}

/// Every bit of what all rows of a process have in common.
#[tokio::test]
async fn no_flipped_bit_of_what_stands_for_parts_of_many_records_goes_unseen() {
    let fixture = Fixture::postgres().await;
    let log = shipped(&fixture).await;
    let mut conn = PgConnection::connect(&fixture.options.url).await.expect("the server answers");
    for column in ["key_id", "constants"] {
        let ask = AssertSqlSafe(format!("SELECT length({column}) FROM lineage_writer"));
        let length: i32 = sqlx::query_scalar(ask).fetch_one(&mut conn).await.expect("one writer");
        for bit in 0..length * 8 {
            let flip =
                format!("UPDATE lineage_writer SET {column} = set_bit({column}, {bit}, 1 - get_bit({column}, {bit}))");
            conn.execute(AssertSqlSafe(flip.clone())).await.expect("good SQL");
            if let Ok(report) = judged(&fixture, &log).await {
                assert_ne!(report.exit_code(), 0, "{column}, bit {bit}: {report}");
            }
            conn.execute(AssertSqlSafe(flip)).await.expect("good SQL");
        }
        assert!(length > 31, "{column}");
    }
    fixture.execute("UPDATE lineage_writer SET epoch = epoch + 1").await;
    assert_ne!(judged(&fixture, &log).await.expect("it can be read").exit_code(), 0);
    fixture.execute("DELETE FROM lineage_writer").await;
    assert_ne!(judged(&fixture, &log).await.expect("it can be read").exit_code(), 0);
}

async fn restore(intruder: &mut Intruder, column: &str, good: &str, now: &str) {
    assert!(
        intruder.execute(format!("UPDATE {} SET {column} = {good} WHERE {now}", intruder.entries)).await,
        "as it was"
    );
}

pub(crate) async fn rows_whose_payload_is_gone_are_read_as_erased(fixture: Fixture) {
    let mut log = shipped(&fixture).await;
    let mut intruder = Intruder::at(&fixture).await;
    let digest: [u8; 32] = Leaf::of(&log.records[2]).as_bytes()[25..57].try_into().expect("the payload's hash");
    let hash = intruder.bytes(&digest);
    // Rows of before could lose their payload without a trace of it.
    let without = if fixture.entries == "lineage_entry" { ("NULL", "0") } else { (hash.as_str(), "9") };
    for (payload, enc) in [without, (&hash, "9")] {
        assert!(intruder.set("payload", payload).await && intruder.set("enc", enc).await);
        let report = judged(&fixture, &log).await.expect("it can be read");
        assert_eq!(report.exit_code(), Code::ErasedUnauth as u8, "{report}");
    }
    let facts = vec![("log_id", ControlValue::Text(log.log.to_string())), ("seq", ControlValue::Int(2))];
    let erasure = Draft::control(Kind::Erasure, &log.stamp(), facts);
    let record = log.append(&erasure);
    fixture.stores.records.ship(log.log, 1, &[record]).await.expect("shipped");
    for (payload, enc) in [(hash.as_str(), "9"), without] {
        assert!(intruder.set("payload", payload).await && intruder.set("enc", enc).await);
        let report = judged(&fixture, &log).await.expect("it can be read");
        assert_eq!((report.exit_code(), report.erased), (0, 1), "{report}");
    }
}

/// As a version that did not know the record's kind stores it.
pub(crate) async fn a_later_kind_without_columns_is_read_as_not_indexed(fixture: Fixture) {
    let mut log = Writer::filled(1, 2);
    let open = Draft::control(Kind::Open, &log.stamp(), vec![("basis", ControlValue::Text("dispute".to_owned()))]);
    log.append(&open);
    fixture.stores.records.register(&signet_lineage::LogRow { next_seq: 0, ..log.row() }).await.expect("a new log");
    fixture.stores.records.ship(log.log, 1, &log.records).await.expect("shipped");
    let mut intruder = Intruder::at(&fixture).await;
    assert!({
        let kind = intruder.kind("unread", "0");
        intruder.set("kind", &kind).await
    });
    let report = judged(&fixture, &log).await.expect("it can be read");
    // No version that did not know the kind ever wrote into the table of today.
    let today = fixture.entries == "lineage_record";
    let expected = if today { (Code::IndexMismatch as u8, 0) } else { (0, 1) };
    assert_eq!((report.exit_code(), report.unindexed), expected, "{report}");
    // A kind that every version knows is never unread.
    assert!({
        let kind = intruder.kind("request", "1");
        intruder.set("kind", &kind).await
    });
    assert_eq!(judged(&fixture, &log).await.expect("it can be read").exit_code(), Code::IndexMismatch as u8);
    let other = shipped_beside(&fixture).await;
    let mut verifier = Verifier::new(&other.keys(), Options::default());
    for (record, beside) in fixture.stores.stored(other.log, 0, 100).await.expect("it can be read") {
        verifier.row(record, beside);
    }
    assert_eq!(verifier.finish().exit_code(), Code::IndexMismatch as u8);
}

/// Another log, whose answer at seq 2 an intruder marked as unread.
async fn shipped_beside(fixture: &Fixture) -> Writer {
    let log = Writer::filled(2, 4);
    fixture.stores.records.register(&signet_lineage::LogRow { next_seq: 0, ..log.row() }).await.expect("a new log");
    fixture.stores.records.ship(log.log, 1, &log.records).await.expect("shipped");
    let mut intruder = Intruder::at(fixture).await;
    assert!({
        let kind = intruder.kind("unread", "0");
        intruder.set("kind", &kind).await
    });
    log
}

pub(crate) async fn rows_that_nobody_would_look_for_are_told(fixture: Fixture) {
    let log = shipped(&fixture).await;
    assert_eq!(fixture.stores.strays().await.expect("it can be read"), [""; 0]);
    let mut intruder = Intruder::at(&fixture).await;
    let (column, other) = if fixture.entries == "lineage_record" {
        ("log_no", "4711".to_owned())
    } else {
        ("log_id", intruder.uuid(&[0xab; 16]))
    };
    let own = if column == "log_no" { "1".to_owned() } else { intruder.uuid(log.log.as_bytes()) };
    assert!(intruder.set(column, &other).await);
    let told = fixture.stores.strays().await.expect("it can be read");
    assert!(told.len() == 1 && (told[0] == "log_no 4711" || told[0].starts_with("log_id ab")), "{told:?}");
    assert!(intruder.execute(format!("UPDATE {} SET {column} = {own} WHERE seq = 2", intruder.entries)).await);
    assert_eq!(judged(&fixture, &log).await.expect("as it was").exit_code(), 0);
    // Nothing is missing but a row too many is there, before the first.
    assert!(intruder.execute(format!("UPDATE {} SET seq = -1 WHERE seq = 3", intruder.entries)).await);
    let report = judged(&fixture, &log).await.expect("the others can be read");
    assert_eq!(report.exit_code(), Code::BadLeaf as u8, "{report}");
    assert!(report.to_string().contains("the row at seq -1 cannot be read"), "{report}");
}
