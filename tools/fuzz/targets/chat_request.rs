//! A chat request: whatever is read can be sent on, and only the model's name and the wish for usage change.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_openai::ChatRequest;

fuzz_target!(|data: &[u8]| {
    let Ok(request) = ChatRequest::parse(&Bytes::copy_from_slice(data)) else { return };
    assert_eq!(&request.with(None, false)[..], data, "nothing to change, nothing changed");
    let sent = ChatRequest::parse(&request.with(Some("another \"model\""), true)).expect("what we send can be read");
    assert_eq!(sent.model, "another \"model\"");
    assert_eq!(sent.last_text, request.last_text);
    assert_eq!((sent.stream, sent.n()), (request.stream, request.n()));
    assert!(sent.include_usage || !request.include_usage, "asked for usage");
    let back = ChatRequest::parse(&sent.with(Some(&request.model), false)).expect("and renamed again");
    assert_eq!(back.shape, request.shape, "the name and the wish for usage were all that changed");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 0)
});
