//! Streams of providers who leave out what others say: no word of them is lost in another API.

use bytes::Bytes;
use signet_dialect::{Api, Wanted, translate_sse};
use std::path::Path;

fn golden(pair: &str, name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(pair).join(name);
    std::fs::read_to_string(path).expect("a golden file")
}

#[test]
fn a_block_without_its_end_is_told_like_one_with_it() {
    for (pair, name, to) in [
        ("chat-to-messages", "thinking-and-tools.stream.in.txt", Api::Chat),
        ("responses-to-messages", "tools.stream.in.txt", Api::Responses),
        ("completions-to-messages", "text.stream.in.txt", Api::Completions),
    ] {
        let whole = golden(pair, name);
        let events = whole.split_inclusive("\n\n").filter(|event| !event.contains("content_block_stop"));
        let unclosed: String = events.collect();
        assert!(unclosed.len() < whole.len(), "{pair}/{name} has ends of blocks");
        let said = |stream: String| translate_sse(Api::Messages, to, Wanted::default(), stream.into());
        assert_eq!(said(unclosed), said(whole.clone()), "{to:?}");
        assert!(said(whole).is_ok_and(|said: Bytes| !said.is_empty()));
    }
}

#[test]
fn a_piece_for_a_block_that_is_not_open_ends_the_stream() {
    let whole = golden("chat-to-messages", "thinking-and-tools.stream.in.txt");
    let moved = whole.replacen("\"content_block_delta\",\"index\":0", "\"content_block_delta\",\"index\":7", 1);
    assert_ne!(whole, moved);
    for to in [Api::Chat, Api::Responses, Api::Completions] {
        let said = translate_sse(Api::Messages, to, Wanted::default(), moved.clone().into());
        assert_eq!(said.map_err(|why| why.0), Err("blocks overlap"), "{to:?}");
    }
}

#[test]
fn an_answer_that_goes_on_behind_its_end_ends_the_stream() {
    let whole = golden("chat-to-messages", "thinking-and-tools.stream.in.txt");
    let mut events: Vec<&str> = whole.split_inclusive("\n\n").collect();
    let place = |events: &[&str], part: &str| events.iter().rposition(|event| event.contains(part)).expect("an event");
    let stop = events.remove(place(&events, "\"stop_reason\":\"tool_use\""));
    events.insert(place(&events, "content_block_start"), stop);
    for to in [Api::Chat, Api::Responses] {
        let said = translate_sse(Api::Messages, to, Wanted::default(), events.concat().into());
        assert_eq!(said.map_err(|why| why.0), Err("the answer goes on behind its end"), "{to:?}");
    }
}
