//! Event streams: the standard's examples, every way to cut them, and what each event is.

use bytes::Bytes;
use proptest::prelude::*;
use signet_openai::sse::{DONE, Decoder, Event, Kind, Run, Splitter, TooLong, events};
use signet_openai::{Accumulator, ErrorBody};

/// An answer in the public format: role, text with characters of two to four bytes, finish, usage, end.
const STREAM: &str = concat!(
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n",
    ": keep-alive\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"你好, é 😀\"},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}],\"usage\":null}\n\n",
    "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4,\"total_tokens\":13}}\n\n",
    "data: [DONE]\n\n",
);

/// The stream's lines with these ends.
fn line_ends(end: &str) -> Bytes {
    STREAM.replace('\n', end).into()
}

fn decode(pieces: impl IntoIterator<Item = Bytes>) -> Vec<Event> {
    let (mut decoder, mut all) = (Decoder::new(4 << 20), Vec::new());
    for piece in pieces {
        decoder.push(piece);
        while let Some(event) = decoder.next_event().expect("short events") {
            all.push(event);
        }
    }
    all.extend(decoder.finish());
    all
}

fn data(stream: &[u8]) -> Vec<String> {
    let text = |event: Event| String::from_utf8(event.data.to_vec()).expect("UTF-8");
    decode([Bytes::copy_from_slice(stream)]).into_iter().map(text).collect()
}

/// Ordinary runs next to each other as one: how many there are depends on how the bytes arrived, what is in them not.
fn split(n: u32, pieces: impl IntoIterator<Item = Bytes>) -> (Vec<(Kind, Vec<u8>, u32)>, Bytes) {
    let (mut splitter, mut runs) = (Splitter::new(1 << 20, n), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        while let Some(run) = splitter.next_run().expect("short events") {
            join(&mut runs, &run);
        }
    }
    let (last, rest) = splitter.finish();
    if let Some(run) = last {
        join(&mut runs, &run);
    }
    (runs, rest)
}

fn join(runs: &mut Vec<(Kind, Vec<u8>, u32)>, run: &Run) {
    match runs.last_mut() {
        Some((Kind::Ordinary, raw, events)) if run.kind == Kind::Ordinary => {
            raw.extend_from_slice(&run.raw);
            *events += run.events;
        }
        _ => runs.push((run.kind, run.raw.to_vec(), run.events)),
    }
}

fn kinds(n: u32, stream: &str) -> Vec<Kind> {
    split(n, [Bytes::copy_from_slice(stream.as_bytes())]).0.into_iter().map(|(kind, ..)| kind).collect()
}

#[test]
fn the_standards_examples_are_read() {
    assert_eq!(data(b"data: YHOO\ndata: +2\ndata: 10\n\n"), ["YHOO\n+2\n10"]);
    let three = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n";
    let read: Vec<_> = decode([Bytes::from_static(three)]).into_iter().map(|event| (event.data, event.id)).collect();
    let expected = [("first event", "1"), ("second event", ""), (" third event", "")];
    assert_eq!(read, expected.map(|(data, id)| (Bytes::from(data), Bytes::from(id))));
    assert_eq!(data(b"data\n\ndata\ndata\n\ndata:"), ["", "\n"]);
    assert_eq!(data(b"data:test\n\ndata: test\n\n"), ["test", "test"]);
}

#[test]
fn fields_are_read_by_the_standard() {
    let read = decode([Bytes::from_static(
        b"event: a\ndata: 1\nid: 7\nretry: 10\nother: x\n\ndata: 2\nid: 8\0\n\nevent: lost\n\ndata: 3\nDATA: no\n\n",
    )]);
    let read: Vec<_> = read.iter().map(|e| (&e.event[..], &e.data[..], &e.id[..])).collect();
    assert_eq!(read, [(&b"a"[..], &b"1"[..], &b"7"[..]), (b"", b"2", b"7"), (b"", b"3", b"7")]);
}

#[test]
fn a_byte_order_mark_counts_only_at_the_start() {
    assert_eq!(data(b"\xef\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\ndata: 3\n\n"), ["1", "3"]);
    assert_eq!(kinds(1, "\u{feff}data: [DONE]\n\n"), [Kind::Done]);
}

