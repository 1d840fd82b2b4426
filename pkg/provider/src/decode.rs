//! Undoes the Content-Encoding (RFC 9110 §8.4) that a provider used although it was asked for none.
//!
//! A stream's event must leave as soon as its bytes can be decoded, so each piece that comes is decoded as far as it goes.
//! A little input can stand for any amount of output: a step makes a bounded amount, and an answer that grows a
//! thousandfold is no answer of a model.

use crate::error::{BoxError, UpstreamError};
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use bytes::{Buf, Bytes};
use flate2::write::MultiGzDecoder;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, HeaderName, TRANSFER_ENCODING};
use std::io::Write;

/// Output of one step, about.
const STEP: usize = 64 * 1024;
/// Growth is not looked at below so many bytes of output: a short answer of repeated words may grow much.
const GROWTH_FREE: u64 = 1 << 20;
/// How many times larger than its input an answer may be.
const GROWTH_MAX: u64 = 1000;

/// Decodes one body.
pub(crate) struct Decoder {
    coding: Coding,
    /// What has come and is not decoded yet.
    input: Bytes,
    taken: u64,
    given: u64,
}

enum Coding {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Brotli(Box<Brotli>),
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    total: usize,
    complete: bool,
}

impl Decoder {
    /// For an answer with these headers; none if it is not encoded.
    ///
    /// # Errors
    /// [`UpstreamError::UnsupportedEncoding`]: neither gzip nor brotli, or several encodings; or one for the way here, which
    /// HTTP/1.1 takes off itself if it is `chunked` alone.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Option<Self>, UpstreamError> {
        let unread = |names: &[String]| Err(UpstreamError::UnsupportedEncoding { encoding: names.join(", ") });
        let on_the_way = codings(headers, TRANSFER_ENCODING);
        if on_the_way.iter().any(|name| name != "chunked") {
            return unread(&on_the_way);
        }
        let names = codings(headers, CONTENT_ENCODING);
        let coding = match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => return Ok(None),
            ["gzip" | "x-gzip"] => Coding::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            ["br"] => Coding::Brotli(Box::new(Brotli::new())),
            _ => return unread(&names),
        };
        Ok(Some(Self { coding, input: Bytes::new(), taken: 0, given: 0 }))
    }

    /// Takes what came, after [`Self::step`] has asked for more.
    pub(crate) fn feed(&mut self, bytes: Bytes) {
        self.input = bytes;
    }

    /// What can be decoded now, a bounded part at a time; none once more input is needed.
    ///
    /// # Errors
    /// The input is not what its encoding says, or grows beyond reason.
    pub(crate) fn step(&mut self) -> Result<Option<Bytes>, BoxError> {
        let before = self.input.len();
        let out = match &mut self.coding {
            _ if before == 0 => return Ok(None),
            Coding::Gzip(gzip) => gunzip(gzip, &mut self.input)?,
            Coding::Brotli(brotli) => brotli.decode(&mut self.input)?,
        };
        self.taken += (before - self.input.len()) as u64;
        self.given += out.len() as u64;
        if self.given > GROWTH_FREE && self.given / GROWTH_MAX > self.taken {
            return Err(format!("{} bytes became more than {} bytes", self.taken, self.given).into());
        }
        Ok(Some(Bytes::from(out)))
    }

    /// Whether the encoding's own end has come. An empty body has none and needs none.
    pub(crate) fn is_whole(&mut self) -> bool {
        match &mut self.coding {
            _ if self.taken == 0 => true,
            Coding::Gzip(gzip) => gzip.try_finish().is_ok(),
            Coding::Brotli(brotli) => brotli.complete,
        }
    }
}

/// The names in a list of codings, in order, but for those that change nothing.
fn codings(headers: &HeaderMap, list: HeaderName) -> Vec<String> {
    let lines = headers.get_all(list).iter().map(|line| String::from_utf8_lossy(line.as_bytes()).to_ascii_lowercase());
    let names = lines.flat_map(|line| line.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>());
    names.filter(|name| !name.is_empty() && name != "identity").collect()
}

fn gunzip(gzip: &mut MultiGzDecoder<Vec<u8>>, input: &mut Bytes) -> Result<Vec<u8>, BoxError> {
    while !input.is_empty() && gzip.get_ref().len() < STEP {
        match gzip.write(input)? {
            0 => return Err("the gzip stream goes nowhere".into()),
            taken => input.advance(taken),
        }
    }
    if input.is_empty() {
        gzip.flush()?;
    }
    Ok(std::mem::take(gzip.get_mut()))
}

impl Brotli {
    fn new() -> Self {
        let memory = StandardAlloc::default;
        // Strict: without the large windows that no HTTP message may use (RFC 7932 §9.1).
        Self { state: BrotliState::new_strict(memory(), memory(), memory()), total: 0, complete: false }
    }

    fn decode(&mut self, input: &mut Bytes) -> Result<Vec<u8>, BoxError> {
        let (mut out, mut scratch) = (Vec::new(), [0; 8192]);
        while out.len() < STEP {
            if self.complete {
                return if input.is_empty() {
                    Ok(out)
                } else {
                    Err("something stands behind the brotli stream".into())
                };
            }
            let (mut left, mut taken, mut room, mut made) = (input.len(), 0, scratch.len(), 0);
            let result = BrotliDecompressStream(
                &mut left,
                &mut taken,
                input,
                &mut room,
                &mut made,
                &mut scratch,
                &mut self.total,
                &mut self.state,
            );
            input.advance(taken);
            out.extend_from_slice(&scratch[..made]);
            match result {
                BrotliResult::ResultSuccess => self.complete = true,
                BrotliResult::NeedsMoreInput => break,
                BrotliResult::NeedsMoreOutput => {}
                BrotliResult::ResultFailure => return Err("a corrupt brotli stream".into()),
            }
        }
        Ok(out)
    }
}
