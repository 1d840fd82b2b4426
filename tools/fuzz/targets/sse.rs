//! An event stream cut anywhere: no byte is lost or made up, and the cuts change nothing.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use signet_openai::sse::{Decoder, Event, Kind, Splitter};

const LIMIT: usize = 1 << 20;

/// The first byte says how long the pieces are; the rest is the stream.
fn pieces(data: &[u8]) -> (usize, &[u8]) {
    data.split_first().map_or((1, data), |(size, rest)| (usize::from(*size) + 1, rest))
}

/// The stream again, and the special events in it with where they end.
fn split(stream: &[u8], size: usize) -> (Vec<u8>, Vec<(usize, Kind)>) {
    let mut splitter = Splitter::new(LIMIT, 1);
    let (mut out, mut special) = (Vec::with_capacity(stream.len()), Vec::new());
    for piece in stream.chunks(size) {
        splitter.push(Bytes::copy_from_slice(piece));
        while let Some(run) = splitter.next_run().expect("below the limit") {
            out.extend_from_slice(&run.raw);
            special.extend((run.kind != Kind::Ordinary).then_some((out.len(), run.kind)));
        }
    }
    let (last, rest) = splitter.finish();
    if let Some(run) = last {
        out.extend_from_slice(&run.raw);
        special.extend((run.kind != Kind::Ordinary).then_some((out.len(), run.kind)));
    }
    out.extend_from_slice(&rest);
    (out, special)
}

fn decode(stream: &[u8], size: usize) -> Vec<Event> {
    let mut decoder = Decoder::new(LIMIT);
    let mut events = Vec::new();
    for piece in stream.chunks(size) {
        decoder.push(Bytes::copy_from_slice(piece));
        while let Some(event) = decoder.next_event().expect("below the limit") {
            events.push(event);
        }
    }
    events.extend(decoder.finish());
    events
}

fuzz_target!(|data: &[u8]| {
    let (size, stream) = pieces(data);
    let (cut, special) = split(stream, size);
    assert_eq!(cut, stream, "the runs are the stream");
    assert_eq!(special, split(stream, stream.len().max(1)).1, "a cut changes what an event is");
    assert_eq!(decode(stream, size), decode(stream, stream.len().max(1)), "a cut changes an event");
});
