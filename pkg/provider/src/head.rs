//! Heads of HTTP/1.1 messages: requests as they are written, answers as they are read (RFC 9112).

use crate::error::BoxError;
use crate::framing::Framing;
use bytes::{Buf, Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, Version};
use httparse::Status;
use std::io::Write as _;

/// Fields of a head, at most.
const FIELDS: usize = 100;

/// The head of an answer.
pub(crate) struct Parsed {
    pub(crate) response: Response<()>,
    pub(crate) framing: Framing,
    /// Whether the connection may carry another request.
    pub(crate) keeps: bool,
}

/// A request's head, with the length of its body.
pub(crate) fn written(request: &Request<Bytes>) -> Bytes {
    let mut out = Vec::with_capacity(128 + 48 * request.headers().len());
    write!(out, "{} {} HTTP/1.1\r\n", request.method(), request.uri()).expect("memory takes it");
    for (name, value) in request.headers() {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    if !request.body().is_empty() {
        write!(out, "content-length: {}\r\n", request.body().len()).expect("memory takes it");
    }
    out.extend_from_slice(b"\r\n");
    out.into()
}

/// Takes the head of an answer off what `came`, and those of interim answers before it; none until all of it is there.
pub(crate) fn parse(came: &mut BytesMut) -> Result<Option<Parsed>, BoxError> {
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut head = httparse::Response::new(&mut fields);
        let Status::Complete(length) = head.parse(came)? else { return Ok(None) };
        let status = StatusCode::from_u16(head.code.unwrap_or_default())?;
        if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
            came.advance(length);
            continue;
        }
        let mut response = Response::new(());
        *response.status_mut() = status;
        *response.version_mut() = if head.version == Some(1) { Version::HTTP_11 } else { Version::HTTP_10 };
        // A copy: values that are slices of a read buffer would keep it for as long as a stream is open.
        let copy = Bytes::copy_from_slice(&came[..length]);
        let start = came.as_ptr() as usize;
        response.headers_mut().reserve(head.headers.len());
        for field in head.headers.iter() {
            let from = field.value.as_ptr() as usize - start;
            let value = HeaderValue::from_maybe_shared(copy.slice(from..from + field.value.len()))?;
            response.headers_mut().append(HeaderName::from_bytes(field.name.as_bytes())?, value);
        }
        came.advance(length);
        let framing = framing(&response)?;
        let keeps = status != StatusCode::SWITCHING_PROTOCOLS && keeps(&response);
        return Ok(Some(Parsed { response, framing, keeps }));
    }
}

/// How the body is told from what follows it (RFC 9112 §6.3).
fn framing(response: &Response<()>) -> Result<Framing, BoxError> {
    let (status, headers) = (response.status(), response.headers());
    if status.is_informational() || matches!(status, StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED) {
        return Ok(Framing::Length(0));
    }
    if headers.contains_key(TRANSFER_ENCODING) {
        if response.version() == Version::HTTP_10 {
            return Err("an answer in HTTP/1.0 with Transfer-Encoding".into());
        }
        let last = words(headers, &TRANSFER_ENCODING).last();
        let chunked = last.is_some_and(|coding| coding.eq_ignore_ascii_case(b"chunked"));
        return Ok(if chunked { Framing::chunked() } else { Framing::UntilClose });
    }
    if !headers.contains_key(CONTENT_LENGTH) {
        return Ok(Framing::UntilClose);
    }
    let mut lengths = words(headers, &CONTENT_LENGTH).map(length);
    let first = lengths.next().flatten().ok_or("a Content-Length that is no number")?;
    let agree = lengths.all(|length| length == Some(first));
    if agree { Ok(Framing::Length(first)) } else { Err("several values of Content-Length".into()) }
}

fn keeps(response: &Response<()>) -> bool {
    let headers = response.headers();
    let says = |word: &[u8]| words(headers, &CONNECTION).any(|said| said.eq_ignore_ascii_case(word));
    // Somebody on the way may have gone by the length: what stands behind may not be ours (RFC 9112 §6.3).
    let two_ends = headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH);
    !two_ends && !says(b"close") && (response.version() == Version::HTTP_11 || says(b"keep-alive"))
}

/// The members of a list that may stand in several fields (RFC 9110 §5.6.1).
fn words<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'h [u8]> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

