//! What an answer carries so that its caller can check it without asking again: digests, and receipts inside streams.

use crate::client::{Answer, payload};
use crate::gateway::{CHAT, Gateway, Setup, chat, mock, streamed};
use crate::keeper::Keeper;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::{Digest, Sha256};
use signet_mock::{Behaviour, Fault};

const PROMPT: &str = "What is a groyne?";
const TRAILERS: (&str, &str) = ("TE", "trailers");

fn digest(body: &[u8]) -> String {
    format!("sha-256=:{}:", STANDARD.encode(Sha256::digest(body)))
}

#[test]
fn the_digest_of_every_whole_answer_is_that_of_the_bytes_received() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour { answer_bytes: Some(100_000), ..Behaviour::default() }]);
    let answers = [
        gateway.chat(&chat(PROMPT), &[]),
        gateway.chat(&chat(PROMPT), &[]),
        gateway.post(CHAT, &[], b"not json"),
        gateway.get("/v1/nothing"),
        gateway.get("/v1/models"),
        gateway.chat(&chat("What is a weir?"), &[("Cache-Control", "only-if-cached")]),
    ];
    assert_eq!(answers.each_ref().map(|answer| answer.status), [200, 200, 400, 404, 200, 504]);
    for answer in &answers {
        assert_eq!(answer.need("content-digest"), digest(&answer.body));
    }
}

#[test]
fn the_digest_of_a_stream_follows_it_as_a_trailer() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for (want, x_cache) in [("sse-event", "MISS"), ("sse-event", "EXACT"), ("sse-comment", "EXACT")] {
        let answer = gateway.chat(&streamed(PROMPT), &[TRAILERS, ("Lineage-Want", want)]);
        answer.is(200, x_cache);
        assert_eq!(answer.header("content-digest"), None);
        assert_eq!(answer.trailer("content-digest"), Some(&*digest(&answer.body)));
    }
}

#[test]
fn a_broken_stream_has_no_digest_and_no_receipt() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    mock.script([Behaviour::fault(Fault::CutAfter(2))]);
    let answer = gateway.chat(&streamed(PROMPT), &[TRAILERS, ("Lineage-Want", "sse-event")]);
    assert!(!answer.ended_well && answer.trailers.is_empty());
    assert!(!answer.text().contains("lineage"), "{}", answer.text());
}

#[test]
fn the_digest_of_an_answer_too_large_to_hold_follows_it() {
    let mock = mock();
    let gateway = Setup::on(&mock).set("server.max_response_bytes", "65536").start();
    mock.script([Behaviour { answer_bytes: Some(300_000), ..Behaviour::default() }]);
    let answer = gateway.chat(&chat(PROMPT), &[TRAILERS]);
    answer.is(200, "MISS");
    assert!(answer.body.len() > 300_000 && answer.header("content-digest").is_none());
    assert_eq!(answer.trailer("content-digest"), Some(&*digest(&answer.body)));
    assert!(answer.trailer("lineage-receipt").is_some());
}

/// The `data` of all events, read as SDKs do: comments are skipped, names of events are not looked at.
fn chunks(answer: &Answer) -> Vec<String> {
    let text = answer.text();
    let data = |event: &str| {
        let lines = event.lines().filter_map(|line| line.strip_prefix("data:"));
        lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>().join("\n")
    };
    text.split("\n\n").map(data).filter(|data| !data.is_empty()).collect()
}

/// What such a reader shows: it must end with `[DONE]`, and every chunk must have choices.
fn shown(answer: &Answer) -> String {
    let mut chunks = chunks(answer);
    assert_eq!(chunks.pop().as_deref(), Some("[DONE]"));
    let mut text = String::new();
    for chunk in chunks {
        let chunk: Value = serde_json::from_str(&chunk).expect("every chunk is JSON");
        for choice in chunk["choices"].as_array().expect("every chunk has choices") {
            text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        }
    }
    text
}

