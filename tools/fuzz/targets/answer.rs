//! A chat answer: what is stored says the same as JSON, as a stream and after it was kept.

#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_openai::sse::events;
use signet_openai::{Accumulator, Answer, Layer};

fn streamed(answer: &Answer) -> Answer {
    let mut chunks = Accumulator::new(1);
    events(&answer.to_sse("chatcmpl-1", 1, true)).for_each(|event| chunks.push(&event));
    chunks.finish().expect("our stream is an answer")
}

fuzz_target!(|data: &[u8]| {
    let Ok(answer) = Answer::from_json(data, 1) else { return };
    let kept = Answer::decode(&answer.encode()).expect("what was kept can be read");
    assert_eq!(kept.content_digest(), answer.content_digest(), "keeping changes nothing");
    if answer.storable(Layer::Exact).is_err() {
        return;
    }
    let whole = Answer::from_json(&answer.to_json("chatcmpl-1", 1), 1).expect("our JSON is an answer");
    assert_eq!(whole.content_digest(), answer.content_digest(), "JSON says the same");
    // A stream says what JSON may leave out: the role and the number of a choice. Once said, it stays.
    let once = streamed(&answer);
    assert_eq!(once.content(), answer.content(), "the stream says the same");
    assert_eq!(once.finish(), answer.finish());
    assert_eq!(streamed(&once).content_digest(), once.content_digest(), "and again");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 0)
});