fn length(digits: &[u8]) -> Option<u64> {
    let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| all)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Option<Parsed>, BoxError> {
        parse(&mut BytesMut::from(text))
    }

    fn framed(fields: &str) -> Result<(Framing, bool), String> {
        let parsed = parsed(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map_err(|error| error.to_string())?;
        let parsed = parsed.expect("a whole head");
        Ok((parsed.framing, parsed.keeps))
    }

    #[test]
    fn a_request_is_written_with_the_length_of_its_body_and_without_one_where_it_has_none() {
        let request = |body: &'static str| {
            let request = Request::post("/v1/x?y=1").header("host", "h").header("x-a", "b");
            written(&request.body(Bytes::from(body)).expect("a request"))
        };
        assert_eq!(request("four"), "POST /v1/x?y=1 HTTP/1.1\r\nhost: h\r\nx-a: b\r\ncontent-length: 4\r\n\r\n");
        assert_eq!(request(""), "POST /v1/x?y=1 HTTP/1.1\r\nhost: h\r\nx-a: b\r\n\r\n");
    }

    #[test]
    fn a_head_is_read_when_all_of_it_is_there_and_no_byte_behind_it_is_taken() {
        let text = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 429 Slow\r\nX-A: 1\r\nx-a: 2\r\ncontent-length: 2\r\n\r\nhi";
        let end = text.len() - 2;
        for cut in 0..end {
            assert!(parsed(&text[..cut]).expect("nothing wrong so far").is_none(), "{cut}");
        }
        let mut came = BytesMut::from(text);
        let head = parse(&mut came).expect("a good head").expect("a whole head");
        assert_eq!((head.response.status().as_u16(), head.framing, head.keeps), (429, Framing::Length(2), true));
        assert_eq!(head.response.headers().get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(came, "hi");
    }

    #[test]
    fn values_are_no_slices_of_what_came() {
        let mut came = BytesMut::from("HTTP/1.1 200 OK\r\nx-a: value\r\n\r\nbody");
        let buffer = came.as_ptr_range();
        let head = parse(&mut came).expect("a good head").expect("a whole head");
        assert!(!buffer.contains(&head.response.headers()["x-a"].as_bytes().as_ptr()));
    }

    #[test]
    fn how_a_body_ends_follows_rfc_9112() {
        let until = (Framing::UntilClose, true);
        assert_eq!(framed(""), Ok(until));
        assert_eq!(framed("content-length: 5\r\ncontent-length: 5, 5\r\n"), Ok((Framing::Length(5), true)));
        assert_eq!(
            framed("content-length: 5\r\ntransfer-encoding: gzip, Chunked\r\n"),
            Ok((Framing::chunked(), false))
        );
        assert_eq!(framed("transfer-encoding: gzip, Chunked\r\n"), Ok((Framing::chunked(), true)));
        assert_eq!(framed("transfer-encoding: chunked, gzip\r\n"), Ok(until));
        for bad in ["5, 6", "", "-1", "+1", "0x5", "5 5", "99999999999999999999"] {
            assert!(framed(&format!("content-length: {bad}\r\n")).is_err(), "{bad}");
        }
        assert!(parsed("HTTP/1.0 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").is_err());
        let empty = parsed("HTTP/1.1 204 No Content\r\ncontent-length: 7\r\n\r\n").expect("good").expect("whole");
        assert_eq!(empty.framing, Framing::Length(0));
    }

    #[test]
    fn a_connection_is_kept_unless_either_version_or_word_says_otherwise() {
        let kept = |head: &str| parsed(&format!("{head}\r\n\r\n")).expect("good").expect("whole").keeps;
        assert!(kept("HTTP/1.1 200 OK") && !kept("HTTP/1.0 200 OK"));
        assert!(kept("HTTP/1.0 200 OK\r\nconnection: Keep-Alive"));
        assert!(!kept("HTTP/1.1 200 OK\r\nconnection: x, Close\r\nconnection: keep-alive"));
        assert!(!kept("HTTP/1.1 101 Switching Protocols\r\nupgrade: x"));
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for bad in
            ["SSH-2.0-x\r\n", "HTTP/2 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\na b: c\r\n\r\n", "HTTP/1.1 20 OK\r\n\r\n"]
        {
            assert!(parsed(bad).is_err(), "{bad}");
        }
        let fields = |count: usize| "a: b\r\n".repeat(count);
        assert!(framed(&fields(FIELDS)).is_ok() && framed(&fields(FIELDS + 1)).is_err());
    }
}
