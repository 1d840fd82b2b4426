//! An HTTP/1.1 response parser (RFC 9112 §§4, 6, 7) that is fed whatever a read brought.
//!
//! The generator shares its cores with what it measures, so it reads responses with as little work as it can and with
//! no allocation once its buffers have grown. It does no I/O.

const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The server broke the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed response: {0}")]
pub(crate) struct Malformed(&'static str);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Head,
    Length(u64),
    ChunkSize { size: u64, digits: u8, extension: bool },
    ChunkData(u64),
    ChunkEnd,
    Trailers,
    UntilClose,
    Done,
}

const NEXT_CHUNK: State = State::ChunkSize { size: 0, digits: 0, extension: false };

/// One response, complete once [`Parser::is_done`].
#[derive(Debug)]
pub(crate) struct Parser {
    state: State,
    head: Vec<u8>,
    trailers: Vec<u8>,
    body: Vec<u8>,
    status: u16,
    close: bool,
}

impl Parser {
    pub(crate) fn new() -> Self {
        Self { state: State::Head, head: Vec::new(), trailers: Vec::new(), body: Vec::new(), status: 0, close: false }
    }

    /// Forgets the response and keeps the memory.
    pub(crate) fn clear(&mut self) {
        (self.state, self.status, self.close) = (State::Head, 0, false);
        self.head.clear();
        self.trailers.clear();
        self.body.clear();
    }

    /// A response that another protocol's library has read.
    pub(crate) fn fill(&mut self, status: u16, head: impl FnOnce(&mut Vec<u8>)) {
        self.clear();
        self.status = status;
        head(&mut self.head);
        self.state = State::UntilClose;
    }

    pub(crate) fn push_body(&mut self, data: &[u8]) {
        self.body.extend_from_slice(data);
    }

    pub(crate) fn push_trailer(&mut self, name: &str, value: &[u8]) {
        line(&mut self.trailers, name, value);
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Nothing of a response has come yet.
    pub(crate) fn is_untouched(&self) -> bool {
        self.state == State::Head && self.head.is_empty()
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// The connection must not be used again.
    pub(crate) fn must_close(&self) -> bool {
        self.close
    }

    /// A header, or else a trailer, by its lower-case name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.head, name).or_else(|| find(&self.trailers, name))
    }

    /// Takes what a read brought and tells how much of it belongs to this response.
    pub(crate) fn feed(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        let mut at = 0;
        while at < input.len() && self.state != State::Done {
            at += self.step(&input[at..])?;
        }
        Ok(at)
    }

    /// The connection has ended; whether the response is complete by that.
    pub(crate) fn end(&mut self) -> bool {
        if self.state == State::UntilClose {
            self.state = State::Done;
        }
        self.is_done()
    }

    fn step(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        match self.state {
            State::Head => self.head(input),
            State::Length(left) => Ok(self.take_body(input, left, State::Done, State::Length)),
            State::ChunkData(left) => Ok(self.take_body(input, left, State::ChunkEnd, State::ChunkData)),
            State::ChunkSize { .. } => self.chunk_size(input[0]).map(|()| 1),
            State::ChunkEnd => match input[0] {
                b'\r' => Ok(1),
                b'\n' => {
                    self.state = NEXT_CHUNK;
                    Ok(1)
                }
                _ => Err(Malformed("a chunk is longer than its size")),
            },
            State::Trailers => self.trailer(input[0]).map(|()| 1),
            State::UntilClose => {
                self.body.extend_from_slice(input);
                Ok(input.len())
            }
            State::Done => Ok(0),
        }
    }

    fn take_body(&mut self, input: &[u8], left: u64, after: State, more: fn(u64) -> State) -> usize {
        let take = usize::try_from(left).map_or(input.len(), |left| left.min(input.len()));
        self.body.extend_from_slice(&input[..take]);
        let left = left - take as u64;
        self.state = if left == 0 { after } else { more(left) };
        take
    }

    fn head(&mut self, input: &[u8]) -> Result<usize, Malformed> {
        let before = self.head.len();
        self.head.extend_from_slice(input);
        let from = before.saturating_sub(3); // the blank line may straddle two reads
        let Some(found) = memchr::memmem::find(&self.head[from..], b"\r\n\r\n") else {
            return if self.head.len() > MAX_HEAD_BYTES {
                Err(Malformed("no end of the head"))
            } else {
                Ok(input.len())
            };
        };
        self.head.truncate(from + found + 4);
        let used = self.head.len() - before;
        self.state = self.judge_head()?;
        Ok(used)
    }

    fn judge_head(&mut self) -> Result<State, Malformed> {
        let status =
            self.head.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5)).ok_or(Malformed("status line"))?;
        self.status = number(status, 10).and_then(|n| u16::try_from(n).ok()).ok_or(Malformed("status code"))?;
        if self.status / 100 == 1 {
            self.head.clear(); // an interim response; the real one follows
            return Ok(State::Head);
        }
        self.close = self.header("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        if self.header("transfer-encoding").is_some_and(|value| value.eq_ignore_ascii_case("chunked")) {
            return Ok(NEXT_CHUNK);
        }
        let length =
            self.header("content-length").map(|value| number(value.as_bytes(), 10).ok_or(Malformed("content-length")));
        Ok(match length.transpose()? {
            Some(0) => State::Done,
            Some(length) => State::Length(length),
            None if matches!(self.status, 204 | 304) => State::Done,
            None => {
                self.close = true;
                State::UntilClose
            }
        })
    }

    fn chunk_size(&mut self, byte: u8) -> Result<(), Malformed> {
        let State::ChunkSize { size, digits, extension } = &mut self.state else { return Ok(()) };
        match byte {
            b'\n' if *digits == 0 => return Err(Malformed("chunk size")),
            b'\n' => self.state = if *size == 0 { State::Trailers } else { State::ChunkData(*size) },
            b'\r' => {}
            _ if *extension => {}
            b';' | b' ' | b'\t' => *extension = true,
            _ => {
                let digit = char::from(byte).to_digit(16).ok_or(Malformed("chunk size"))?;
                *digits += 1;
                if *digits > 15 {
                    return Err(Malformed("chunk size"));
                }
                *size = *size * 16 + u64::from(digit);
            }
        }
        Ok(())
    }

    fn trailer(&mut self, byte: u8) -> Result<(), Malformed> {
        self.trailers.push(byte);
        if self.trailers == b"\r\n" || self.trailers.ends_with(b"\r\n\r\n") {
            self.state = State::Done;
        }
        if self.trailers.len() > MAX_HEAD_BYTES { Err(Malformed("no end of the trailers")) } else { Ok(()) }
    }
}

