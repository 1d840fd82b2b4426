//! Whole answers of every API: what is kept says the same after it was stored, and in both of its forms.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_dialect::sse::Kind;
use signet_dialect::{Api, Fold, Form, Kept};

const APIS: [Api; 3] = [Api::Completions, Api::Responses, Api::Messages];

fn folded(api: Api, stream: Bytes) -> Kept {
    let mut fold = Fold::new(Form { api, parts: 1 }, usize::MAX >> 1).expect("an API with streams");
    fold.push(stream);
    let mut done = false;
    while let Some(run) = fold.next_run().expect("no limit") {
        done |= run.kind == Kind::Done;
    }
    fold.finish();
    assert!((done || fold.all_finished()) && !fold.failed(), "our stream is whole");
    fold.take_answer().expect("our stream is an answer")
}

fuzz_target!(|data: &[u8]| {
    let Some((api, body)) = data.split_first() else { return };
    let form = Form { api: APIS[usize::from(*api) % APIS.len()], parts: 1 };
    let reading = form.read(body);
    let Some(kept) = reading.storable().cloned() else { return };
    let again = Kept::decode(kept.kind(), &kept.encode()).expect("what was kept can be read");
    assert_eq!(again.digest(), kept.digest(), "keeping changes nothing");
    let whole = form.read(&kept.to_json("1", 1)).kept.expect("our JSON is an answer");
    assert_eq!(whole.text(), kept.text(), "JSON says the same");
    let once = folded(form.api, kept.to_sse("1", 1, true));
    assert_eq!((once.text(), once.finish()), (kept.text(), kept.finish()), "the stream says the same");
    assert_eq!(folded(form.api, once.to_sse("1", 1, true)).digest(), once.digest(), "and again");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 1)
});
