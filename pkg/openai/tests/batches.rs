//! Embeddings by their inputs.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use signet_openai::{Batch, Embeddings, EmbeddingsRequest, Usage};

fn request(body: &Value) -> EmbeddingsRequest {
    EmbeddingsRequest::parse(&body.to_string().into()).expect("good")
}

fn batch(input: &Value) -> Batch {
    request(&json!({"model": "e", "input": input})).batch()
}

/// What input `i` is for the cache.
fn known(batch: &Batch, i: usize) -> ([u8; 32], String) {
    (*batch.shape(i), batch.text(i).to_owned())
}

#[test]
fn an_input_is_the_same_in_any_batch() {
    let (alone, among, last) = (batch(&json!("x")), batch(&json!(["x", "y"])), batch(&json!(["y", "z", "x"])));
    assert_eq!(known(&alone, 0), known(&among, 0));
    assert_eq!(known(&alone, 0), known(&last, 2));
    assert_ne!(known(&alone, 0), known(&among, 1));
    assert_eq!(known(&batch(&json!([1, 2])), 0), known(&batch(&json!([[3], [1.0, 2]])), 1));
}

#[test]
fn tokens_are_not_the_text_that_looks_like_them() {
    assert_ne!(known(&batch(&json!([1, 2])), 0), known(&batch(&json!("[1,2]")), 0));
    let both = (batch(&json!([[1, 2]])), batch(&json!(["[1,2]"])));
    assert_ne!(known(&both.0, 0), known(&both.1, 0));
}

#[test]
fn all_else_but_the_user_tells_inputs_apart() {
    let plain = request(&json!({"model": "e", "input": "x"})).batch();
    let with = |field: &str, value: Value| {
        let mut body = json!({"model": "e", "input": "x"});
        body[field] = value;
        known(&request(&body).batch(), 0)
    };
    assert_eq!(known(&plain, 0), with("user", json!("u")));
    for (field, value) in [
        ("model", json!("f")),
        ("dimensions", json!(8)),
        ("encoding_format", json!("base64")),
        ("something_new", json!(1)),
    ] {
        assert_ne!(known(&plain, 0), with(field, value), "{field}");
    }
}

#[test]
fn equal_inputs_of_a_batch_are_one() {
    let batch = batch(&json!(["a", "b", "a", "b", "c"]));
    assert_eq!((0..batch.len()).map(|i| batch.first(i)).collect::<Vec<_>>(), [0, 1, 0, 1, 4]);
}

#[test]
fn asking_for_some_changes_the_list_and_nothing_else() {
    let body = Bytes::from_static(b"{ \"input\" : [\"a\", \"b\\u0062\",\"c\"] , \"model\":\"e\",\"dimensions\":8.0}");
    let batch = EmbeddingsRequest::parse(&body).expect("good").batch();
    assert_eq!(batch.asking(&[0, 1, 2], Some("e")).as_ptr(), body.as_ptr());
    assert_eq!(batch.asking(&[2, 1], None), "{ \"input\" : [\"c\",\"bb\"] , \"model\":\"e\",\"dimensions\":8.0}");
    assert_eq!(batch.asking(&[0], Some("f")), "{ \"input\" : [\"a\"] , \"model\":\"f\",\"dimensions\":8.0}");
    let tokens = batch_of(b"{\"model\":\"e\",\"input\":[[1,2],[3]]}");
    assert_eq!(tokens.asking(&[1], None), "{\"model\":\"e\",\"input\":[[3]]}");
    let text = batch_of(b"{\"model\":\"e\",\"input\":\"x\"}");
    assert_eq!(text.asking(&[0], None), "{\"model\":\"e\",\"input\":\"x\"}");
}

fn batch_of(body: &'static [u8]) -> Batch {
    EmbeddingsRequest::parse(&Bytes::from_static(body)).expect("good").batch()
}

