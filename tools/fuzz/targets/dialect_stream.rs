//! Event streams of every API: cuts change nothing, and a translation of a whole one is whole.

#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_dialect::sse::{Decoder, Kind};
use signet_dialect::{Api, Fold, Form, Kept, Wanted, translate_stream};
use signet_fuzz::{PAIRS, stands_in};

const LIMIT: usize = 1 << 20;

/// The bytes again up to the last event, behind which nobody reads, and the answer that they are parts of.
fn fold(api: Api, stream: &[u8], size: usize) -> (Vec<u8>, Option<Kept>, bool) {
    let mut fold = Fold::new(Form { api, parts: 1 }, LIMIT).expect("an API with streams");
    let mut pieces = stream.chunks(size);
    let (mut out, mut done) = (Vec::with_capacity(stream.len()), false);
    while !done {
        let run = match fold.next_run().expect("below the limit") {
            Some(run) => run,
            None => match pieces.next() {
                Some(piece) => {
                    fold.push(Bytes::copy_from_slice(piece));
                    continue;
                }
                None => match fold.finish() {
                    Some(run) => run,
                    None => break,
                },
            },
        };
        out.extend_from_slice(&run.raw);
        done = run.kind == Kind::Done;
    }
    let whole = (done || fold.all_finished()) && !fold.failed();
    (out, fold.take_answer(), whole)
}

/// What a caller of `to` reads of what passes; none where it ends in an error.
fn translated(from: Api, to: Api, stream: &[u8]) -> Option<Bytes> {
    let mut translate = translate_stream(from, to, Wanted { usage: true, ..Wanted::default() }).expect("a pair");
    let (mut decoder, mut out) = (Decoder::new(LIMIT), BytesMut::new());
    decoder.push(Bytes::copy_from_slice(stream));
    while let Some(event) = decoder.next_event().expect("below the limit") {
        translate.event(&event, &mut out).ok()?;
    }
    if let Some(event) = decoder.finish() {
        translate.event(&event, &mut out).ok()?;
    }
    translate.end(&mut out);
    Some(out.freeze())
}

fuzz_target!(|data: &[u8]| {
    let [pair, size, stream @ ..] = data else { return };
    let (from, to) = PAIRS[usize::from(*pair) % PAIRS.len()];
    let (bytes, answer, whole) = fold(from, stream, usize::from(*size) + 1);
    assert!(stream.starts_with(&bytes), "what passes is what came");
    let uncut = fold(from, stream, stream.len().max(1));
    assert_eq!((&bytes, whole), (&uncut.0, uncut.2), "a cut changes what passes");
    assert_eq!(answer.as_ref().map(Kept::digest), uncut.1.as_ref().map(Kept::digest), "a cut changes the answer");
    let (Some(said), Some(answer), true) = (translated(from, to, &bytes), answer, whole) else { return };
    let (_, there, whole) = fold(to, &said, said.len().max(1));
    assert!(whole, "the translation of a whole stream is whole");
    let Some(there) = there else {
        // A call whose arguments are no JSON passes as the model wrote it; a message has no place for it.
        assert!(to == Api::Messages && stream.windows(9).any(|key| key == b"arguments"), "an answer was lost");
        return;
    };
    let [was, is] = [answer, there].map(|kept| kept.text().unwrap_or_default());
    assert!(stands_in(&was, &is), "a word was lost: {was:?} {is:?}");
    // A refusal is a text of its own in one API and like any other in another.
    assert!(was == is || stream.windows(7).any(|key| key == b"refusal"), "a word was made up: {was:?} {is:?}");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate_stream(data, (size, max_size), seed, 2)
});
