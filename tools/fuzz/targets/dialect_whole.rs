//! Whole answers and errors through every translator: no word is lost, and what comes out is an answer there.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_dialect::{Api, Form, Wanted, translate_error, translate_whole};
use signet_fuzz::{PAIRS, stands_in};
use signet_openai::wire::Json;

const STATUSES: [u16; 12] = [400, 401, 403, 404, 408, 413, 429, 500, 502, 503, 504, 529];

fn answer((from, to): (Api, Api), body: &Bytes) {
    let Ok(said) = translate_whole(from, to, Wanted::default(), body) else { return };
    let here = Form { api: from, parts: 1 }.read(body).kept.expect("what can be translated can be read");
    let there = Form { api: to, parts: 1 }.read(&said).kept.expect("what was said in another API can be read there");
    let [was, is] = [here, there].map(|kept| kept.text().unwrap_or_default());
    assert!(stands_in(&was, &is), "a word was lost: {was:?} {is:?}");
    // A refusal is a text of its own in one API and like any other in another.
    assert!(was == is || body.windows(7).any(|key| key == b"refusal"), "a word was made up");
}

fn error((from, to): (Api, Api), status: u16, body: &[u8]) {
    let (told, said) = translate_error(from, to, status, body);
    if from.is_anthropic() == to.is_anthropic() {
        assert_eq!((told, &said[..]), (status, body), "nothing to change, nothing changed");
        return;
    }
    assert!(told == status || (status, told) == (529, 503));
    let said = Json::parse(&said).expect("our errors are JSON");
    let message = said.get("error").and_then(|error| error.get("message")).and_then(Json::as_str);
    let before = Json::parse(body).unwrap_or(Json::Null);
    let was = before.get("error").and_then(|error| error.get("message")).and_then(Json::as_str);
    assert!(message.is_some() && (was.is_none() || was == message), "the message is the provider's own");
}

// The first byte says which pair, the second which status; the rest is the body.
fuzz_target!(|data: &[u8]| {
    let [pair, status, body @ ..] = data else { return };
    let pair = PAIRS[usize::from(*pair) % PAIRS.len()];
    answer(pair, &Bytes::copy_from_slice(body));
    error(pair, STATUSES[usize::from(*status) % STATUSES.len()], body);
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 2)
});
