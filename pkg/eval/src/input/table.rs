//! Tables with a header: RFC 4180, separated by commas or tabs.

use super::lines::{Lines, MAX_LINE};
use super::{BadLine, Members};
use serde_json::Value;
use std::io::BufRead;

/// The first row.
#[derive(Debug)]
pub(super) struct Header {
    names: Vec<String>,
    separator: char,
}

impl Header {
    pub(super) fn read(text: &str) -> Result<Self, String> {
        let separator = if text.contains('\t') { '\t' } else { ',' };
        let names = split(text, separator).ok_or("neither a JSON object nor the header of a table")?;
        let names: Vec<_> = names.iter().map(|name| name.trim().to_lowercase()).collect();
        if names.len() < 2 && !names.iter().any(|name| name == "text" || name == "prompt") {
            return Err("neither a JSON object nor the header of a table".to_owned());
        }
        Ok(Self { names, separator })
    }

    /// The names alone, to recognise the form by.
    pub(super) fn as_members(&self) -> Members {
        self.names.iter().map(|name| (name.clone(), Value::String(String::new()))).collect()
    }

    /// The row that begins with `text`; a quoted field may go on over more lines.
    pub(super) fn row<R: BufRead>(
        &self,
        number: u64,
        mut text: String,
        lines: &mut Lines<R>,
    ) -> Result<(u64, Members), BadLine> {
        let quotes = |text: &str| text.bytes().filter(|byte| *byte == b'"').count();
        let (mut last, mut open) = (number, quotes(&text) % 2 == 1);
        while open {
            let next = lines.any_line().ok().flatten();
            let next = next.filter(|_| text.len() < MAX_LINE);
            let bad = |what| BadLine { line: number, what };
            let line = next.ok_or_else(|| bad("a quoted field that does not end".to_owned()))?;
            last = line.number;
            let more = line.text.map_err(bad)?;
            open ^= quotes(&more) % 2 == 1;
            text.push('\n');
            text.push_str(&more);
        }
        let bad = |what: String| BadLine { line: last, what };
        let fields = split(&text, self.separator).ok_or_else(|| bad("a quotation mark out of place".to_owned()))?;
        if fields.len() != self.names.len() {
            return Err(bad(format!("{} fields where the header has {}", fields.len(), self.names.len())));
        }
        Ok((last, self.names.iter().cloned().zip(fields.into_iter().map(Value::String)).collect()))
    }
}

/// The fields of one row; none if its quotation marks are out of place.
fn split(row: &str, separator: char) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    let mut rest = row;
    loop {
        let (field, after) = if let Some(quoted) = rest.strip_prefix('"') {
            quoted_field(quoted)?
        } else {
            let end = rest.find(separator).unwrap_or(rest.len());
            (rest[..end].to_owned(), &rest[end..])
        };
        fields.push(field);
        if after.is_empty() {
            return Some(fields);
        }
        rest = after.strip_prefix(separator)?;
    }
}

/// A field up to its closing quotation mark, a doubled one standing for itself; and what follows it.
fn quoted_field(mut rest: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    loop {
        let at = rest.find('"')?;
        field.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, rest)),
        }
    }
}