/// The receipt inside a stream, and the stream without it.
fn taken_out(answer: &Answer, want: &str) -> (String, String) {
    let text = answer.text();
    let rest = text.strip_suffix("data: [DONE]\n\n").expect("the receipt is not the end");
    let (events, last) = rest.trim_end_matches('\n').rsplit_once("\n\n").expect("more than one event");
    let receipt = if want == "sse-comment" {
        last.strip_prefix(": lineage-receipt ").expect("a comment").to_owned()
    } else {
        let data = last.strip_prefix("event: lineage\ndata: ").expect("an event of that name");
        let data: Value = serde_json::from_str(data).expect("JSON");
        assert_eq!(data["lineage"]["id"], answer.id());
        data["lineage"]["receipt"].as_str().expect("a receipt").to_owned()
    };
    (receipt, format!("{events}\n\ndata: [DONE]\n\n"))
}

/// The commitment to `body` that the holder of an answer's opening makes.
fn commitment(answer: &Answer, body: &str) -> String {
    let opening = URL_SAFE_NO_PAD.decode(answer.need("lineage-opening")).expect("base64url");
    let mut mac = Hmac::<Sha256>::new_from_slice(&opening).expect("any length is good");
    mac.update(b"response\x01");
    let key = mac.finalize().into_bytes();
    crate::lineage::hex(&Sha256::new().chain_update(key).chain_update(body).finalize())
}

fn tells_its_receipt(gateway: &Gateway, keeper: &mut Keeper, want: &str, x_cache: &str) {
    let prompt = format!("{PROMPT} As {want}.");
    let answer = gateway.chat(&streamed(&prompt), &[("Lineage-Want", want)]);
    answer.is(200, x_cache);
    let (receipt, without) = taken_out(&answer, want);
    let envelope = gateway.get(&format!("/v1/lineage/{}", answer.id())).json();
    assert_eq!(envelope["receipt"], receipt);
    let statement = payload(&envelope["envelope"]);
    assert_eq!(statement["subject"][1]["digest"]["sha256"], commitment(&answer, &without));
    assert_eq!(statement["predicate"]["response"]["bytes"], without.len());
    keeper.keep_text(receipt);
    let plain = gateway.chat(&streamed(&prompt), &[]);
    assert!(!plain.text().contains("lineage"), "nothing is added unasked");
    assert_eq!(shown(&answer), shown(&plain));
    let told = chunks(&answer).iter().filter(|chunk| chunk.contains("\"lineage\"")).count();
    assert_eq!(told, usize::from(want == "sse-event"), "a comment is no chunk");
}

#[test]
fn a_stream_tells_its_receipt_to_whoever_asks_and_the_answer_reads_the_same() {
    let mock = mock();
    for mode in ["spool", "strict"] {
        let gateway = Setup::on(&mock).set("lineage.mode", mode).start();
        let mut keeper = Keeper::of(&gateway.data);
        for want in ["sse-event", "sse-comment"] {
            tells_its_receipt(&gateway, &mut keeper, want, "MISS");
            tells_its_receipt(&gateway, &mut keeper, want, "EXACT");
        }
        assert_eq!(keeper.kept(), 4);
        keeper.accepts(&gateway.data);
    }
    assert!(mock.requests().iter().all(|seen| seen.header("lineage-want").is_none()), "it is not for the provider");
}

#[test]
fn a_wish_for_receipts_that_is_not_known_is_refused() {
    let mock = mock();
    let gateway = Setup::on(&mock).start();
    for request in [chat(PROMPT), streamed(PROMPT)] {
        let refused = gateway.chat(&request, &[("Lineage-Want", "sse-events")]).refusal(400);
        assert_eq!(refused["param"], "Lineage-Want");
    }
    assert_eq!(mock.counts().requests, 0);
    let whole = gateway.chat(&chat(PROMPT), &[("Lineage-Want", "sse-event")]);
    whole.is(200, "MISS");
    assert!(whole.header("lineage-receipt").is_some() && !whole.text().contains("lineage"));
}
