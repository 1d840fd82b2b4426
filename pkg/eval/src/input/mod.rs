//! Data sets and logs, read line by line.
//!
//! A file is JSON lines or a table with a header (CSV, TSV); what its rows are is told by the fields of the first one. A
//! line that cannot be read is reported with its number and the rest is read on.

mod lines;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use crate::query::Query;
use lines::{Line, Lines};
use serde_json::{Map, Value};
use std::io::{self, BufRead};

type Members = Map<String, Value>;

/// What the rows of a file are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// Two texts, chats or requests and whether one answer serves both: `a`, `b`, `label`, and a kind if wanted.
    Pairs,
    /// Texts in order of arrival, with the cluster of those that one answer serves if it is known.
    Stream,
    /// Chat completion requests: bodies, or lines of a batch file with the request in `body`.
    OpenAi,
    /// LiteLLM's standard logging payload.
    LiteLlm,
}

/// Two requests and whether one answer serves both.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The line that it ends on.
    pub line: u64,
    /// The one that is stored.
    pub a: Query,
    /// The one that is asked.
    pub b: Query,
    /// Whether one answer serves both.
    pub same: bool,
    /// Its category.
    pub kind: String,
}

/// One request of a stream.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// The line that it ends on.
    pub line: u64,
    /// The request.
    pub query: Query,
    /// What is answered; requests of one cluster share their answer.
    pub cluster: Option<String>,
}

/// One row.
#[derive(Debug, Clone)]
pub enum Row {
    /// Of [`Format::Pairs`].
    Pair(Box<Pair>),
    /// Of the other forms.
    Arrival(Box<Arrival>),
    /// A log line that is no answered chat completion.
    Other,
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct BadLine {
    /// Its number, from 1; of a table row its last line.
    pub line: u64,
    /// What is wrong.
    pub what: String,
}

/// Why a file cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system could not.
    #[error("reading failed: {0}")]
    Io(#[from] io::Error),
    /// Its first row is of no known form.
    #[error(
        "unknown format: {0}; known are labelled pairs (a, b, label), streams (text or prompt, cluster), OpenAI requests \
         (messages, or body of a batch line) and LiteLLM's logs (call_type, messages), as JSON lines or a table with a \
         header"
    )]
    Unknown(String),
}

/// Reads rows; see the module.
pub struct Reader<R> {
    lines: Lines<R>,
    table: Option<table::Header>,
    format: Format,
    first: Option<Line>,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first row to find out what the file is, unless `wanted` says so.
    ///
    /// # Errors
    /// It cannot be read, or is of no known form.
    pub fn open(input: R, wanted: Option<Format>) -> Result<Self, Unreadable> {
        let mut lines = Lines::new(input);
        let Some(first) = lines.next_line()? else { return Err(Unreadable::Unknown("the file is empty".to_owned())) };
        let text = first.text.map_err(Unreadable::Unknown)?;
        let first = Line { number: first.number, text: Ok(text) };
        let text = first.text.as_deref().expect("just put there");
        if text.trim_start().starts_with('{') {
            let named = serde_json::from_str::<Members>(text).map_err(|e| Unreadable::Unknown(format!("line 1: {e}")));
            let format = match wanted {
                Some(format) => format,
                None => rows::recognise(&named?)?,
            };
            return Ok(Self { lines, table: None, format, first: Some(first) });
        }
        let header = table::Header::read(text).map_err(Unreadable::Unknown)?;
        let format = wanted.map_or_else(|| rows::recognise(&header.as_members()), Ok)?;
        Ok(Self { lines, table: Some(header), format, first: None })
    }

    /// What the rows are.
    pub const fn format(&self) -> Format {
        self.format
    }

    fn members(&mut self, line: Line) -> Result<(u64, Members), BadLine> {
        let number = line.number;
        let bad = |what| BadLine { line: number, what };
        let text = line.text.map_err(bad)?;
        match &self.table {
            None => serde_json::from_str(&text).map(|members| (number, members)).map_err(|e| bad(e.to_string())),
            Some(header) => header.row(number, text, &mut self.lines),
        }
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    /// The inner fault is of one line; the outer one ends the reading.
    type Item = Result<Result<Row, BadLine>, io::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = match self.first.take().map_or_else(|| self.lines.next_line(), |line| Ok(Some(line))) {
            Ok(line) => line?,
            Err(fault) => return Some(Err(fault)),
        };
        let row = self
            .members(line)
            .and_then(|(line, members)| rows::read(self.format, line, &members).map_err(|what| BadLine { line, what }));
        Some(Ok(row))
    }
}
