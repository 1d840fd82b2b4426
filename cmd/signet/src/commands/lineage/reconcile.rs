//! `signet lineage verify --reconcile`: what a provider says it did against what the records say it did.
//!
//! A log proves what was recorded. That a gateway called a provider and wrote no record shows only in the provider's own
//! count. Its export is brought into one CSV form by whoever downloads it: a header line, then one line for each provider,
//! model and UTC day.
//!
//! | column | meaning |
//! |---|---|
//! | `provider` | as configured in the gateway |
//! | `model` | as sent to the provider |
//! | `day` | UTC, `YYYY-MM-DD` |
//! | `requests` | answered with a status below 400 |
//! | `input_tokens`, `output_tokens` | as billed |
//! | `request_id` | may be missing: the provider's own id of the one request of this line |
//!
//! On the records' side a request is an attempt with such a status; its tokens are those of the record that says it was
//! billed, and belong to the record's last attempt. Days that the file does not name are not compared.
//!
//! Records hold a provider's id only as a fingerprint under their tenant's key. Where those keys are at hand ids are compared too,
//! one by one: a request that is missing is then told though another that was never made hides it in the counts.

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use signet_lineage::{PROVIDER_REQUEST_ID, Record, TenantKey};
use signet_types::TenantId;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::path::Path;

const COLUMNS: [&str; 6] = ["provider", "model", "day", "requests", "input_tokens", "output_tokens"];
const MS_PER_DAY: u64 = 86_400_000;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    day: String,
    provider: String,
    model: String,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    requests: u64,
    input: u64,
    output: u64,
}

/// Both sides of the comparison.
#[derive(Debug)]
pub(super) struct Usage {
    provider: BTreeMap<Key, Sum>,
    records: BTreeMap<Key, Sum>,
    /// The provider's own ids, if it gives them.
    ids: BTreeMap<String, Key>,
    /// Answers whose records hold the fingerprint of such an id, and how many there are without.
    named: HashSet<Named>,
    nameless: BTreeMap<Key, u64>,
}

/// A tenant's key by its epoch.
pub(super) type KeyName = (TenantId, u32);
/// A fingerprint under it.
type Named = (KeyName, [u8; 16]);

impl Usage {
    pub(super) fn read(file: &Path) -> Result<Self> {
        let text = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
        Self::parse(&text).with_context(|| format!("reading {}", file.display()))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let header: Vec<_> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
        let place =
            |name| header.iter().position(|column| *column == name).with_context(|| format!("no column {name}"));
        let places = COLUMNS.into_iter().map(place).collect::<Result<Vec<_>>>()?;
        let id_place = place("request_id").ok();
        let mut ids = BTreeMap::new();
        let mut provider = BTreeMap::<_, Sum>::new();
        for (number, line) in lines.enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let cells: Vec<_> = line.split(',').map(str::trim).collect();
            if cells.len() != header.len() || line.contains('"') {
                bail!("line {}: {} cells without quotes were expected", number + 2, header.len());
            }
            let cell = |at: usize| cells[places[at]];
            let count = |at| cell(at).parse::<u64>().with_context(|| format!("line {}: {:?}", number + 2, cell(at)));
            let key = Key { day: cell(2).to_owned(), provider: cell(0).to_owned(), model: cell(1).to_owned() };
            let id = id_place.map(|at| cells[at]).filter(|id| !id.is_empty());
            if id.is_some_and(|id| count(3).ok() != Some(1) || ids.insert(id.to_owned(), key.clone()).is_some()) {
                bail!("line {}: an id is of one request, and there once", number + 2);
            }
            provider.entry(key).or_default().add(Sum { requests: count(3)?, input: count(4)?, output: count(5)? });
        }
        let (records, named, nameless) = (BTreeMap::new(), HashSet::new(), BTreeMap::new());
        Ok(Self { provider, records, ids, named, nameless })
    }

    /// Adds what a record says was asked of providers. One that cannot be read is a finding of the verification.
    pub(super) fn count(&mut self, record: &Record) {
        let Ok(Statement { predicate: it }) = serde_json::from_slice(&record.payload) else { return };
        let (id, attempts) = it.provider.map(|provider| (provider.request_id, provider.attempts)).unwrap_or_default();
        let name = it.caller.zip(id.as_deref().and_then(fingerprint));
        let name = name.and_then(|(caller, id)| Some(((caller.tenant.parse().ok()?, caller.key_epoch), id)));
        let day = day(it.time.completed_ms);
        let last = attempts.len().saturating_sub(1);
        for (at, attempt) in attempts.into_iter().enumerate().filter(|(_, attempt)| (1..400).contains(&attempt.status))
        {
            let key = Key { day: day.clone(), provider: attempt.provider, model: attempt.model };
            let billed = it.usage.as_ref().filter(|usage| at == last && usage.billed);
            let (input, output) = billed.map_or((0, 0), |usage| (usage.input, usage.output));
            match name.filter(|_| at == last && !self.ids.is_empty()) {
                Some(name) => drop(self.named.insert(name)),
                None => *self.nameless.entry(key.clone()).or_default() += 1,
            }
            self.records.entry(key).or_default().add(Sum { requests: 1, input, output });
        }
    }

    /// What differs, and whether requests are missing on the records' side.
    pub(super) fn differences(&self) -> Vec<(bool, String)> {
        let days: BTreeSet<_> = self.provider.keys().map(|key| &key.day).collect();
        let keys: BTreeSet<_> =
            self.provider.keys().chain(self.records.keys()).filter(|key| days.contains(&key.day)).collect();
        let compare = |key: &Key| {
            let sum = |side: &BTreeMap<Key, Sum>| side.get(key).copied().unwrap_or_default();
            let (theirs, ours) = (sum(&self.provider), sum(&self.records));
            let text = format!(
                "{} {} {}: provider {} requests, {} in, {} out; records {} requests, {} in, {} out",
                key.day,
                key.provider,
                key.model,
                theirs.requests,
                theirs.input,
                theirs.output,
                ours.requests,
                ours.input,
                ours.output
            );
            (theirs != ours).then_some((theirs.requests > ours.requests, text))
        };
        keys.into_iter().filter_map(compare).collect()
    }
}

