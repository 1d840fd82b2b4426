//! Whatever is packed comes back byte for byte, and nothing that is stored makes a reader fail otherwise than with a fault.

use super::*;
use proptest::prelude::*;

/// An answer from a provider, as a gateway signs it.
pub(crate) const MISS: &str = r#"{"_type":"https://in-toto.io/Statement/v1","predicate":{"cache":{"decision":"miss","key_fp":"6f1d774195b3655a2b5059e6cdf6eaf0","ttl_ms":3600000},"caller":{"auth":"passthrough","key_epoch":1,"tenant":"498e511dd6d877b9e18931f4356a3c4a"},"durability":"spool","gateway":{"config_sha256":"7711728c66fa5ccb5690df51bb5bd39a16262a95749faf4c1f82b0b4a17d5f63","instance":"5cd56cde408b1190","version":"0.1.0"},"http":{"route":"/v1/chat/completions","status":200,"stream":false},"id":"01a22dfc-5f97-71d2-9f09-e4123c1fd535","kind":"request","limit":{"decision":"off"},"log":{"base_root":"4506555cbf5016ab150d02dd361db449be3156ff7ebe5e25e226e96e43564949","base_size":122,"epoch":2,"id":"01a22dfc-5dac-7895-80bf-32d7f6b5e194","seq":122},"model":{"asked":"fast","routed":"gpt-4o-mini","served":"gpt-4o-mini"},"nonce":"ee48de306741f658a5c88335857177f4","provider":{"attempts":[{"model":"gpt-4o-mini","ms":312,"provider":"main","status":200}],"name":"main"},"request":{"bytes":72,"forwarded":{"changed":false},"op":"chat"},"response":{"bytes":527,"finish":"stop","fp":"b48c8e0d14c11f9a56dfe3ff9f8aedde","outcome":"complete"},"time":{"completed_ms":1796067843993,"mono_us":{"total":2510,"upstream_ttfb":481},"received_ms":1796067843991},"usage":{"billed":true,"in":5,"out":30},"v":1},"predicateType":"urn:signet:lineage:v1","subject":[{"digest":{"sha256":"d6bcb7af3615fc497c73da036ba6d201744640ea23cece567e738ed86a8b7f77"},"name":"request"},{"digest":{"sha256":"c002dbf7a80970ac7a5adbb38a41b1d08e542bde5db687c9505268e2d706f2d8"},"name":"response"}]}"#;

fn pack(payload: &[u8], constants: &[u8]) -> Option<Vec<u8>> {
    let mut packer = Packer::new(constants);
    let split = packer.split(payload)?;
    packer.pack(payload, &split)
}

fn unpack(packed: &[u8], constants: &[u8]) -> Option<Vec<u8>> {
    Unpacker::new(constants).unpack(packed)
}

/// Comes back, packed or not.
fn stored(payload: &[u8]) -> Vec<u8> {
    let constants = constants(MISS.as_bytes());
    let packed = pack(payload, &constants);
    packed.map_or_else(|| payload.to_vec(), |packed| unpack(&packed, &constants).expect("it was packed"))
}

/// `MISS`, packed, and the constants it was packed with.
fn packed_miss() -> (Vec<u8>, Vec<u8>) {
    let constants = constants(MISS.as_bytes());
    (pack(MISS.as_bytes(), &constants).expect("text without marks"), constants)
}

#[test]
fn an_answer_takes_a_sixth_of_its_size() {
    let (packed, constants) = packed_miss();
    assert!(packed.len() * 6 < MISS.len(), "{} of {} bytes", packed.len(), MISS.len());
    assert_eq!(unpack(&packed, &constants).as_deref(), Some(MISS.as_bytes()));
}

