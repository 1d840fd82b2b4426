//! Rows of Postgres: records with their payloads packed, by what the statements of their process have in common.
//!
//! Names of models, providers and routes are the same in most statements of a deployment and in no two deployments. A text that comes
//! again and again becomes part of the constants, which are renewed for that a few times in the life of a process: each set of
//! constants is a row of `lineage_writer`, and rows stay readable by theirs.
//!
//! What is in there outlives an erased payload. It is therefore only what [`OFTEN`] statements had in common, and no text with a
//! caller's own `X-Request-Id`.

use crate::columns::Row;
use crate::pack::{Packer, Split, constants};
use signet_lineage::Record;
use signet_types::LogId;
use std::collections::HashMap;
use std::sync::Arc;

/// So many statements have a text before it is learnt.
const OFTEN: u32 = 8;
/// Texts learnt by one process.
const MAX_LEARNT: usize = 24;
/// A longer text is not learnt, nor one more where so many wait.
const MAX_TEXT: usize = 2_048;
const MAX_WAITING: usize = 256;
/// Statements before anything is learnt; then twice as many each time.
const FIRST: u64 = 64;

/// Packs one process's records after the other's.
pub(crate) struct Learner {
    of: Option<(LogId, u32, [u8; 32])>,
    constants: Arc<[u8]>,
    packer: Packer,
    /// How many statements had a text that is not learnt.
    waiting: HashMap<Vec<u8>, u32>,
    learnt: usize,
    statements: u64,
    due: u64,
}

impl Learner {
    pub(crate) fn new() -> Self {
        Self::knowing(None, [].into())
    }

    fn knowing(of: Option<(LogId, u32, [u8; 32])>, constants: Arc<[u8]>) -> Self {
        let packer = Packer::new(&constants);
        Self { of, constants, packer, waiting: HashMap::new(), learnt: 0, statements: 0, due: FIRST }
    }

    /// The rows of a batch.
    pub(crate) fn rows(&mut self, batch: &[Record]) -> Vec<Row> {
        let by = |record: &Record| (record.log, record.epoch, record.key_id);
        let (mut rows, mut rest) = (Vec::with_capacity(batch.len()), batch);
        while let Some(first) = rest.first() {
            let (group, others) = rest.split_at(rest.iter().take_while(|record| by(record) == by(first)).count());
            if self.of != Some(by(first)) || self.constants.is_empty() {
                let told = group.iter().map(|record| constants(&record.payload)).find(|told| !told.is_empty());
                *self = Self::knowing(Some(by(first)), told.unwrap_or_default().into());
            }
            rows.extend(self.of_one_process(group));
            rest = others;
        }
        rows
    }

    fn of_one_process(&mut self, records: &[Record]) -> Vec<Row> {
        let splits: Vec<Option<Split>> = records.iter().map(|record| self.packer.split(&record.payload)).collect();
        splits.iter().flatten().for_each(|split| self.count(&split.text));
        if self.statements >= self.due {
            self.learn();
        }
        let row = |(record, split): (&Record, &Option<Split>)| Row {
            packed: split.as_ref().and_then(|split| self.packer.pack(&record.payload, split)),
            constants: Arc::clone(&self.constants),
            ..Row::of(record)
        };
        records.iter().zip(&splits).map(row).collect()
    }

    fn count(&mut self, text: &[u8]) {
        self.statements += 1;
        if let Some(times) = self.waiting.get_mut(text) {
            *times += 1;
        } else if self.waiting.len() < MAX_WAITING && text.len() <= MAX_TEXT && !names_a_request(text) {
            self.waiting.insert(text.to_vec(), 1);
        }
    }

    /// Takes in the texts that came often, the most frequent last: nearest to what is packed.
    fn learn(&mut self) {
        self.due = self.statements * 2;
        let mut often: Vec<(u32, Vec<u8>)> = Vec::new();
        for (text, times) in std::mem::take(&mut self.waiting) {
            if times >= OFTEN && !self.knows(&text) {
                often.push((times, text));
            }
        }
        often.sort_unstable_by(|one, other| other.cmp(one));
        often.truncate(MAX_LEARNT - self.learnt);
        if often.is_empty() || self.constants.is_empty() {
            return;
        }
        self.learnt += often.len();
        let mut constants = self.constants.to_vec();
        if constants.split(|byte| *byte == 0).count() < 3 {
            constants.push(0);
        }
        often.iter().rev().for_each(|(_, text)| constants.extend_from_slice(text));
        self.constants = constants.into();
        self.packer = Packer::new(&self.constants);
    }

