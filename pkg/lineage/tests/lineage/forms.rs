//! Keys, envelopes and columns in the forms in which they leave the process.

use crate::sample::{ALICE, Writer, id, signer};
use signet_lineage::{
    Columns, Denials, Draft, EnvelopeFault, KeyFault, KeySet, Kind, OpenFacts, PublicKey, Receipt, ReceiptFault,
    Record, Signer, TenantKey, UsageFacts,
};
use signet_types::LogId;

#[test]
fn keys_survive_their_files() {
    let key = Signer::generate();
    let again = Signer::from_pkcs8(&key.to_pkcs8()).expect("what was written");
    assert_eq!(again.public_key(), key.public_key());
    assert_eq!(again.sign(b"message"), key.sign(b"message"));
    assert_eq!(Signer::from_pkcs8(b"not a key").map(|_| ()), Err(KeyFault::Private));
}

#[test]
fn a_private_key_in_pem_is_read_as_openssl_writes_it() {
    use base64::Engine as _;
    let key = signer(3);
    let mut pem = String::from("-----BEGIN PRIVATE KEY-----\n");
    pem += &base64::engine::general_purpose::STANDARD.encode(&*key.to_pkcs8());
    pem += "\n-----END PRIVATE KEY-----\n";
    assert_eq!(Signer::from_pkcs8(pem.as_bytes()).expect("PEM").public_key(), key.public_key());
}

#[test]
fn a_key_file_holds_several_keys_and_comments() {
    let keys = KeySet::new([1, 2, 3].map(|seed| signer(seed).public_key())).expect("three keys");
    let text = format!("# replicas of example\n\n{keys}# the end\n");
    assert_eq!(KeySet::parse(&text), Ok(keys.clone()));
    assert_eq!(KeySet::parse(&text.replace('\n', "\r\n")), Ok(keys));
}

#[test]
fn a_key_file_without_a_good_key_is_refused_with_its_line() {
    let pem = signer(1).public_key().to_pem();
    assert_eq!(KeySet::parse("# nothing\n"), Err(KeyFault::Empty));
    assert_eq!(KeySet::parse(&format!("{pem}junk\n")), Err(KeyFault::Line { line: 4 }));
    assert_eq!(KeySet::parse(pem.trim_end_matches("-----END PUBLIC KEY-----\n")), Err(KeyFault::Public { line: 2 }));
    assert_eq!(KeySet::parse(&pem.replace("MCow", "MCox")), Err(KeyFault::Public { line: 3 }));
    assert!(KeySet::new([]).is_none());
}

#[test]
fn a_key_that_anyone_could_sign_for_or_that_has_two_forms_is_no_key() {
    let y = |low: u8| std::array::from_fn(|at| if at == 0 { low } else { 0 });
    assert!(PublicKey::from_bytes(y(1)).is_none(), "the neutral point");
    assert!(PublicKey::from_bytes(y(2)).is_none(), "not on the curve");
    assert!(PublicKey::from_bytes([0xff; 32]).is_none(), "18, written as 2^255 - 1");
    assert!(PublicKey::from_bytes(*signer(1).public_key().as_bytes()).is_some());
}

#[test]
fn debug_output_holds_no_key() {
    let (key, tenant) = (signer(1), TenantKey::generate());
    let shown = format!("{key:?} {tenant:?} {:?}", tenant.opening(id(1, 1)));
    assert!(!shown.contains("pair") && shown.contains("TenantKey(..)") && shown.contains("Opening(..)"), "{shown}");
}

#[test]
fn an_envelope_is_read_back_as_the_record_it_was() {
    let mut log = Writer::filled(1, 3);
    let record = log.ask(ALICE);
    assert_eq!(Record::from_envelope_json(&record.to_envelope_json()).expect("an envelope"), record);
}

#[test]
fn an_envelope_of_another_kind_is_refused() {
    let record = Writer::open(1, "spool").records.remove(0);
    let json = String::from_utf8(record.to_envelope_json()).expect("JSON");
    let read = |json: String| Record::from_envelope_json(json.as_bytes()).expect_err("must be refused");
    assert!(matches!(read(json.replace("in-toto", "other")), EnvelopeFault::Type(_)));
    assert!(matches!(read(json.replace("\"keyid\":\"", "\"keyid\":\"0")), EnvelopeFault::Encoding("keyid")));
    assert!(matches!(read(json.replace("\"sig\":\"", "\"sig\":\"AAAA")), EnvelopeFault::Encoding("sig")));
    assert!(matches!(read(json.replace("\"payload\":\"", "\"payload\":\"!")), EnvelopeFault::Encoding("payload")));
    let doubled = json.replace("\"signatures\":[", "\"signatures\":[{\"keyid\":\"\",\"sig\":\"\"},");
    assert!(matches!(read(doubled), EnvelopeFault::Signatures(2)));
}

#[test]
fn columns_are_read_from_the_signed_bytes() {
    let mut log = Writer::filled(1, 3);
    let source = log.ask(ALICE);
    let hit = log.hit(ALICE, &source);
    let columns = Columns::read(&hit.payload).expect("a statement");
    assert_eq!((columns.kind, columns.id, columns.tenant), (Kind::Request, hit.id, Some(ALICE)));
    assert_eq!((columns.model.as_deref(), columns.cache.as_deref()), (Some("gpt-4o-mini"), Some("hit_exact")));
    assert_eq!((columns.status, columns.tok_in, columns.tok_out), (Some(200), Some(12), Some(34)));
    assert_eq!(columns.parent, Some((source.log, source.seq)));
    let opening = Columns::read(&log.records[0].payload).expect("a statement");
    assert_eq!((opening.kind, opening.tenant, opening.status), (Kind::LogOpen, None, None));
    assert!(Columns::read(b"{}").is_err());
}