/// Appends a header line as it stands on the wire.
pub(crate) fn line(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn find<'a>(lines: &'a [u8], name: &str) -> Option<&'a str> {
    lines.split(|byte| *byte == b'\n').find_map(|line| {
        let (key, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":").filter(|_| key.eq_ignore_ascii_case(name.as_bytes()))?;
        std::str::from_utf8(value).ok().map(str::trim)
    })
}

fn number(digits: &[u8], radix: u32) -> Option<u64> {
    let text = std::str::from_utf8(digits).ok().filter(|text| text.bytes().all(|b| b.is_ascii_digit()))?;
    u64::from_str_radix(text, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response as a server may write it.
    #[derive(Clone, Debug)]
    enum Framing {
        Length,
        Chunked { sizes: Vec<usize>, extension: bool, trailer: bool },
    }

    fn framing() -> impl Strategy<Value = Framing> {
        let chunked = (prop::collection::vec(1usize..40, 1..8), any::<bool>(), any::<bool>());
        prop_oneof![
            Just(Framing::Length),
            chunked.prop_map(|(sizes, extension, trailer)| Framing::Chunked { sizes, extension, trailer }),
        ]
    }

    fn response(body: &[u8], framing: &Framing) -> Vec<u8> {
        let mut out = b"HTTP/1.1 200 OK\r\nX-Cache: MISS\r\n".to_vec();
        let Framing::Chunked { sizes, extension, trailer } = framing else {
            out.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
            out.extend_from_slice(body);
            return out;
        };
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
        let (mut rest, mut sizes) = (body, sizes.iter().cycle());
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(*sizes.next().expect("a cycle has no end")));
            let extension = if *extension { ";a=b" } else { "" };
            out.extend_from_slice(format!("{:X}{extension}\r\n", now.len()).as_bytes());
            out.extend_from_slice(now);
            out.extend_from_slice(b"\r\n");
            rest = later;
        }
        out.extend_from_slice(if *trailer { b"0\r\nlineage-receipt: v1;x\r\n\r\n" } else { b"0\r\n\r\n" });
        out
    }

    proptest! {
        #[test]
        fn a_response_is_read_alike_wherever_its_bytes_are_split(
            body in prop::collection::vec(any::<u8>(), 0..200), framing in framing(), next in any::<[u8; 3]>()
        ) {
            let mut bytes = response(&body, &framing);
            let length = bytes.len();
            bytes.extend_from_slice(&next); // of another response
            let mut parser = Parser::new();
            for split in 0..=length {
                parser.clear();
                let first = parser.feed(&bytes[..split]).expect("well-formed");
                prop_assert_eq!(first, split);
                prop_assert_eq!(parser.is_done(), split == length);
                let second = parser.feed(&bytes[split..]).expect("well-formed");
                prop_assert_eq!(first + second, length);
                prop_assert!(parser.is_done());
                prop_assert_eq!(parser.body(), &body[..]);
                prop_assert_eq!((parser.status(), parser.header("x-cache")), (200, Some("MISS")));
                let trailer = matches!(framing, Framing::Chunked { trailer: true, .. });
                prop_assert_eq!(parser.header("lineage-receipt"), trailer.then_some("v1;x"));
            }
        }

        #[test]
        fn a_response_may_come_byte_by_byte(body in prop::collection::vec(any::<u8>(), 0..60), framing in framing()) {
            let mut parser = Parser::new();
            for byte in response(&body, &framing) {
                prop_assert_eq!(parser.feed(&[byte]), Ok(1));
            }
            prop_assert!(parser.is_done());
            prop_assert_eq!(parser.body(), &body[..]);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), chunked in any::<bool>()) {
            let mut parser = Parser::new();
            if chunked {
                parser.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").expect("well-formed");
            }
            parser.feed(&bytes).ok();
        }
    }

    #[test]
    fn an_interim_response_is_skipped_and_an_endless_one_ends_with_the_connection() {
        let mut parser = Parser::new();
        let bytes = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 502 Bad Gateway\r\n\r\nrest";
        assert_eq!(parser.feed(bytes), Ok(bytes.len()));
        assert_eq!((parser.status(), parser.is_done(), parser.must_close()), (502, false, true));
        assert!(parser.end());
        assert_eq!(parser.body(), b"rest");
    }

    #[test]
    fn a_cut_response_is_not_complete() {
        for cut in ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabcd"] {
            let mut parser = Parser::new();
            parser.feed(cut.as_bytes()).expect("well-formed so far");
            assert!(!parser.end());
        }
    }

    #[test]
    fn broken_framing_is_an_error() {
        for bad in [
            "SSH-2.0-server with a long greeting\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nabcd",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1111111111111111\r\n",
        ] {
            assert!(Parser::new().feed(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }
}
