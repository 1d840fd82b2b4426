//! Requests of every API: what is read can be sent on under another name, and what is said in another API can be read there.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_dialect::{Api, Defaults, Request, translate_request};

const APIS: [Api; 6] = [Api::Chat, Api::Completions, Api::Responses, Api::Embeddings, Api::Messages, Api::CountTokens];

// The first byte says which API; the rest is the body.
fuzz_target!(|data: &[u8]| {
    let Some((api, body)) = data.split_first() else { return };
    let (api, body) = (APIS[usize::from(*api) % APIS.len()], Bytes::copy_from_slice(body));
    let Ok(request) = Request::parse(api, &body) else { return };
    assert_eq!(request.with(None, request.include_usage()), body, "nothing to change, nothing changed");
    let sent = Request::parse(api, &request.with(Some("another"), false)).expect("what we send can be read");
    assert_eq!((sent.model(), sent.last_text(), sent.stream()), ("another", request.last_text(), request.stream()));
    for to in api.stand_ins() {
        let Ok(said) = translate_request(api, *to, &body, &Defaults { max_tokens: Some(9) }) else { continue };
        let there = Request::parse(*to, &said).expect("what was said in another API can be read there");
        assert_eq!((there.model(), there.stream()), (request.model(), request.stream()));
    }
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 1)
});