    fn knows(&self, text: &[u8]) -> bool {
        self.constants.windows(text.len().max(1)).any(|part| part == text)
    }
}

/// Whether a caller's own id stands here in clear; that of a provider is a digest, taken out as a value.
fn names_a_request(text: &[u8]) -> bool {
    const NAME: &[u8] = b"\"request_id\":\"";
    text.windows(NAME.len() + 1).any(|part| part.starts_with(NAME) && part[NAME.len()] >= b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::{Unpacker, tests::MISS};
    use signet_types::LineageId;

    const LOG: LogId = LogId::from_bytes([1; 16]);

    fn records(range: std::ops::Range<u64>, change: impl Fn(u64) -> String) -> Vec<Record> {
        let record = |seq| Record {
            id: LineageId::from_bytes([2; 16]),
            log: LOG,
            epoch: 1,
            seq,
            payload: change(seq).into_bytes().into(),
            key_id: [3; 32],
            sig: [4; 64],
        };
        range.map(record).collect()
    }

    fn told(row: &Row) -> String {
        String::from_utf8_lossy(&row.constants).into_owned()
    }

    #[test]
    fn names_that_come_again_and_again_are_learnt_and_each_row_is_read_by_what_was_known_then() {
        let mut learner = Learner::new();
        let named = |seq: u64| {
            MISS.replace("gpt-4o-mini", "the-model-of-the-house").replace("\"in\":5", &format!("\"in\":{seq}"))
        };
        let early = learner.rows(&records(0..10, named));
        let late = learner.rows(&records(10..200, named));
        assert!(!told(&early[0]).contains("the-model") && told(&late[0]).contains("the-model-of-the-house"));
        let length = |row: &Row| row.packed.as_ref().map_or(usize::MAX, Vec::len);
        assert!(length(&late[0]) + 30 < length(&early[0]), "{} {}", length(&late[0]), length(&early[0]));
        for row in early.iter().chain(&late) {
            let payload = row.packed.as_ref().and_then(|packed| Unpacker::new(&row.constants).unpack(packed));
            assert_eq!(payload.as_deref(), Some(&*row.record.payload));
        }
        // Not once more; and another process starts from nothing.
        let again = learner.rows(&records(200..2_000, named));
        assert_eq!(again[0].constants, late[0].constants);
        let mut other = records(0..1, named);
        other[0].epoch = 2;
        assert!(!told(&learner.rows(&other)[0]).contains("the-model"));
    }

    #[test]
    fn what_few_statements_say_or_a_caller_named_itself_is_not_learnt() {
        let mut learner = Learner::new();
        let odd = |seq: u64| match seq {
            0..7 => MISS.replace("gpt-4o-mini", "rarely-asked"),
            _ => MISS.replace(r#""http":{"#, r#""http":{"request_id":"jane@example.org","#),
        };
        learner.rows(&records(0..100, odd));
        let row = &learner.rows(&records(100..101, odd))[0];
        assert!(!told(row).contains("rarely") && !told(row).contains("jane"), "{}", told(row));
        assert!(row.packed.is_some());
    }

    #[test]
    fn what_is_learnt_has_a_bound() {
        let mut learner = Learner::new();
        let many = |seq: u64| {
            MISS.replace("gpt-4o-mini", &format!("model-{}", "x".repeat(usize::try_from(seq % 40).expect("small"))))
        };
        for batch in 0..20 {
            learner.rows(&records(batch * 500..(batch + 1) * 500, many));
        }
        let row = &learner.rows(&records(0..1, many))[0];
        assert!(row.constants.len() < 64 << 10 && learner.learnt == MAX_LEARNT, "{}", row.constants.len());
    }
}
