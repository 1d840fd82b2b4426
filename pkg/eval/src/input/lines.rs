//! Lines of bounded length with their numbers.

use std::io::{self, BufRead, Read};

/// Longest line that is read, in bytes: as much as the gateway takes in one request.
pub(super) const MAX_LINE: usize = 32 << 20;

/// A line that is not empty.
#[derive(Debug)]
pub(super) struct Line {
    /// From 1.
    pub(super) number: u64,
    /// Without its end; or why it is no text.
    pub(super) text: Result<String, String>,
}

pub(super) struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(super) const fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    /// The next line that holds more than white space.
    pub(super) fn next_line(&mut self) -> io::Result<Option<Line>> {
        loop {
            let Some(line) = self.any_line()? else { return Ok(None) };
            if line.text.as_ref().is_err() || line.text.as_ref().is_ok_and(|text| !text.trim().is_empty()) {
                return Ok(Some(line));
            }
        }
    }

    /// The next line, whatever it holds.
    pub(super) fn any_line(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let most = MAX_LINE as u64 + 1;
        if self.input.by_ref().take(most).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        if bytes.len() > MAX_LINE && !bytes.ends_with(b"\n") {
            self.skip_line()?;
            let text = Err(format!("over {MAX_LINE} bytes long"));
            return Ok(Some(Line { number: self.number, text }));
        }
        while bytes.last().is_some_and(|end| matches!(end, b'\n' | b'\r')) {
            bytes.pop();
        }
        if self.number == 1 && bytes.starts_with(b"\xEF\xBB\xBF") {
            bytes.drain(..3);
        }
        let text = String::from_utf8(bytes).map_err(|_| "not UTF-8".to_owned());
        Ok(Some(Line { number: self.number, text }))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let held = self.input.fill_buf()?;
            let (used, ended) = match held.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (held.len(), held.is_empty()),
            };
            self.input.consume(used);
            if ended {
                return Ok(());
            }
        }
    }
}