impl Usage {
    /// The tenant keys without which the provider's ids cannot be compared; none if it gives no ids.
    pub(super) fn wanted(&self) -> BTreeSet<KeyName> {
        self.named.iter().map(|(key, _)| *key).collect()
    }

    /// Whether the provider gives ids.
    pub(super) fn has_ids(&self) -> bool {
        !self.ids.is_empty()
    }

    /// Ids of the provider's that no record holds, with the reason why one may be missing: none, or that so many records
    /// cannot be told.
    pub(super) fn strangers(&self, keys: &BTreeMap<KeyName, TenantKey>) -> Vec<(bool, String)> {
        let is_told = |id: &str| {
            let mut names = keys.iter().map(|(key, own)| (*key, own.fingerprint(PROVIDER_REQUEST_ID, id.as_bytes())));
            names.any(|name| self.named.contains(&name))
        };
        let mut strangers = BTreeMap::<&Key, Vec<&str>>::new();
        for (id, key) in self.ids.iter().filter(|(id, _)| !is_told(id)) {
            strangers.entry(key).or_default().push(id);
        }
        let sealed = self.named.iter().filter(|(key, _)| !keys.contains_key(key)).count() as u64;
        let line = |(key, ids): (&Key, Vec<&str>)| {
            let untold = self.nameless.get(key).copied().unwrap_or_default() + sealed;
            let missing = ids.len() as u64 > untold;
            let why = if untold > 0 { format!(", where {untold} records do not tell theirs") } else { String::new() };
            let ids = ids.join(" ");
            (missing, format!("{} {} {}: no record holds the request ids {ids}{why}", key.day, key.provider, key.model))
        };
        strangers.into_iter().map(line).collect()
    }
}

fn fingerprint(digits: &str) -> Option<[u8; 16]> {
    // A tenant's id is written in the same way.
    digits.parse::<TenantId>().ok().map(|bytes| *bytes.as_bytes())
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.requests = self.requests.saturating_add(other.requests);
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
    }
}

/// The civil date of a time, by counting 400-year cycles from 0000-03-01.
fn day(ms: u64) -> String {
    let days = ms / MS_PER_DAY + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * from_march + 2) / 5 + 1, (from_march + 2) % 12 + 1);
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + u64::from(month <= 2))
}

#[derive(Deserialize)]
struct Statement {
    predicate: Predicate,
}

#[derive(Deserialize)]
struct Predicate {
    caller: Option<Caller>,
    provider: Option<Provider>,
    usage: Option<Tokens>,
    time: Time,
}

#[derive(Deserialize)]
struct Caller {
    tenant: String,
    key_epoch: u32,
}

#[derive(Deserialize)]
struct Provider {
    request_id: Option<String>,
    attempts: Vec<Attempt>,
}

#[derive(Deserialize)]
struct Attempt {
    provider: String,
    model: String,
    status: u16,
}

#[derive(Deserialize)]
struct Tokens {
    billed: bool,
    #[serde(rename = "in")]
    input: u64,
    #[serde(rename = "out")]
    output: u64,
}

#[derive(Deserialize)]
struct Time {
    completed_ms: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use signet_types::{LineageId, LogId};

