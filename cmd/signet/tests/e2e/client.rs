//! A caller that sees bytes: raw HTTP/1.1 over a socket of its own, so that what is checked is what was on the wire.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer of these tests takes longer, so that a hang is a failure and not a hang.
const PATIENCE: Duration = Duration::from_mins(1);

type Fields = Vec<(String, String)>;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: Fields,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Fields,
    /// Whether the body ended as its framing says it must.
    pub(crate) ended_well: bool,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        find(&self.headers, name)
    }

    /// A header that must be there.
    #[track_caller]
    pub(crate) fn need(&self, name: &str) -> &str {
        self.header(name).unwrap_or_else(|| panic!("no {name} on {} {:?}: {}", self.status, self.headers, self.text()))
    }

    pub(crate) fn trailer(&self, name: &str) -> Option<&str> {
        find(&self.trailers, name)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e} in {} {:?}", self.status, self.text()))
    }

    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.need("lineage-id").to_owned()
    }

    /// Its status, which must be this one, and its `X-Cache`.
    #[track_caller]
    pub(crate) fn is(&self, status: u16, x_cache: &str) {
        let (seen, told) = (self.status, self.header("x-cache"));
        assert_eq!((seen, told), (status, Some(x_cache)), "{:?}: {}", self.headers, self.text());
    }

    /// That it is a refusal in OpenAI's shape with this status; its `error` object.
    #[track_caller]
    pub(crate) fn refusal(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:?}: {}", self.headers, self.text());
        assert_eq!(self.need("content-type"), "application/json");
        let error = self.json()["error"].clone();
        for key in ["message", "type", "param", "code"] {
            assert!(error.get(key).is_some(), "no {key} in {error}");
        }
        assert!(error["message"].as_str().is_some_and(|text| !text.is_empty()));
        error
    }

    /// The text of a JSON answer's first choice.
    #[track_caller]
    pub(crate) fn said(&self) -> String {
        self.json()["choices"][0]["message"]["content"].as_str().expect("an answer with text").to_owned()
    }

    /// The events of a streamed answer, `[DONE]` left out, which must be the last.
    #[track_caller]
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = String::from_utf8(self.body.clone()).expect("events are UTF-8");
        let data: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        let (last, events) = data.split_last().expect("a stream has events");
        assert_eq!(*last, "[DONE]", "{text}");
        events.iter().map(|event| serde_json::from_str(event).expect("an event is JSON")).collect()
    }

    /// What a streamed answer's pieces say, put together.
    #[track_caller]
    pub(crate) fn streamed(&self) -> String {
        self.events().iter().filter_map(|event| event["choices"][0]["delta"]["content"].as_str()).collect()
    }
}

fn find<'a>(fields: &'a Fields, name: &str) -> Option<&'a str> {
    fields.iter().find(|(held, _)| held.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// One connection.
pub(crate) struct Conn {
    reader: BufReader<TcpStream>,
    head_method: bool,
}

/// What stands before a body.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) headers: Fields,
}

impl Conn {
    #[track_caller]
    pub(crate) fn open(to: SocketAddr) -> Self {
        let stream = TcpStream::connect(to).expect("the gateway listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a socket takes a timeout");
        stream.set_nodelay(true).expect("a socket takes an option");
        Self { reader: BufReader::new(stream), head_method: false }
    }

    /// Sends bytes; whether the other side took them.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reader.get_mut().write_all(bytes)
    }

    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) {
        self.head_method = method == "HEAD";
        self.write(&request(method, path, headers, body)).expect("the gateway reads");
    }

    pub(crate) fn head(&mut self) -> io::Result<Head> {
        let first = self.line()?;
        let status = first.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("not a status line: {first:?}")))?;
        let head = Head { status, headers: self.fields()? };
        if (100..200).contains(&status) { self.head() } else { Ok(head) }
    }

    fn fields(&mut self) -> io::Result<Fields> {
        let mut fields = Fields::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let (name, value) =
                line.split_once(':').ok_or_else(|| io::Error::other(format!("not a field: {line:?}")))?;
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.reader.read_line(&mut line)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(line.trim_end_matches(['\r', '\n']).to_owned())
    }

    /// The next piece of a chunked body; none at its end.
    pub(crate) fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default(), 16);
        let size = size.map_err(|_| io::Error::other(format!("not a chunk size: {line:?}")))?;
        if size == 0 {
            return Ok(None);
        }
        let mut piece = vec![0; size + 2];
        self.reader.read_exact(&mut piece)?;
        piece.truncate(size);
        Ok(Some(piece))
    }

    /// The answer to what was sent, to its end.
    #[track_caller]
    pub(crate) fn answer(&mut self) -> Answer {
        let head = self.head().expect("an answer's head");
        self.rest(head)
    }

    /// The body and trailers behind a head.
    pub(crate) fn rest(&mut self, head: Head) -> Answer {
        let Head { status, headers } = head;
        let mut answer = Answer { status, headers, body: Vec::new(), trailers: Vec::new(), ended_well: true };
        if self.head_method || status == 204 || status == 304 {
            return answer;
        }
        if answer.header("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
            answer.ended_well = self.chunks(&mut answer.body).and_then(|()| self.fields()).is_ok_and(|trailers| {
                answer.trailers = trailers;
                true
            });
            return answer;
        }
        let length = answer.header("content-length").and_then(|length| length.parse::<u64>().ok());
        let taken = match length {
            Some(length) => self.reader.by_ref().take(length).read_to_end(&mut answer.body),
            None => self.reader.read_to_end(&mut answer.body),
        };
        answer.ended_well = taken.is_ok() && length.is_none_or(|length| length == answer.body.len() as u64);
        answer
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        while let Some(piece) = self.chunk()? {
            body.extend_from_slice(&piece);
        }
        Ok(())
    }
}

/// A request's bytes. A body has its length announced unless a header says how it comes.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut lines = vec![format!("{method} {path} HTTP/1.1")];
    let told = |name: &str| headers.iter().any(|(held, _)| held.eq_ignore_ascii_case(name));
    if !told("host") {
        lines.push("Host: 127.0.0.1".to_owned());
    }
    if !told("transfer-encoding") && !told("content-length") {
        lines.push(format!("Content-Length: {}", body.len()));
    }
    lines.extend(headers.iter().map(|(name, value)| format!("{name}: {value}")));
    [lines.join("\r\n").as_bytes(), b"\r\n\r\n", body].concat()
}

/// One request on a connection of its own.
#[track_caller]
pub(crate) fn ask(to: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let mut conn = Conn::open(to);
    conn.send(method, path, headers, body);
    conn.answer()
}

/// The signed payload of a DSSE envelope.
#[track_caller]
pub(crate) fn payload(envelope: &Value) -> Value {
    let text = envelope["payload"].as_str().expect("an envelope has a payload");
    serde_json::from_slice(&STANDARD.decode(text).expect("base64")).expect("a payload is JSON")
}
