//! What the rules serve of labelled pairs, without an encoder: `cargo run -p signet-cache --example pairs -- FILE...`
//!
//! A file holds JSON lines with `a`, `b` (a prompt, or a chat whose last turn is judged if the rest is equal), `label` (1:
//! one answer serves both) and `category`; or, in a `.txt` file, `one | other` lines under `[category]` headings, labelled 0 if
//! the file's name begins with `miss`. Per category: how many share their words, how many pass the gates at any
//! similarity, and what stopped the others. `-v LABEL` before the files prints the pairs of that label that pass or not. A file of
//! lines with `prompt` instead is a stream of distinct prompts: each is judged against all others.

#![expect(clippy::print_stdout, reason = "an example prints its figures")]

use serde_json::Value;
use signet_cache::{Question, gates};
use std::collections::BTreeMap;

/// How a pair fares.
enum Fate {
    SameWords,
    Passes,
    Stopped(&'static str),
}

/// The question, and all else of the request that a partition holds.
fn asked(side: &Value) -> Option<(String, Value)> {
    match side {
        Value::String(text) => Some((text.clone(), Value::Null)),
        Value::Array(turns) => {
            let (last, before) = turns.split_last()?;
            Some((last.get("content")?.as_str()?.to_owned(), Value::Array(before.to_vec())))
        }
        Value::Object(request) => {
            let mut rest = request.clone();
            for neutral in ["user", "stream", "metadata"] {
                rest.remove(neutral);
            }
            let (text, before) = match rest.remove("messages").or_else(|| rest.remove("prompt"))? {
                Value::String(text) => (text, Value::Null),
                turns => asked(&turns)?,
            };
            rest.insert("before".to_owned(), before);
            Some((text, Value::Object(rest)))
        }
        _ => None,
    }
}

fn fate(pair: &Value) -> Fate {
    let (Some((one, with_one)), Some((other, with_other))) = (asked(&pair["a"]), asked(&pair["b"])) else {
        return Fate::Stopped("not text");
    };
    if with_one != with_other {
        return Fate::Stopped("partition");
    }
    match (Question::read(&one), Question::read(&other)) {
        (Err(reason), _) | (_, Err(reason)) if one != other => Fate::Stopped(reason.as_str()),
        (Ok(one), Ok(other)) if one.same_words() == other.same_words() => Fate::SameWords,
        (Ok(one), Ok(other)) => match gates::judge(&one, &other) {
            Ok(()) => Fate::Passes,
            Err(refusal) => Fate::Stopped(refusal.gate.as_str()),
        },
        _ => Fate::Stopped("exact"),
    }
}

/// Counts of one category and label.
#[derive(Default)]
struct Tally {
    pairs: usize,
    same_words: usize,
    pass: usize,
    stopped: BTreeMap<&'static str, usize>,
}

impl Tally {
    fn add(&mut self, fate: &Fate) {
        self.pairs += 1;
        match fate {
            Fate::SameWords => self.same_words += 1,
            Fate::Passes => self.pass += 1,
            Fate::Stopped(by) => *self.stopped.entry(by).or_default() += 1,
        }
    }
}

/// The pairs of a file.
fn pairs(file: &str) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string(file)?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    if std::path::Path::new(file).extension().is_none_or(|ending| ending != "txt") {
        return Ok(lines.map(serde_json::from_str).collect::<Result<_, _>>()?);
    }
    let label = u64::from(!file.rsplit('/').next().is_some_and(|name| name.starts_with("miss")));
    let (mut category, mut all) = ("", Vec::new());
    for line in lines {
        if let Some((a, b)) = line.split_once(" | ") {
            all.push(serde_json::json!({"a": a, "b": b, "label": label, "category": category}));
        } else {
            category = line.trim_matches(['[', ']']);
        }
    }
    Ok(all)
}

/// Judges each prompt against all others, and prints what would share an answer.
fn distinct(file: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut questions: Vec<(String, Question)> = Vec::new();
    let (mut prompts, mut hits) = (0, 0);
    for line in std::fs::read_to_string(file)?.lines() {
        let row: Value = serde_json::from_str(line)?;
        let text = row["prompt"].as_str().unwrap_or_default();
        prompts += 1;
        let Ok(question) = Question::read(text) else { continue };
        for (other, stored) in &questions {
            if gates::judge(&question, stored).is_ok() && other != text {
                hits += 1;
                println!("HIT {text:?} / {other:?}");
            }
        }
        questions.push((text.to_owned(), question));
    }
    println!("{file}: {prompts} prompts, {} eligible, {hits} semantic hits", questions.len());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut files: Vec<String> = std::env::args().skip(1).collect();
    let shown = if files.len() > 1 && files[0] == "-v" { files.drain(..2).nth(1) } else { None };
    for file in files {
        if file.ends_with("prompts.jsonl") {
            distinct(&file)?;
            continue;
        }
        let mut tallies: BTreeMap<(u64, String), Tally> = BTreeMap::new();
        for pair in pairs(&file)? {
            let (label, category) = (pair["label"].as_u64().unwrap_or(0), pair["category"].as_str().unwrap_or(""));
            let fate = fate(&pair);
            for category in [category, "~all"] {
                tallies.entry((label, category.to_owned())).or_default().add(&fate);
            }
            let name = match fate {
                Fate::SameWords => "SAME",
                Fate::Passes => "PASS",
                Fate::Stopped(by) => by,
            };
            if shown.as_ref().is_some_and(|shown| *shown == label.to_string()) {
                println!("{name:10} {category:12} {} | {}", pair["a"], pair["b"]);
            }
        }
        println!("{file}");
        for ((label, category), tally) in tallies {
            let Tally { pairs, same_words, pass, stopped } = tally;
            println!("  {label} {category:14} {pairs:5} same words {same_words:4} pass {pass:3} stopped {stopped:?}");
        }
    }
    Ok(())
}
