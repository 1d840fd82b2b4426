use super::*;
use proptest::prelude::*;
use serde_json::Value;

fn written(json: &Json<'_>) -> String {
    let mut out = Vec::new();
    json.write(&mut out);
    String::from_utf8(out).expect("JSON is UTF-8")
}

fn reason(text: &str) -> &'static str {
    Json::parse(text.as_bytes()).expect_err("not JSON").reason
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |x| x.is_finite()).prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Json::parse(&bytes);
    }

    #[test]
    fn accepts_exactly_what_another_reader_accepts(text in r#"[\[\]{}:,"\\0-9eE+.\-truefalsn d8\n\t é]{0,40}"#) {
        match serde_json::from_str::<Value>(&text) {
            Ok(_) => prop_assert!(Json::parse(text.as_bytes()).is_ok(), "{text:?}"),
            // We keep numbers as text, so none is too large.
            Err(e) if e.to_string().contains("number out of range") => {}
            Err(_) => prop_assert!(Json::parse(text.as_bytes()).is_err(), "{text:?}"),
        }
    }

    #[test]
    fn accepts_damaged_documents_exactly_as_another_reader_does(
        value in any_value(),
        at in any::<prop::sample::Index>(),
        with in prop::sample::select(vec!["", ",", "\"", "\\", "]", "}", "{", "[", ":", "0", "-", ".", "e", " ", "\u{1}"]),
        keep in any::<bool>(),
    ) {
        let mut chars: Vec<String> = value.to_string().chars().map(String::from).collect();
        let at = at.index(chars.len());
        chars[at] = if keep { format!("{}{with}", chars[at]) } else { with.to_owned() };
        let text = chars.concat();
        match serde_json::from_str::<Value>(&text) {
            Ok(_) => prop_assert!(Json::parse(text.as_bytes()).is_ok(), "{text:?}"),
            Err(e) if e.to_string().contains("number out of range") => {}
            Err(_) => prop_assert!(Json::parse(text.as_bytes()).is_err(), "{text:?}"),
        }
    }

    #[test]
    fn accepts_strings_exactly_as_another_reader_does(inner in r#"(\\[u"\\/bfnrtx]|[dD89a-f0]{4}|[ -~é\n]){0,8}"#) {
        let text = format!("\"{inner}\"");
        let other = serde_json::from_str::<String>(&text).ok();
        let ours = Json::parse(text.as_bytes()).ok().and_then(|json| json.as_str().map(str::to_owned));
        prop_assert_eq!(ours, other);
    }

    #[test]
    fn reading_and_writing_keeps_the_value(value in any_value(), pretty in any::<bool>()) {
        let text = if pretty { format!("{value:#}") } else { value.to_string() };
        let ours = Json::parse(text.as_bytes()).expect("valid JSON");
        let read = |text: &str| serde_json::from_str::<Value>(text).expect("valid JSON");
        prop_assert_eq!(read(&written(&ours)), read(&text));
        prop_assert_eq!(written(&ours.clone().into_owned()), written(&ours));
    }

    #[test]
    fn a_special_byte_is_found_at_every_offset(before in 0_usize..40, special in prop::sample::select(vec!['"', '\\', '\u{1f}', '\u{0}'])) {
        let text = format!("{}{special}{}", "é".repeat(before / 2) + &"x".repeat(before % 2), "y\"\\".repeat(5));
        prop_assert_eq!(plain_end(text.as_bytes(), 0), before);
    }
}

#[test]
fn numbers_stay_as_they_were_written() {
    let text = "[1.0,-0,1E+2,123456789012345678901234567890,0.10]";
    assert_eq!(written(&Json::parse(text.as_bytes()).expect("JSON")), text);
}

#[test]
fn numbers_follow_the_grammar() {
    for bad in ["-", "1.", ".5", "1.e1", "1e", "1e+", "+1", "01", "-01", "00", "0x1", "1_0", "NaN", "Infinity", "1-"] {
        assert!(Json::parse(bad.as_bytes()).is_err(), "{bad}");
    }
    for good in ["0", "-0", "0.0", "10", "1e1", "1E+01", "-1.5e-10"] {
        assert_eq!(Json::parse(good.as_bytes()), Ok(Json::Number(good.into())));
    }
}

#[test]
fn spans_are_the_bytes_of_the_value() {
    let text = r#" { "a" : "x\u0041" , "b":[1, {"c" : -2.5e3 }] ,"d":null}"#;
    let json = Json::parse(text.as_bytes()).expect("JSON");
    let spans: Vec<&str> =
        json.as_object().expect("an object").iter().map(|member| &text[member.span.clone()]).collect();
    assert_eq!(spans, [r#""x\u0041""#, r#"[1, {"c" : -2.5e3 }]"#, "null"]);
}

#[test]
fn nesting_has_a_limit_and_no_depth_crashes() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert!(Json::parse(nested(MAX_DEPTH).as_bytes()).is_ok());
    assert_eq!(reason(&nested(MAX_DEPTH + 1)), "nested too deeply");
    assert_eq!(reason(&"[".repeat(1_000_000)), "nested too deeply");
    assert_eq!(reason(&"{\"a\":".repeat(1_000_000)), "nested too deeply");
}

#[test]
fn the_number_of_values_has_a_limit() {
    let zeros = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
    assert!(Json::parse(zeros(MAX_VALUES - 1).as_bytes()).is_ok(), "the array counts too");
    assert_eq!(reason(&zeros(MAX_VALUES)), "too many values");
    assert!(Json::parse_within(zeros(MAX_VALUES).as_bytes(), 2 * MAX_VALUES).is_ok());
}

#[test]
fn surrogates_come_in_pairs_or_not_at_all() {
    assert_eq!(Json::parse(br#""\ud83d\ude00""#).expect("a pair").as_str(), Some("😀"));
    for lone in [r#""\ud83d""#, r#""\ude00""#, r#""\ud83dx""#, r#""\ud83d\n""#, r#""\ud83d\ud83d""#] {
        assert_eq!(reason(lone), "a lone surrogate", "{lone}");
    }
}

#[test]
fn faults_name_their_place() {
    let error = Json::parse(b"{\"a\":01}").expect_err("a leading zero");
    assert_eq!((error.at, error.reason), (6, "expected `,` or `}`"));
    assert_eq!(Json::parse(b"[\"\xff\"]").expect_err("not UTF-8").at, 2);
    assert_eq!(reason("{} {}"), "unexpected text behind the value");
    assert_eq!(reason("\"a\nb\""), "a control character inside a string");
    assert_eq!(reason("[1,"), "the text ends inside a value");
}
