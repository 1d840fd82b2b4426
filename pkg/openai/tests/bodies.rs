//! Embeddings, model lists and error bodies.

use bytes::Bytes;
use serde_json::{Value, json};
use signet_openai::{Embeddings, EmbeddingsRequest, ErrorBody, ModelList, NotAModelList, NotStorable, Usage};

fn embed(input: &Value) -> Result<EmbeddingsRequest, signet_openai::BadRequest> {
    EmbeddingsRequest::parse(&json!({"model": "e", "input": input}).to_string().into())
}

#[test]
fn inputs_are_counted_in_all_their_forms() {
    let forms =
        [(json!("x"), 1), (json!(["x", "y"]), 2), (json!([1, 2, 3]), 1), (json!([[1, 2], [3]]), 2), (json!([]), 0)];
    for (input, count) in forms {
        assert_eq!(embed(&input).expect("good").inputs(), count, "{input}");
    }
    for bad in [json!(null), json!(1), json!({}), json!(["x", 1]), json!([1, [2]]), json!([["x"]]), json!([1.5])] {
        let error = embed(&bad).expect_err("bad");
        assert_eq!((error.param.as_deref(), error.code), (Some("input"), Some("invalid_type")), "{bad}");
    }
}

#[test]
fn embeddings_requests_differ_in_all_but_the_user() {
    let shape = |extra: Value| {
        let mut body = json!({"model": "e", "input": "x"});
        body.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        EmbeddingsRequest::parse(&body.to_string().into()).expect("good").shape
    };
    assert_eq!(shape(json!({"user": "a"})), shape(json!({})));
    let differing = [
        json!({}),
        json!({"input": "y"}),
        json!({"input": ["x"]}),
        json!({"model": "f"}),
        json!({"dimensions": 8}),
        json!({"encoding_format": "base64"}),
        json!({"metadata": {}}),
        json!({"new": 1}),
    ];
    let mut shapes: Vec<_> = differing.iter().cloned().map(shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    assert_eq!(shapes.len(), differing.len());
}

#[test]
fn bad_embeddings_requests_are_refused() {
    let error = |body: &'static str| EmbeddingsRequest::parse(&Bytes::from_static(body.as_bytes())).expect_err("bad");
    assert_eq!(error(r#"{"input":"x"}"#).param.as_deref(), Some("model"));
    assert_eq!(error(r#"{"model":"e"}"#).param.as_deref(), Some("input"));
    assert_eq!(error(r#"{"model":"e","input":"x","input":"y"}"#).code, Some("duplicate_key"));
    assert_eq!(error("[").param, None);
}

#[test]
fn an_embeddings_model_is_replaced_in_place() {
    let body = Bytes::from_static(b"{ \"model\" : \"e\",\"input\":[ \"x\" ] }");
    let request = EmbeddingsRequest::parse(&body).expect("good");
    assert_eq!(request.with(Some("f"), true), "{ \"model\" : \"f\",\"input\":[ \"x\" ] }");
    assert_eq!(
        (request.with(None, true).as_ptr(), request.with(Some("e"), true).as_ptr()),
        (body.as_ptr(), body.as_ptr())
    );
}

#[test]
fn an_embeddings_answer_has_one_vector_for_each_input() {
    let body = br#"{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.10,-1e-3]},{"index":1,"embedding":"AAAA"}],"model":"e-1","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
    let answer = Embeddings::from_json(body, 2).expect("complete");
    assert_eq!(answer.to_json(), &body[..]);
    assert_eq!((answer.model(), answer.usage()), ("e-1", Some(Usage { input: 5, ..Usage::default() })));
    assert_eq!(Embeddings::from_json(body, 1), Err(NotStorable::Shape("not one vector for each input")));
    for bad in [&b"{}"[..], b"[]", b"x", br#"{"data":[{"embedding":[]},{"embedding":[1]}]}"#, br#"{"data":[{},{}]}"#] {
        assert!(Embeddings::from_json(bad, 2).is_err());
    }
    assert_eq!(
        Embeddings::from_json(br#"{"error":{"message":"x"},"data":[{"embedding":[1]}]}"#, 1),
        Err(NotStorable::Failure)
    );
}

#[test]
fn model_lists_are_united_and_the_first_provider_wins() {
    let list = |models: Value| {
        ModelList::parse(json!({"object": "list", "data": models}).to_string().as_bytes()).expect("a list")
    };
    let first = list(
        json!([{"id": "a", "owned_by": "one", "new": [1]}, {"id": "b"}, {"no": "id"}, 1, {"id": "a", "owned_by": "x"}]),
    );
    let second = list(json!([{"id": "c"}, {"id": "a", "owned_by": "two"}]));
    let mut all = first.merge(second);
    all.push("d", "signet", 7);
    all.push("a", "signet", 7);
    assert_eq!(all.ids().collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    let body: Value = serde_json::from_slice(&all.to_json()).expect("JSON");
    assert_eq!(
        body,
        json!({"object": "list", "data": [{"id": "a", "owned_by": "one", "new": [1]}, {"id": "b"}, {"id": "c"},
            {"id": "d", "object": "model", "created": 7, "owned_by": "signet"}]})
    );
    assert_eq!(ModelList::default().to_json(), r#"{"object":"list","data":[]}"#);
    for bad in [&b"x"[..], b"[]", b"{}", br#"{"data":{}}"#] {
        assert_eq!(ModelList::parse(bad), Err(NotAModelList));
    }
}

#[test]
fn an_error_body_escapes_its_text() {
    let body = ErrorBody { message: "a \"b\"\n\u{1}é", kind: "server_error", param: None, code: None };
    let json = body.to_json();
    assert_eq!(
        json,
        "{\"error\":{\"message\":\"a \\\"b\\\"\\n\\u0001é\",\"type\":\"server_error\",\"param\":null,\"code\":null}}"
    );
    assert_eq!(body.to_event(), [b"data: ", &json[..], b"\n\n"].concat());
}