#[test]
fn an_unfinished_event_is_dropped() {
    assert_eq!(data(b"data: 1\n\ndata: 2\n"), ["1"]);
    assert_eq!(data(b"data: 1\r\rdata: 2\r\r"), ["1", "2"], "the last CR ends its line");
    let (runs, rest) = split(1, [Bytes::from_static(b"data: 1\n\ndata: [DONE]\n")]);
    assert_eq!(runs, [(Kind::Ordinary, b"data: 1\n\n".to_vec(), 1)]);
    assert_eq!(rest, "data: [DONE]\n");
}

#[test]
fn every_cut_of_a_recorded_stream_gives_the_same_events() {
    for end in ["\n", "\r\n", "\r"] {
        let stream = line_ends(end);
        let (whole, runs) = (decode([stream.clone()]), split(1, [stream.clone()]));
        assert_eq!(whole.len(), 5);
        for at in 0..=stream.len() {
            let pieces = || [stream.slice(..at), stream.slice(at..)];
            assert_eq!(decode(pieces()), whole, "{end:?} {at}");
            assert_eq!(split(1, pieces()), runs, "{end:?} {at}");
        }
        let bytes = || (0..stream.len()).map(|at| stream.slice(at..=at));
        assert_eq!(decode(bytes()), whole, "{end:?} byte by byte");
        assert_eq!(split(1, bytes()), runs, "{end:?} byte by byte");
    }
}

#[test]
fn a_character_cut_anywhere_arrives_whole() {
    let stream = Bytes::from("data: {\"c\":\"你好é😀\"}\n\n");
    for at in 0..=stream.len() {
        let read = decode([stream.slice(..at), stream.slice(at..)]);
        assert_eq!(read[0].data, "{\"c\":\"你好é😀\"}", "{at}");
        let (runs, rest) = split(1, [stream.slice(..at), stream.slice(at..)]);
        assert_eq!((&runs[0].1[..], rest.len()), (&stream[..], 0), "{at}");
    }
}

#[test]
fn an_event_that_came_in_one_piece_is_not_copied() {
    let stream = Bytes::from_static(STREAM.as_bytes());
    let place = |part: &Bytes| part.as_ptr() as usize - stream.as_ptr() as usize;
    let read = decode([stream.clone()]);
    assert_eq!(place(&read[0].data), 6);
    let mut splitter = Splitter::new(1 << 20, 1);
    splitter.push(stream.clone());
    let run = splitter.next_run().expect("short").expect("a run");
    assert_eq!((place(&run.raw), run.events), (0, 2), "a role, a comment and a text, as they lie there");
}

#[test]
fn events_are_told_apart() {
    let (runs, rest) = split(1, [line_ends("\n")]);
    let read: Vec<_> = runs.iter().map(|(kind, _, events)| (*kind, *events)).collect();
    assert_eq!(read, [(Kind::Ordinary, 2), (Kind::Finished, 1), (Kind::Usage, 1), (Kind::Done, 1)]);
    assert!(rest.is_empty());
}

#[test]
fn what_only_looks_special_is_ordinary() {
    let ordinary = [
        r#"{"choices":[{"index":0,"delta":{"content":"\"error\":{} \"finish_reason\":\"stop\" [DONE]"},"finish_reason":null}]}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"error"},"finish_reason":null}],"x":"error"}"#,
        r#"{"choices":[{"index":0,"delta":{"error":{"a":1}}}]}"#,
        r#"{"choices":[{"index":0,"delta":{}}],"error":null}"#,
        r#"{"choices":[],"usage":null}"#,
        r#"{"choices":[],"prompt_filter_results":[]}"#,
        r#"{"choices":null}"#,
        r#"{"choices":[{"delta":{},"finish_reason":null}],"usage":{"prompt_tokens":1}}"#,
        r#"{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":""}]}"#,
        "{",
        "[DONE] ?",
        "",
    ];
    for data in ordinary {
        assert_eq!(kinds(1, &format!("data: {data}\n\n")), [Kind::Ordinary], "{data}");
    }
}