#[test]
fn a_model_name_that_a_database_cannot_store_is_no_column() {
    let mut log = Writer::filled(1, 2);
    let mut draft = log.request(ALICE);
    let exchange = draft.exchange.as_mut().expect("a request");
    exchange.model.routed = Some("gpt\0".to_owned());
    exchange.provider.as_mut().expect("it went upstream").attempts[0].model = "gpt\0".to_owned();
    let record = log.append(&draft);
    assert_eq!(Columns::read(&record.payload).expect("a statement").model, None);
    assert_eq!(crate::sample::verify(&log.keys(), &log.records).exit_code(), 0);
}

#[test]
fn integers_that_readers_would_round_are_written_as_the_largest_exact_one() {
    let mut log = Writer::filled(1, 2);
    let mut draft = log.request(ALICE);
    draft.exchange.as_mut().expect("a request").usage = Some(UsageFacts { input: u64::MAX, ..UsageFacts::default() });
    let record = log.append(&draft);
    assert_eq!(Columns::read(&record.payload).expect("a statement").tok_in, Some((1 << 53) - 1));
    assert_eq!(crate::sample::verify(&log.keys(), &log.records).exit_code(), 0);
}

#[test]
fn an_interrupted_request_gets_its_record_under_the_id_it_was_opened_with() {
    let mut log = Writer::filled(1, 2);
    let request = log.request(ALICE);
    let exchange = request.exchange.as_deref().expect("a request");
    let opened = OpenFacts {
        id: request.id,
        received_ms: request.time.received_ms,
        trace_id: request.trace_id.clone(),
        caller: exchange.caller.clone(),
        route: exchange.http.route,
        stream: true,
        request: exchange.request.clone(),
        asked: exchange.model.asked.clone(),
        cache: "miss",
    };
    let found = OpenFacts::decode(&opened.encode()).expect("what was written");
    let record = log.append(&found.interrupted(request.time.completed_ms, &log.gateway));
    assert_eq!(record.id, request.id);
    let text = std::str::from_utf8(&record.payload).expect("JSON");
    assert!(text.contains(r#""response":{"bytes":0,"chunks":0,"outcome":"interrupted"}"#), "{text}");
    assert!(text.contains(r#""http":{"route":"/v1/chat/completions","status":0,"stream":true}"#), "{text}");
    assert_eq!(crate::sample::verify(&log.keys(), &log.records).exit_code(), 0);
}

#[test]
fn every_kind_of_control_statement_verifies() {
    let mut log = Writer::filled(1, 2);
    let ids = vec![id(9, 1), id(9, 2), id(9, 3)];
    let denials = Denials { counts: vec![("ip_rate", 2), ("bad_key", 1)], ids, span_ms: (1, 2) };
    let drafts =
        [Draft::denials(&log.stamp(), &denials), Draft::clock(&log.stamp(), 10, 5), Draft::log_seal(&log.stamp())];
    for draft in &drafts {
        log.append(draft);
    }
    let text = std::str::from_utf8(&log.records[2].payload).expect("JSON");
    assert!(text.contains(r#""control":{"bad_key":1,"first_ms":1,"ids":3,"ids_root":""#), "{text}");
    let report = crate::sample::verify(&log.keys(), &log.records);
    assert_eq!(report.exit_code(), 0, "{report}");
}

#[test]
fn a_statement_names_both_bodies_as_subjects() {
    let mut log = Writer::filled(1, 2);
    let text = String::from_utf8(log.ask(ALICE).payload.to_vec()).expect("JSON");
    let (request, response) = ("01".repeat(32), "06".repeat(32));
    let subject = format!(
        r#""subject":[{{"digest":{{"sha256":"{request}"}},"name":"request"}},{{"digest":{{"sha256":"{response}"}},"name":"response"}}]}}"#
    );
    assert!(text.ends_with(&subject), "{text}");
}

#[test]
fn two_statements_of_one_draft_differ_by_their_nonce() {
    let mut log = Writer::filled(1, 2);
    let draft = log.request(ALICE);
    let position = log.position();
    assert_ne!(draft.seal(&position, &log.signer).payload, draft.seal(&position, &log.signer).payload);
}

#[test]
fn a_receipt_is_read_strictly() {
    let good = "v1;gw.example/a/01010101-0101-0101-0101-010101010101;3;42;AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let receipt: Receipt = good.parse().expect("a receipt");
    assert_eq!((receipt.origin.as_str(), receipt.epoch, receipt.seq), ("gw.example/a", 3, 42));
    assert_eq!((receipt.log, receipt.leaf_hash), (LogId::from_bytes([1; 16]), [0; 32]));
    let bad = [
        good.replace("v1;", "v2;"),
        good.replace(";3;", ";03;"),
        good.replace(";42;", ";+42;"),
        good.replace(";42;", ";-1;"),
        good.replace(";3;", ";4294967296;"),
        good.replace("0101-0101-0101", "0101-0101-010A"),
        good.replace('-', ""),
        good.replace("gw.example/a/", "/"),
        good.replace("gw.example/a/", ""),
        good.replace("example", "exa mple"),
        format!("{good}="),
        format!("{good};x"),
        format!(" {good}"),
        format!("{}B", &good[..good.len() - 1]),
        good[..good.len() - 1].to_owned(),
        String::new(),
    ];
    for text in bad {
        assert_eq!(text.parse::<Receipt>(), Err(ReceiptFault), "{text}");
    }
}