#[test]
fn vectors_are_found_by_their_number_and_keep_their_text() {
    let body = br#"{"object":"list","data":[{"index":1,"embedding":[0.10,-1e-3]},{"object":"embedding","embedding":"AAAA","index":0}],"model":"e-1","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let answer = Embeddings::from_json(body, 2).expect("complete");
    assert_eq!((answer.vector(0), answer.vector(1)), (Some(&b"\"AAAA\""[..]), Some(&b"[0.10,-1e-3]"[..])));
    assert_eq!(answer.vector(2), None);
}

#[test]
fn an_answer_that_says_more_than_vectors_is_not_taken_apart() {
    for (odd, why) in [
        (json!({"data": [{"index": 0, "embedding": [1]}], "new": 1}), "a field of the answer"),
        (json!({"data": [{"index": 0, "embedding": [1], "new": 1}]}), "a field of an item"),
        (json!({"data": [{"index": 1, "embedding": [1]}]}), "a number without an input"),
    ] {
        let answer = Embeddings::from_json(odd.to_string().as_bytes(), 1).expect("complete");
        assert_eq!(answer.vector(0), None, "{why}");
    }
    let twice = br#"{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[2]}]}"#;
    assert_eq!(Embeddings::from_json(twice, 2).expect("complete").vector(0), None);
}

#[test]
fn a_joined_answer_says_what_was_counted_for_it_or_nothing() {
    let usage = Usage { input: 7, ..Usage::default() };
    let answer = Embeddings::join("e-1", &[b"[1]", b"[2.50]"], Some(usage));
    let expected: &[u8] = br#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1]},{"object":"embedding","index":1,"embedding":[2.50]}],"model":"e-1","usage":{"prompt_tokens":7,"total_tokens":7}}"#;
    assert_eq!(answer.to_json(), expected);
    assert_eq!(Embeddings::single("e-1", b"[1]").usage(), None);
}

proptest! {
    #[test]
    fn taking_apart_and_joining_gives_the_same_vectors(
        vectors in prop::collection::vec(prop::collection::vec(any::<f32>().prop_filter("finite", |x| x.is_finite()), 1..5), 1..6),
        shuffle in any::<prop::sample::Index>(),
    ) {
        let mut data: Vec<Value> = vectors.iter().enumerate().map(|(i, v)| json!({"index": i, "embedding": v})).collect();
        let middle = shuffle.index(data.len());
        data.rotate_left(middle);
        let body = json!({"object": "list", "data": data, "model": "e"}).to_string();
        let came = Embeddings::from_json(body.as_bytes(), vectors.len()).expect("complete");
        let singles: Vec<Embeddings> = (0..vectors.len())
            .map(|i| Embeddings::single("e", came.vector(i).expect("only vectors")))
            .collect();
        let stored: Vec<Embeddings> = singles
            .iter()
            .map(|one| Embeddings::from_json(one.to_json(), 1).expect("kept"))
            .collect();
        let parts: Vec<&[u8]> = stored.iter().map(|one| one.vector(0).expect("only vectors")).collect();
        let joined = Embeddings::join("e", &parts, None);
        let read = Embeddings::from_json(joined.to_json(), vectors.len()).expect("complete");
        for i in 0..vectors.len() {
            prop_assert_eq!(read.vector(i), came.vector(i));
        }
        prop_assert_eq!(read, joined);
    }

    #[test]
    fn the_body_for_some_inputs_asks_for_just_them(
        texts in prop::collection::vec(".{0,12}", 1..6),
        wanted in prop::collection::vec(any::<prop::sample::Index>(), 1..5),
    ) {
        let whole = request(&json!({"input": texts, "model": "e", "dimensions": 4})).batch();
        let wanted: Vec<usize> = wanted.iter().map(|index| index.index(texts.len())).collect();
        let asked = EmbeddingsRequest::parse(&whole.asking(&wanted, None)).expect("good").batch();
        prop_assert_eq!(asked.len(), wanted.len());
        for (at, i) in wanted.iter().enumerate() {
            prop_assert_eq!(known(&asked, at), known(&whole, *i));
        }
    }
}