#[test]
fn special_events_are_found_however_they_are_written() {
    let special = [
        ("data:[DONE]\n\n", Kind::Done),
        ("data: [DONE] \n\n", Kind::Done),
        ("data: {\"error\":{\"message\":\"x\"}}\n\n", Kind::Error),
        ("data: { \"choices\": [{\"delta\":{}}], \"error\" : \"overloaded\"}\n\n", Kind::Error),
        ("event: error\ndata: {\"message\":\"x\"}\n\n", Kind::Error),
        ("data: {\"choices\": [ ] , \"usage\": {\"prompt_tokens\":1}}\n\n", Kind::Usage),
        ("data: {\"usage\":{\"prompt_tokens\":1}}\n\n", Kind::Usage),
        ("data: { \"choices\" : [ { \"delta\":{}, \"finish_reason\" : \"length\" } ] }\n\n", Kind::Finished),
        ("data: {\"choices\":\ndata: [{\"finish_reason\":\"stop\"}]}\n\n", Kind::Finished),
    ];
    for (event, kind) in special {
        assert_eq!(kinds(1, event), [kind], "{event}");
    }
    assert_eq!(kinds(1, std::str::from_utf8(DONE).expect("UTF-8")), [Kind::Done]);
    assert_eq!(kinds(1, std::str::from_utf8(&in_band_error()).expect("UTF-8")), [Kind::Error]);
}

fn in_band_error() -> Bytes {
    ErrorBody { message: "the stream was cut", kind: "upstream_error", param: None, code: Some("cut") }.to_event()
}

#[test]
fn the_last_choice_finishes_the_stream() {
    let finish = |index: u32| {
        format!("data: {{\"choices\":[{{\"index\":{index},\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n")
    };
    assert_eq!(kinds(2, &(finish(1) + &finish(1))), [Kind::Ordinary], "the same choice twice is one choice");
    assert_eq!(kinds(2, &(finish(1) + &finish(0))), [Kind::Ordinary, Kind::Finished]);
    assert_eq!(kinds(1, &(finish(0) + &finish(0))), [Kind::Finished, Kind::Ordinary], "it finishes once");
    let mut splitter = Splitter::new(1 << 20, 2);
    splitter.push(finish(0).into());
    while splitter.next_run().expect("short").is_some() {}
    assert!(!splitter.all_finished());
    splitter.push(finish(1).into());
    while splitter.next_run().expect("short").is_some() {}
    assert!(splitter.all_finished());
}

#[test]
fn an_event_without_end_is_refused_once_it_is_too_long() {
    let mut splitter = Splitter::new(64, 1);
    let mut decoder = Decoder::new(64);
    let short = Bytes::from_static(b"data: 1\n\n");
    let piece = Bytes::from_static(&[b'x'; 40]);
    for bytes in [&short, &piece, &piece] {
        splitter.push(bytes.clone());
        decoder.push(bytes.clone());
    }
    assert_eq!(splitter.next_run().expect("the complete event comes first").expect("a run").raw, short);
    assert_eq!(splitter.next_run(), Err(TooLong { limit: 64 }));
    assert_eq!(splitter.next_run(), Err(TooLong { limit: 64 }), "and stays refused");
    assert_eq!(decoder.next_event().expect("short").expect("an event").data, "1");
    assert_eq!(decoder.next_event(), Err(TooLong { limit: 64 }));
}

#[test]
fn an_event_of_very_many_lines_is_one_event() {
    let lines = 300_000;
    let stream = "data:x\n".repeat(lines) + "\n";
    assert_eq!(decode([Bytes::from(stream.clone())])[0].data.len(), 2 * lines - 1);
    let mut splitter = Splitter::new(4 << 20, 1);
    splitter.push(stream.into());
    assert_eq!(splitter.next_run().expect("short").map(|run| run.events), Some(1));
}