    fn record(status: u16, billed: bool) -> Record {
        let payload = format!(
            r#"{{"predicate":{{"provider":{{"attempts":[{{"model":"m","ms":3,"provider":"a","status":500}},{{"model":"m","ms":3,"provider":"b","status":{status}}}]}},"time":{{"completed_ms":1780000000000}},"usage":{{"billed":{billed},"in":7,"out":5}}}}}}"#
        );
        let (id, log) = (LineageId::from_bytes([1; 16]), LogId::from_bytes([2; 16]));
        Record { id, log, epoch: 1, seq: 0, payload: payload.into_bytes().into(), key_id: [0; 32], sig: [0; 64] }
    }

    fn usage(lines: &str) -> Usage {
        Usage::parse(&format!("day,requests,input_tokens,output_tokens,model,provider,region\n{lines}"))
            .expect("a table")
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        let of = |days: u64| day(days * MS_PER_DAY);
        assert_eq!([of(0), of(59), of(789), of(19_782)], ["1970-01-01", "1970-03-01", "1972-02-29", "2024-02-29"]);
        assert_eq!(day(1_780_000_000_000), "2026-05-28");
    }

    #[test]
    fn equal_counts_are_no_difference_and_every_other_one_is() {
        let mut same = usage("2026-05-28,2,14,10,m,b,eu\n");
        (0..2).for_each(|_| same.count(&record(200, true)));
        assert_eq!(same.differences(), []);
        same.count(&record(200, false));
        let [(missing, line)] = &same.differences()[..] else { panic!("one difference") };
        assert!(!missing && line.contains("records 3 requests, 14 in, 10 out"), "{line}");
    }

    #[test]
    fn a_request_that_only_the_provider_counts_is_missing_here() {
        let mut usage = usage("2026-05-28,2,14,10,m,b,eu\n2026-05-28,1,1,1,other,b,eu\n");
        usage.count(&record(200, true));
        usage.count(&record(500, true));
        let differences = usage.differences();
        assert_eq!(differences.iter().map(|(missing, _)| *missing).collect::<Vec<_>>(), [true, true]);
    }

    #[test]
    fn an_id_that_no_record_holds_shows_though_the_counts_are_equal() {
        let (tenant, own) = (TenantId::from_bytes([7; 16]), TenantKey::generate());
        let held = |id: &str| {
            let id = crate::serve::keys::hex(&own.fingerprint(PROVIDER_REQUEST_ID, id.as_bytes()));
            let payload = format!(
                r#"{{"predicate":{{"caller":{{"key_epoch":1,"tenant":"{tenant}"}},"provider":{{"attempts":[{{"model":"m","ms":3,"provider":"b","status":200}}],"request_id":"{id}"}},"time":{{"completed_ms":1780000000000}}}}}}"#
            );
            Record { payload: payload.into_bytes().into(), ..record(200, false) }
        };
        let table = |ids: &[&str]| {
            let line = |id: &&str| format!("b,m,2026-05-28,1,0,0,{id}\n");
            let lines: Vec<_> = ids.iter().map(line).collect();
            Usage::parse(&format!(
                "provider,model,day,requests,input_tokens,output_tokens,request_id\n{}",
                lines.concat()
            ))
        };
        let keys = BTreeMap::from([((tenant, 1), own.clone())]);
        let mut usage = table(&["one", "two"]).expect("a table");
        usage.count(&held("one"));
        usage.count(&held("two"));
        assert_eq!((usage.strangers(&keys), usage.wanted().len()), (Vec::new(), 1));
        let mut usage = table(&["one", "three"]).expect("a table");
        usage.count(&held("one"));
        usage.count(&held("two"));
        assert_eq!(usage.differences(), [], "the counts tell nothing");
        let [(true, line)] = &usage.strangers(&keys)[..] else { panic!("one that is missing") };
        assert!(line.ends_with("no record holds the request ids three"), "{line}");
        let untold = usage.strangers(&BTreeMap::new());
        assert!(matches!(&untold[..], [(false, line)] if line.contains("2 records do not tell theirs")), "{untold:?}");
        assert!(table(&["one", "one"]).is_err(), "an id is there once");
    }

    #[test]
    fn days_that_the_provider_does_not_name_are_not_compared() {
        let mut usage = usage("2026-05-27,0,0,0,m,b,eu\n");
        usage.count(&record(200, true));
        assert_eq!(usage.differences(), []);
    }

    #[test]
    fn a_file_of_another_form_is_refused() {
        for bad in ["", "provider,model\n", "provider,model,day,requests,input_tokens,output_tokens\na,b,c,1,2\n"] {
            assert!(Usage::parse(bad).is_err(), "{bad:?}");
        }
        assert!(Usage::parse("provider,model,day,requests,input_tokens,output_tokens\na,b,c,x,2,3\n").is_err());
    }
}
