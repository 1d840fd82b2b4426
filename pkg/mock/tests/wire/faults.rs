//! Every fault is on the wire what its name says.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use crate::support::{PROMPT, ask, body, chat, drain, json, mock, send, text, write};
use signet_mock::{Behaviour, Fault, MockUpstream};

const STREAM: &str = ",\"stream\":true";

fn faulty(mock: &MockUpstream, fault: &str, more: &str) -> (Vec<u8>, std::io::Result<()>) {
    drain(&mut ask(mock, &format!("x-mock-fault: {fault}\r\n"), &chat(more)))
}

fn events(bytes: &[u8]) -> usize {
    bytes.windows(6).filter(|w| w == b"data: ").count()
}

fn cut_off(answer: &[u8]) -> bool {
    !answer.ends_with(b"0\r\n\r\n")
}

async fn within<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), what).await.expect("the mock notices in time")
}

#[test]
fn a_connection_closed_before_the_head_gives_no_byte() {
    let (answer, end) = faulty(&mock(), "close-before-head", "");
    assert!(answer.is_empty());
    end.expect("FIN, not RST");
}

#[test]
fn a_reset_is_a_reset_and_not_a_close() {
    let (answer, end) = faulty(&mock(), "reset", "");
    assert!(answer.is_empty());
    assert_eq!(end.expect_err("RST").kind(), ErrorKind::ConnectionReset);
}

#[test]
fn a_cut_stream_ends_after_its_events_without_a_terminator() {
    let mock = mock();
    let (answer, end) = faulty(&mock, "cut-after=40", STREAM);
    assert_eq!(events(&answer), 40);
    assert!(cut_off(&answer));
    end.expect("FIN, not RST");
    assert_eq!((mock.counts().finished, mock.counts().cancelled), (0, 0), "the mock itself broke off");
}

#[test]
fn a_cut_json_answer_is_shorter_than_it_announced() {
    let (answer, _) = faulty(&mock(), "cut-after=100", "");
    assert_eq!(body(&answer).len(), 100);
}

#[test]
fn a_stream_can_be_reset_in_the_middle() {
    let mock = mock();
    let (answer, end) = drain(&mut ask(&mock, "x-mock-fault: rst-after=2\r\nx-mock-chunk-ms: 50\r\n", &chat(STREAM)));
    assert_eq!(end.expect_err("RST").kind(), ErrorKind::ConnectionReset);
    assert_eq!(events(&answer), 2, "what came before the reset was read before it");
}

#[test]
fn an_error_event_comes_in_band_and_the_stream_then_ends() {
    let (answer, end) = faulty(&mock(), "error-event=3", STREAM);
    end.expect("a clean close");
    let body = String::from_utf8(body(&answer)).expect("UTF-8");
    assert_eq!(events(body.as_bytes()), 4);
    assert!(body.contains("\"error\"") && !body.contains("[DONE]"));
}

#[test]
fn the_end_mark_can_be_missing_from_a_clean_end() {
    let (answer, _) = faulty(&mock(), "no-done", STREAM);
    let body = String::from_utf8(body(&answer)).expect("UTF-8");
    assert!(body.contains("\"finish_reason\":\"stop\"") && !body.contains("[DONE]"));
}

#[test]
fn an_answer_cut_by_length_says_so_in_both_forms() {
    for more in ["", STREAM] {
        let (answer, _) = faulty(&mock(), "length", more);
        assert!(String::from_utf8(body(&answer)).expect("UTF-8").contains("\"finish_reason\":\"length\""));
    }
}

#[test]
fn split_writes_are_still_the_same_answer() {
    let (answer, _) = faulty(&mock(), "split-utf8", STREAM);
    let streamed = String::from_utf8(body(&answer)).expect("whole again");
    let said: String = streamed
        .split("\r\n\r\n")
        .filter_map(|event| serde_json::from_str::<serde_json::Value>(event.strip_prefix("data: ")?).ok())
        .filter_map(|event| event["choices"][0]["delta"]["content"].as_str().map(str::to_owned))
        .collect();
    assert!(said.ends_with("Grüße, 你好 🌍."));
    assert!(answer.windows(4).any(|w| w == [0xE4, b'\r', b'\n', b'2']), "a chunk ends inside 你");
    assert!(answer.windows(5).any(|w| w == b"\r\r\n1\r"), "a chunk ends between CR and LF");
    let whole = faulty(&mock(), "split-utf8", "").0;
    let whole: serde_json::Value = serde_json::from_slice(&body(&whole)).expect("JSON");
    assert_eq!(whole["choices"][0]["message"]["content"], said);
}