#[test]
fn constants_are_what_every_statement_of_a_process_says() {
    let text = String::from_utf8(constants(MISS.as_bytes())).expect("text");
    let (gateway, log) = text.split_once('\0').expect("two parts");
    assert!(
        gateway.starts_with(r#""durability":"spool","gateway":{"config_sha256":"7711"#)
            && gateway.ends_with(r#""0.1.0"}"#)
    );
    assert_eq!(log, r#""epoch":2,"id":"01a22dfc-5dac-7895-80bf-32d7f6b5e194""#);
    for other in [
        "",
        "{",
        r#"{"durability":"x""#,
        r#"{"durability":{},"log":{"seq":1}}"#,
        r#"{"durability":{},"log":{"x":1,"seq":1,"epoch":2}}"#,
    ] {
        assert_eq!(constants(other.as_bytes()), b"", "{other}");
    }
}

#[test]
fn without_its_constants_or_with_those_of_another_process_nothing_comes_back() {
    let (packed, own) = packed_miss();
    let other = constants(MISS.replace("01a22dfc-5dac", "01a22dfc-5dad").as_bytes());
    for constants in [b"".as_slice(), b"\0", &own[1..], &other] {
        assert_ne!(unpack(&packed, constants).as_deref(), Some(MISS.as_bytes()));
    }
}

#[test]
fn values_next_to_what_is_taken_for_one_come_back() {
    let (half, whole) = ("0123456789abcdef", "0123456789abcdef".repeat(2));
    let id = "01a22dfc-5f97-71d2-9f09-e4123c1fd535";
    for odd in [
        "0",
        "00",
        "007",
        "18446744073709551615",
        "999999999999999999",
        "1000000000000000000",
        "1.5e3",
        "-4",
        "4-",
        "a4",
        &format!("{whole}0"),
        &whole.to_uppercase(),
        &whole[1..],
        &format!("{whole}{whole}{half}"),
        &format!("x{whole}"),
        &format!("{whole} {whole} {whole}{whole} {whole}{whole}"),
        &format!("{id}{id}"),
        &id.to_uppercase(),
        &id[1..],
        "1796067843993 1796067843991 1796067843999 5 1896067843999 1796067843991 100000000000 99999999999",
    ] {
        let payload = format!("{MISS}{odd},{odd}");
        assert_eq!(stored(payload.as_bytes()), payload.as_bytes(), "{odd}");
    }
}

#[test]
fn what_has_marks_of_its_own_or_would_grow_is_left_as_it_is() {
    assert_eq!(pack(&[MISS.as_bytes(), &[NUMBER]].concat(), b""), None);
    assert_eq!(pack(b"", b""), None);
    assert_eq!(pack(b"{", b""), None);
    assert_eq!(pack(&vec![b'x'; MAX_BYTES + 1], b""), None);
}

#[test]
fn a_row_that_was_packed_by_an_earlier_build_is_read_for_ever() {
    let hex = include_str!("pack.golden").trim_end();
    assert_eq!(unpack_alone(&bytes(hex.as_bytes()).expect("digits")).as_deref(), Some(MISS.as_bytes()));
    let hex = include_str!("rows.golden").trim_end();
    let packed = bytes(hex.as_bytes()).expect("digits");
    assert_eq!(
        unpack(&packed, &constants(MISS.as_bytes())).as_deref(),
        Some(MISS.as_bytes()),
        "{}",
        told(&packed_miss().0)
    );
}

fn told(bytes: &[u8]) -> String {
    let mut hex = Vec::new();
    put_hex(&mut hex, bytes);
    String::from_utf8(hex).expect("digits")
}

#[test]
fn no_flipped_bit_comes_back_as_the_same_payload() {
    let (packed, constants) = packed_miss();
    for bit in 0..packed.len() * 8 {
        let mut packed = packed.clone();
        packed[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(unpack(&packed, &constants).as_deref(), Some(MISS.as_bytes()), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn any_bytes_come_back(payload in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        prop_assert_eq!(stored(&payload), payload);
    }

    #[test]
    fn any_text_of_values_comes_back(
        parts in proptest::collection::vec("[0-9a-f]{30,70}|[0-9]{1,20}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12,14}|[\",:{} a-z.-]{1,9}|17960678[0-9]{5}|OWN|LOG|GW", 0..60),
        again in 0_usize..60,
    ) {
        let mut parts = parts;
        let repeated = parts.get(again).cloned();
        parts.extend(repeated);
        let told = constants(MISS.as_bytes());
        let known = Known::read(&told);
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("text");
        let payload = parts.concat().replace("OWN", "01a22dfc-5dac-7895-80bf-32d7f6b5e194");
        let payload = payload.replace("LOG", &text(&known.log)).replace("GW", &text(&known.gateway)).into_bytes();
        for known in [known, Known::NONE] {
            let (text, values) = split(&payload, &known).expect("no marks");
            prop_assert_eq!(join(&text, &values, &known), Some(payload.clone()));
        }
        prop_assert_eq!(stored(&payload), payload);
    }

    #[test]
    fn what_no_payload_packs_to_is_never_a_panic(junk in proptest::collection::vec(any::<u8>(), 0..400)) {
        unpack(&junk, &junk);
        unpack_alone(&junk);
        join(&junk, &junk, &Known::read(&constants(MISS.as_bytes())));
    }
}
