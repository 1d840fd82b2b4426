use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn of(text: &str) -> [u8; 32] {
    let tree = Json::parse(text.as_bytes()).expect("valid JSON");
    digest(b"test", [Member::new("value", tree)].iter())
}

/// Few distinct leaves, so that equal trees are drawn often.
fn small_value() -> impl Strategy<Value = Value> {
    let leaf = prop::sample::select(vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(10),
        json!(-1),
        json!(""),
        json!("0"),
        json!("a"),
        json!("as"),
        json!("sasa"),
    ]);
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map("[ab]{0,2}", inner, 0..3).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// The object's text with its keys in reverse order and white space between tokens.
fn spread(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[ {} ]", items.iter().map(spread).collect::<Vec<_>>().join("\n, ")),
        Value::Object(map) => {
            let member = |(key, value): (&String, &Value)| format!("{} :\t{}", json!(key), spread(value));
            format!("{{ {} }}", map.iter().rev().map(member).collect::<Vec<_>>().join(" , "))
        }
        leaf => leaf.to_string(),
    }
}

proptest! {
    #[test]
    fn digests_are_equal_exactly_when_the_values_are(a in small_value(), b in small_value()) {
        prop_assert_eq!(of(&a.to_string()) == of(&b.to_string()), a == b);
    }

    #[test]
    fn key_order_and_white_space_do_not_matter(value in small_value()) {
        prop_assert_eq!(of(&spread(&value)), of(&value.to_string()));
    }

    #[test]
    fn a_number_is_itself_however_it_is_written(mantissa in -9999_i64..9999, shift in 0_usize..6, exponent in -30_i64..30) {
        let plain = of(&format!("{mantissa}e{exponent}"));
        let zeros = "0".repeat(shift);
        if mantissa != 0 {
            // JSON has no number with leading zeros (RFC 8259, section 6); the forms of zero have a test of their own.
            prop_assert_eq!(of(&format!("{mantissa}{zeros}E{}", exponent - i64::try_from(shift).expect("small"))), plain);
        }
        prop_assert_eq!(of(&format!("{mantissa}.{zeros}0e{exponent}")), plain);
        prop_assert_ne!(of(&format!("{}e{exponent}", mantissa + 1)), plain);
    }
}

#[test]
fn zero_has_one_form() {
    for zero in ["0.0", "-0", "0e0", "0E+7", "-0.000e-9"] {
        assert_eq!(of(zero), of("0"), "{zero}");
    }
}

#[test]
fn numbers_beyond_floats_are_told_apart() {
    let distinct = [
        ("9007199254740993", "9007199254740992"),
        ("0.1", "0.10000000000000000001"),
        ("1e400", "1e401"),
        ("1e99999999999999999999", "1e99999999999999999998"),
        ("-1", "1"),
        ("1", "\"1\""),
    ];
    for (a, b) in distinct {
        assert_ne!(of(a), of(b), "{a} {b}");
    }
    assert_eq!(of("123456789012345678901234567890.0"), of("12345678901234567890123456789e1"));
}

#[test]
fn whole_numbers_are_read_in_any_notation() {
    let whole = |text: &'static str| Json::Number(text.into()).as_u64();
    assert_eq!(whole("1.0"), Some(1));
    assert_eq!(whole("10e-1"), Some(1));
    assert_eq!(whole("1.5e1"), Some(15));
    assert_eq!(whole("-0"), Some(0));
    assert_eq!(whole("18446744073709551615"), Some(u64::MAX));
    for not_whole in ["1.5", "-1", "18446744073709551616", "1e99", "1e-1", "1e99999999999999999999"] {
        assert_eq!(whole(not_whole), None, "{not_whole}");
    }
}

#[test]
fn escapes_of_the_same_text_do_not_matter() {
    assert_eq!(of(r#""\u0041\u00e9\/""#), of("\"Aé/\""));
    assert_ne!(of(r#""e\u0301""#), of("\"é\""), "text is not normalised");
}

#[test]
fn duplicate_keys_are_kept_in_their_order() {
    assert_ne!(of(r#"{"a":1,"a":2}"#), of(r#"{"a":2,"a":1}"#));
    assert_ne!(of(r#"{"a":1,"a":2}"#), of(r#"{"a":2}"#));
}

#[test]
fn text_that_looks_like_structure_is_text() {
    let distinct = [
        (r#"["a","b"]"#, r#"["asb"]"#),
        ("[[null],null]", "[[null,null]]"),
        (r#"{"a":{"b":null}}"#, r#"{"a":{},"b":null}"#),
        (r#"{"a":null,"b":null}"#, r#"{"ankb":null}"#),
        (r#"["n"]"#, "[null]"),
        ("[]", "{}"),
    ];
    for (a, b) in distinct {
        assert_ne!(of(a), of(b), "{a} {b}");
    }
}

#[test]
fn lengths_around_the_gathering_limit_change_nothing() {
    for len in [0, 1, FLUSH - 1, FLUSH, FLUSH + 1, 4 * FLUSH] {
        let (text, other) = ("x".repeat(len), "x".repeat(len) + "y");
        let body = |text: &str| json!([text, text, {"k": text}]).to_string();
        assert_eq!(of(&body(&text)), of(&format!(" {} ", body(&text))));
        assert_ne!(of(&body(&text)), of(&body(&other)));
    }
}