#[test]
fn gzip_is_sent_without_being_asked_for() {
    let plain = text(&mut ask(&mock(), "", &chat("")));
    let (answer, _) = faulty(&mock(), "gzip", "");
    assert!(String::from_utf8_lossy(&answer).contains("content-encoding: gzip"));
    let zipped = body(&answer);
    assert_eq!(zipped[..3], [0x1f, 0x8b, 8]);
    // One stored block: its data begins after 10 bytes of header and 5 of block.
    assert_eq!(zipped[15..zipped.len() - 13], *body(plain.as_bytes()));
}

#[test]
fn a_brotli_stream_is_the_plain_one_event_by_event() {
    let plain = body(&drain(&mut ask(&mock(), "x-mock-chunks: 4\r\n", &chat(STREAM))).0);
    let (answer, _) = drain(&mut ask(&mock(), "x-mock-chunks: 4\r\nx-mock-fault: brotli\r\n", &chat(STREAM)));
    assert!(String::from_utf8_lossy(&answer).contains("content-encoding: br\r\n"));
    let encoded = body(&answer);
    assert_eq!((encoded[0], encoded[encoded.len() - 1]), (0x0C, 0x03), "the window and the empty last block");
    let (mut decoded, mut rest) = (Vec::new(), &encoded[1..]);
    while rest.len() > 1 {
        let header = u32::from_le_bytes([rest[0], rest[1], rest[2], 0]);
        assert_eq!(header & 7, 0, "neither the last block nor one of another size class");
        let end = 3 + usize::try_from(((header >> 3) & 0xFFFF) + 1).expect("16 bits");
        decoded.extend_from_slice(&rest[3..end]);
        rest = &rest[end..];
    }
    assert_eq!(decoded, plain);
}

#[test]
fn an_encoded_stream_can_be_cut_between_its_events() {
    let asked = "x-mock-encoding: gzip\r\nx-mock-fault: cut-after=3\r\n";
    let (answer, _) = drain(&mut ask(&mock(), asked, &chat(STREAM)));
    assert!(cut_off(&answer));
    assert_eq!(events(&answer), 3);
    assert!(answer.ends_with(b"\n\n\r\n"), "the last event is whole");
}

#[test]
fn a_body_may_end_long_after_its_last_byte() {
    for more in ["", STREAM] {
        let mock = mock();
        let mut stream = ask(&mock, "x-mock-fault: late-close=300\r\n", &chat(more));
        let (mut got, mut part) = (Vec::new(), [0; 4096]);
        while !String::from_utf8_lossy(&got).contains(if more.is_empty() { "fp_mock\"}" } else { "[DONE]\n\n" }) {
            let n = stream.read(&mut part).expect("open");
            got.extend_from_slice(&part[..n]);
        }
        assert!(cut_off(&got), "the end of the body is still to come");
        assert_eq!(mock.counts().finished, 0);
        let (rest, end) = drain(&mut stream);
        end.expect("a clean close");
        assert!(rest.ends_with(b"0\r\n\r\n"));
        assert_eq!(mock.counts().finished, 1);
    }
}

#[test]
fn half_an_event_may_be_followed_by_the_rest() {
    let whole = body(&drain(&mut ask(&mock(), "", &chat(STREAM))).0);
    let asked = "x-mock-fault: half-event-after=2\r\nx-mock-pause-ms: 50\r\n";
    let (answer, _) = drain(&mut ask(&mock(), asked, &chat(STREAM)));
    assert_eq!(body(&answer), whole);
    let halves = answer.windows(2).filter(|w| w == b"\n\n").count();
    assert_eq!(halves, 75, "every event once");
    assert!(
        answer.split(|byte| *byte == b'\r').any(|chunk| chunk.starts_with(b"\ndata: ") && !chunk.ends_with(b"\n\n"))
    );
}

#[test]
fn the_head_may_come_long_before_the_first_byte() {
    for more in ["", STREAM] {
        let mock = mock();
        let mut stream = ask(&mock, "x-mock-first-byte-ms: 200\r\n", &chat(more));
        let mut part = [0; 4096];
        let n = stream.read(&mut part).expect("a head");
        assert!(part[..n].starts_with(b"HTTP/1.1 200") && part[..n].ends_with(b"\r\n\r\n"), "the head alone");
        assert!(!drain(&mut stream).0.is_empty());
    }
}

#[test]
fn headers_may_fail_the_first_tries_of_a_client_only() {
    let mock = mock();
    let failing = "x-mock-status: 529\r\nx-mock-retry-after: 0\r\nx-mock-times: 2\r\n";
    let status = |prompt| {
        let answer = text(&mut ask(&mock, failing, &chat("").replace(PROMPT, prompt)));
        (answer[9..12].to_owned(), answer.contains("retry-after: 0\r\n"))
    };
    let (failed, served) = (("529".to_owned(), true), ("200".to_owned(), false));
    assert_eq!([status("a"), status("a"), status("b"), status("a")], [failed.clone(), failed.clone(), failed, served]);
}

