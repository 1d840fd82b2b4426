use super::*;
use crate::fixture::entry;
use crate::serve::place;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use signet_types::TenantId;

fn request(inputs: &[u8]) -> EmbeddingsRequest {
    let inputs: Vec<String> = inputs.iter().map(|input| format!("\"t{input}\"")).collect();
    let body = format!("{{\"model\":\"e\",\"input\":[{}],\"dimensions\":2}}", inputs.join(","));
    EmbeddingsRequest::parse(&Bytes::from(body)).expect("a good request")
}

/// A vector that tells which input it is of.
fn vector(input: u8) -> String {
    format!("[0.{input}, 1e-3]")
}

/// What a provider would answer.
fn answer(model: &str, inputs: &[u8]) -> Embeddings {
    let vectors: Vec<String> = inputs.iter().map(|input| vector(*input)).collect();
    let vectors: Vec<&[u8]> = vectors.iter().map(String::as_bytes).collect();
    Embeddings::join(model, &vectors, None)
}

fn known(model: &str, input: u8) -> Known {
    let entry = entry(input, answer(model, &[input]).to_json().clone());
    readable(Arc::new(entry)).expect("one vector")
}

fn sorted(batch: &Batch, inputs: &[u8], cached: impl Fn(u8) -> bool) -> Sorted {
    let one = |(i, input): (usize, &u8)| (batch.first(i) == i && cached(*input)).then(|| known("e-1", *input));
    Sorted::of(batch, inputs.iter().enumerate().map(one).collect())
}

proptest! {
    #[test]
    fn a_batch_of_which_any_part_is_stored_has_the_vectors_of_one_that_is_asked_for_whole(
        inputs in prop::collection::vec(1_u8..9, 2..12),
        cached in any::<u16>(),
    ) {
        let batch = request(&inputs).batch();
        let sorted = sorted(&batch, &inputs, |input| cached >> input & 1 == 1);
        let wanted: Vec<u8> = sorted.wanted.iter().map(|i| inputs[*i]).collect();
        let asked = EmbeddingsRequest::parse(&batch.asking(&sorted.wanted, None)).map(|asked| asked.inputs());
        prop_assert_eq!(asked.ok(), Some(wanted.len()));
        let mut distinct = wanted.clone();
        distinct.sort_unstable();
        distinct.dedup();
        prop_assert_eq!(distinct.len(), wanted.len());
        prop_assert!(wanted.iter().all(|input| cached >> input & 1 == 0));
        let fresh = answer("e-1", &wanted);
        let got = sorted.vectors(&batch, Some(&fresh)).expect("one model");
        let expected: Vec<String> = inputs.iter().map(|input| vector(*input)).collect();
        prop_assert_eq!(got, expected.iter().map(String::as_bytes).collect::<Vec<_>>());
    }
}

#[test]
fn vectors_of_two_models_are_never_joined() {
    let batch = request(&[1, 2, 3]).batch();
    let part = sorted(&batch, &[1, 2, 3], |input| input == 2);
    assert_eq!(part.wanted, [0, 2]);
    assert!(part.vectors(&batch, Some(&answer("e-2", &[1, 3]))).is_none());
    assert!(part.vectors(&batch, Some(&answer("e-1", &[1, 3]))).is_some());
    let mixed = Sorted::of(&batch, vec![Some(known("e-1", 1)), Some(known("e-2", 2)), None]);
    assert_eq!(mixed.wanted, [0, 1, 2], "what is stored of two models is asked for anew");
}

/// Stores outlive releases, and a lone text must find what a batch has stored.
#[test]
fn an_input_has_the_key_that_a_request_for_it_alone_has_in_every_release() {
    let key = |body: &Bytes| {
        let request = Request::Embeddings(EmbeddingsRequest::parse(body).expect("a good request"));
        let key = place((TenantId::from_bytes([7; 16]), "ns"), ([9; 32], 1), &request, *request.shape()).1;
        STANDARD.encode(key.as_bytes())
    };
    let batch = |body: &str| {
        EmbeddingsRequest::parse(&Bytes::copy_from_slice(body.as_bytes())).expect("a good request").batch()
    };
    let alone = |body: &'static str| key(&Bytes::from_static(body.as_bytes()));
    let texts = batch(r#"{"model":"e","input":["a","b\n"],"user":"u","encoding_format":"base64"}"#);
    assert_eq!(key(&texts.alone(0)), alone(r#"{"encoding_format":"base64","input":"a","model":"e"}"#));
    assert_eq!(key(&texts.alone(1)), alone(r#"{"encoding_format":"base64","input":"b\u000a","model":"e"}"#));
    assert_ne!(key(&texts.alone(0)), alone(r#"{"input":"a","model":"e"}"#));
    assert_ne!(key(&texts.alone(0)), alone(r#"{"encoding_format":"base64","input":"a","model":"e","dimensions":8}"#));
    let tokens = batch(r#"{"model":"e","input":[[1, 2],[3]]}"#);
    assert_eq!(key(&tokens.alone(0)), alone(r#"{"model":"e","input":[1,2]}"#));
    assert_eq!(alone(r#"{"model":"e","input":"a"}"#), "PnOOhdiXPVm2AiLTFxR0679kqWJaWuVEMk96WaRmX78=");
}