#[test]
fn an_event_that_is_complete_but_too_long_is_refused() {
    let stream = Bytes::from(format!("data: 1\n\ndata: {}\n\n", "x".repeat(64)));
    let mut splitter = Splitter::new(64, 1);
    splitter.push(stream);
    assert!(splitter.next_run().expect("short").is_some());
    assert_eq!(splitter.next_run(), Err(TooLong { limit: 64 }));
    assert_eq!(splitter.next_run(), Err(TooLong { limit: 64 }));
}

#[test]
fn the_data_of_a_run_can_be_read() {
    let run = Bytes::from_static(b": c\n\ndata: 1\n\ndata: 2\ndata: 3\n\n");
    assert_eq!(events(&run).collect::<Vec<_>>(), ["1", "2\n3"]);
}

#[test]
fn the_last_event_of_a_run_is_read_though_its_lines_end_with_a_lone_cr() {
    let read = |raw: &'static [u8]| events(&Bytes::from_static(raw)).collect::<Vec<_>>();
    for (raw, expected) in
        [(&b"data: 1\r\rdata: 2\r\r"[..], vec!["1", "2"]), (b"data: 1\n\ndata: 2\n\r", vec!["1", "2"])]
    {
        assert_eq!(read(raw), expected);
    }
}

fn any_stream() -> impl Strategy<Value = Vec<u8>> {
    let parts = vec![
        "data: ",
        "data",
        "data:x",
        ":",
        "event: error",
        "id: 1",
        "\n",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "\r\n\r\n",
        "é",
        "[DONE]",
        "\u{feff}",
        "{\"choices\":[]",
        ",\"usage\":{}}",
        "{\"error\":1}",
        "{\"choices\":[{\"finish_reason\":\"stop\"}]}",
    ];
    prop::collection::vec(prop::sample::select(parts), 0..40).prop_map(|parts| parts.concat().into_bytes())
}

fn pieces(stream: &[u8], cuts: &[prop::sample::Index]) -> Vec<Bytes> {
    let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
    at.extend([0, stream.len()]);
    at.sort_unstable();
    at.windows(2).map(|pair| Bytes::copy_from_slice(&stream[pair[0]..pair[1]])).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn events_do_not_depend_on_where_the_bytes_are_cut(stream in any_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let whole = || [Bytes::copy_from_slice(&stream)];
        prop_assert_eq!(decode(pieces(&stream, &cuts)), decode(whole()));
        prop_assert_eq!(split(2, pieces(&stream, &cuts)), split(2, whole()));
    }

    #[test]
    fn bytes_pass_through_unchanged(stream in any_stream(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let (runs, rest) = split(1, pieces(&stream, &cuts));
        let passed: Vec<u8> = runs.into_iter().flat_map(|(_, raw, _)| raw).chain(rest).collect();
        prop_assert_eq!(passed, stream);
    }

    #[test]
    fn runs_and_the_decoder_agree_on_the_events(stream in any_stream()) {
        let (runs, _) = split(1, [Bytes::copy_from_slice(&stream)]);
        let counted: u32 = runs.iter().map(|(.., events)| events).sum();
        prop_assert_eq!(counted as usize, decode([Bytes::copy_from_slice(&stream)]).len());
    }

    #[test]
    fn arbitrary_bytes_never_panic(stream in prop::collection::vec(any::<u8>(), 0..200), limit in 0_usize..40) {
        let mut splitter = Splitter::new(limit, 1);
        splitter.push(stream.into());
        while let Ok(Some(_)) = splitter.next_run() {}
    }
}

#[test]
fn chunks_that_come_to_more_values_than_are_read_make_no_answer() {
    for (chunks, whole) in [(1, true), (3, false)] {
        let zeros = vec!["0"; 500_000].join(",");
        let delta = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"a","extra":[{zeros}]}}}}]}}"#);
        let mut accumulator = Accumulator::new(1);
        (0..chunks).for_each(|_| accumulator.push(delta.as_bytes()));
        accumulator.push(br#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#);
        let answer = accumulator.finish();
        assert_eq!(answer.is_ok(), whole);
        // What is an answer can be said again.
        assert!(answer.is_ok_and(|answer| answer.to_sse("id", 1, true).ends_with(b"[DONE]\n\n")) == whole);
    }
}
