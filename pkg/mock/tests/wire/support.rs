//! A client that sees bytes, so that what is checked is what was on the wire.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use signet_mock::{Config, MockUpstream};

pub(crate) const PROMPT: &str = "Why do tides come twice a day?";

pub(crate) fn mock() -> MockUpstream {
    MockUpstream::start(Config::default()).expect("a free port")
}

pub(crate) fn chat(more: &str) -> String {
    format!(r#"{{"model":"m","messages":[{{"role":"user","content":"{PROMPT}"}}]{more}}}"#)
}

/// Sends one request on a connection of its own and leaves the answer unread.
pub(crate) fn send(mock: &MockUpstream, request_line: &str, headers: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(mock.addr()).expect("the mock listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket takes a timeout");
    write(&mut stream, request_line, headers, body);
    stream
}

pub(crate) fn write(stream: &mut TcpStream, request_line: &str, headers: &str, body: &str) {
    let length = body.len();
    let head = format!("{request_line} HTTP/1.1\r\nHost: mock\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(format!("{head}{body}").as_bytes()).expect("the mock reads");
}

pub(crate) fn ask(mock: &MockUpstream, headers: &str, body: &str) -> TcpStream {
    send(mock, "POST /v1/chat/completions", &format!("Connection: close\r\n{headers}"), body)
}

/// Everything up to the end of the connection, and how it ended.
pub(crate) fn drain(stream: &mut TcpStream) -> (Vec<u8>, io::Result<()>) {
    let mut all = Vec::new();
    let end = stream.read_to_end(&mut all).map(drop);
    (all, end)
}

pub(crate) fn text(stream: &mut TcpStream) -> String {
    let (all, end) = drain(stream);
    end.expect("a clean close");
    String::from_utf8(all).expect("UTF-8")
}

/// The body of a chunked or plain answer, which must be complete.
pub(crate) fn body(answer: &[u8]) -> Vec<u8> {
    let split = answer.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    let (head, mut rest) = answer.split_at(split);
    if !String::from_utf8_lossy(head).to_lowercase().contains("transfer-encoding: chunked") {
        return rest.to_vec();
    }
    let mut out = Vec::new();
    loop {
        let line = rest.windows(2).position(|w| w == b"\r\n").expect("a chunk size line");
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).expect("hex"), 16).expect("hex");
        if size == 0 {
            return out;
        }
        out.extend_from_slice(&rest[line + 2..line + 2 + size]);
        rest = &rest[line + 4 + size..];
    }
}

pub(crate) fn json(answer: &str) -> serde_json::Value {
    serde_json::from_slice(&body(answer.as_bytes())).expect("a JSON body")
}
