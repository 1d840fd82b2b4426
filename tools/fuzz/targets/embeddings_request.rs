//! An embeddings request: whatever is read can be sent on under another model's name.

#![no_main]

use bytes::Bytes;
use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use signet_openai::EmbeddingsRequest;

fuzz_target!(|data: &[u8]| {
    let Ok(request) = EmbeddingsRequest::parse(&Bytes::copy_from_slice(data)) else { return };
    assert_eq!(&request.with(None, true)[..], data, "nothing to change, nothing changed");
    let sent = EmbeddingsRequest::parse(&request.with(Some("another"), true)).expect("what we send can be read");
    assert_eq!((&*sent.model, sent.inputs()), ("another", request.inputs()));
    let back = EmbeddingsRequest::parse(&sent.with(Some(&request.model), true)).expect("and renamed again");
    assert_eq!(back.shape, request.shape, "the name was all that changed");
});

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    signet_fuzz::mutate(data, (size, max_size), seed, 0)
});
