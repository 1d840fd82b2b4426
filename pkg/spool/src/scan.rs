//! Reading a segment from a file of any size through one small buffer.

use crate::files::Handle;
use crate::frame::{FRAME_HEAD, Frame, Seed, body_len, frame_len, is_good};
use std::io;
use std::sync::Arc;

const CHUNK: usize = 256 << 10;

/// Walks the frames between two offsets of a file.
#[derive(Debug)]
pub(crate) struct Scanner {
    file: Arc<dyn Handle>,
    seed: Seed,
    /// Where the next frame is expected.
    at: u64,
    end: u64,
    buf: Vec<u8>,
    buf_at: u64,
}

impl Scanner {
    pub(crate) fn new(file: Arc<dyn Handle>, seed: Seed, at: u64, end: u64) -> Self {
        Self { file, seed, at, end, buf: Vec::new(), buf_at: at }
    }

    /// Behind the last good frame.
    pub(crate) const fn at(&self) -> u64 {
        self.at
    }

    /// The next frame; none at the end and at damage, where [`Scanner::resync`] may lead on.
    pub(crate) fn next(&mut self) -> io::Result<Option<Frame<'_>>> {
        let Some((start, len)) = self.look()? else { return Ok(None) };
        self.at += frame_len(len - FRAME_HEAD) as u64;
        Ok(Some(Frame::of(&self.buf[start..start + len])))
    }

    /// Goes to the next good frame after damage; false if there is none.
    pub(crate) fn resync(&mut self) -> io::Result<bool> {
        let stuck = self.at;
        while self.at + (FRAME_HEAD as u64) < self.end {
            self.at += 8;
            if self.look()?.is_some() {
                return Ok(true);
            }
        }
        self.at = stuck;
        Ok(false)
    }

    /// Place in the buffer and length, head and body, of the good frame at `at`.
    fn look(&mut self) -> io::Result<Option<(usize, usize)>> {
        let Some(start) = self.window(FRAME_HEAD)? else { return Ok(None) };
        let Some(body) = body_len(&self.buf[start..start + FRAME_HEAD]) else { return Ok(None) };
        let len = FRAME_HEAD + body;
        let Some(start) = self.window(len)? else { return Ok(None) };
        Ok(is_good(self.seed, &self.buf[start..start + len]).then_some((start, len)))
    }

    /// Makes `len` bytes from `at` on readable in the buffer; none if the file ends before.
    fn window(&mut self, len: usize) -> io::Result<Option<usize>> {
        let held = self.buf_at + self.buf.len() as u64;
        if self.at < self.buf_at || self.at + len as u64 > held {
            let wanted = (len.max(CHUNK) as u64).min(self.end.saturating_sub(self.at));
            self.buf.resize(usize::try_from(wanted).expect("at most MAX_BODY"), 0);
            let got = read_full(&*self.file, &mut self.buf, self.at)?;
            self.buf.truncate(got);
            self.buf_at = self.at;
        }
        let start = usize::try_from(self.at - self.buf_at).expect("inside the buffer");
        Ok((start + len <= self.buf.len()).then_some(start))
    }
}

/// Reads until `buf` is full or the file ends; returns the count.
pub(crate) fn read_full(file: &dyn Handle, buf: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match file.read_at(&mut buf[done..], offset + done as u64) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// The offset behind the last byte that is not zero in `from..end`; `from` if there is none.
pub(crate) fn last_written(file: &dyn Handle, from: u64, end: u64) -> io::Result<u64> {
    let mut buf = vec![0; CHUNK];
    let (mut at, mut last) = (from, from);
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(CHUNK).min(CHUNK);
        let got = read_full(file, &mut buf[..wanted], at)?;
        if got == 0 {
            break;
        }
        if let Some(i) = buf[..got].iter().rposition(|&b| b != 0) {
            last = at + i as u64 + 1;
        }
        at += got as u64;
    }
    Ok(last)
}