#[test]
fn a_chunk_with_null_choices_comes_second() {
    let (answer, _) = faulty(&mock(), "choices-null", STREAM);
    let body = String::from_utf8(body(&answer)).expect("UTF-8");
    assert!(body.split("\n\n").nth(1).is_some_and(|event| event.contains("\"choices\":null")));
}

#[tokio::test]
async fn a_client_that_leaves_a_hanging_request_is_seen_as_cancelled() {
    let mock = mock();
    let stream = ask(&mock, "x-mock-fault: hang\r\n", &chat(""));
    within(mock.counts_when(|c| c.requests == 1)).await;
    assert_eq!(mock.counts().cancelled, 0);
    stream.shutdown(Shutdown::Both).expect("open");
    within(mock.counts_when(|c| c.cancelled == 1)).await;
    assert!(mock.requests()[0].cancelled);
}

#[tokio::test]
async fn a_never_ending_stream_ends_when_the_client_leaves() {
    let mock = mock();
    let mut stream = ask(&mock, "x-mock-fault: never-ending\r\n", &chat(STREAM));
    let mut part = vec![0; 100_000];
    stream.read_exact(&mut part).expect("it goes on");
    assert!(events(&part) > 100, "more than a whole answer");
    drop(stream);
    within(mock.counts_when(|c| c.cancelled == 1)).await;
}

#[tokio::test]
async fn a_stream_can_stall_inside_an_event() {
    let mock = mock();
    let mut stream = ask(&mock, "x-mock-fault: half-event-after=2\r\n", &chat(STREAM));
    let mut got = Vec::new();
    while events(&got) < 3 {
        let mut part = [0; 4096];
        let n = stream.read(&mut part).expect("open");
        assert_ne!(n, 0, "the connection stays open");
        got.extend_from_slice(&part[..n]);
    }
    assert!(!got.ends_with(b"\n\n\r\n"));
    stream.shutdown(Shutdown::Both).expect("open");
    within(mock.counts_when(|c| c.cancelled == 1)).await;
}

#[test]
fn a_scripted_status_carries_retry_after_and_an_error_body() {
    let answer = text(&mut ask(&mock(), "x-mock-status: 429\r\nx-mock-retry-after: 7\r\n", &chat(STREAM)));
    assert!(answer.starts_with("HTTP/1.1 429") && answer.contains("retry-after: 7\r\n"));
    assert_eq!(json(&answer)["error"]["code"], "rate_limit_exceeded");
}

#[test]
fn the_script_applies_in_order_and_then_the_default_returns() {
    let mock = mock();
    mock.script([Behaviour::status(500), Behaviour::fault(Fault::CloseBeforeHead)]);
    assert!(text(&mut ask(&mock, "", &chat(""))).starts_with("HTTP/1.1 500"));
    assert_eq!(text(&mut ask(&mock, "", &chat(""))), "");
    assert!(text(&mut ask(&mock, "", &chat(""))).starts_with("HTTP/1.1 200"));
}

#[test]
fn the_script_can_be_sent_over_http() {
    let mock = mock();
    let script = r#"[{"status":503,"when":"tides","times":2},{"fault":"cut-after=1"}]"#;
    let taken = text(&mut send(&mock, "POST /_mock/script", "Connection: close\r\n", script));
    assert!(taken.starts_with("HTTP/1.1 200"));
    let other = r#"{"model":"m","messages":[{"role":"user","content":"bread"}]}"#;
    assert_eq!(body(&drain(&mut ask(&mock, "", other)).0).len(), 1);
    for _ in 0..2 {
        assert!(text(&mut ask(&mock, "", &chat(""))).starts_with("HTTP/1.1 503"));
    }
    let wrong = text(&mut send(&mock, "POST /_mock/script", "Connection: close\r\n", r#"[{"latancy_ms":1}]"#));
    assert!(wrong.starts_with("HTTP/1.1 400"));
}

#[test]
fn an_idle_connection_can_be_closed_under_the_client() {
    let mock = mock();
    let mut stream = send(&mock, "POST /v1/chat/completions", "", &chat(""));
    let mut part = [0; 4096];
    assert_ne!(stream.read(&mut part).expect("an answer"), 0);
    mock.close_idle();
    assert_eq!(stream.read(&mut part).expect("FIN"), 0);
}

#[test]
fn a_pipeline_of_requests_on_one_connection_is_told_apart_from_two() {
    let mock = mock();
    let mut stream = send(&mock, "GET /v1/models", "", "");
    write(&mut stream, "POST /v1/chat/completions", "Connection: close\r\n", &chat(""));
    stream.flush().expect("open");
    text(&mut stream);
    ask(&mock, "", &chat("")).read_exact(&mut [0; 12]).expect("an answer");
    let connections: Vec<u64> = mock.requests().iter().map(|seen| seen.connection).collect();
    assert_eq!(connections, [1, 1, 2]);
    assert!(mock.requests()[1].body.windows(PROMPT.len()).any(|w| w == PROMPT.as_bytes()));
}
