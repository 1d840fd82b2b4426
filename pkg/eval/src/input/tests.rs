use super::*;
use proptest::prelude::*;

fn open(text: &str) -> Result<Reader<&[u8]>, Unreadable> {
    Reader::open(text.as_bytes(), None)
}

/// The rows, and the bad lines.
fn read(text: &str) -> (Vec<Row>, Vec<BadLine>) {
    let (mut rows, mut bad) = (Vec::new(), Vec::new());
    for row in open(text).expect("a known form") {
        match row.expect("memory can be read") {
            Ok(row) => rows.push(row),
            Err(line) => bad.push(line),
        }
    }
    (rows, bad)
}

fn asked(row: &Row) -> Vec<String> {
    match row {
        Row::Pair(pair) => vec![pair.a.within("").text, pair.b.within("").text],
        Row::Arrival(arrival) => vec![arrival.query.within("").text],
        Row::Other => Vec::new(),
    }
}

#[test]
fn the_form_is_told_by_the_first_row() {
    let forms = [
        (r#"{"a":"x","b":"y","label":1}"#, Format::Pairs),
        (r#"{"question1":"x","question2":"y","is_duplicate":"0"}"#, Format::Pairs),
        ("sentence1\tsentence2\tlabel\n", Format::Pairs),
        (r#"{"prompt":"x"}"#, Format::Stream),
        ("text,cluster\n", Format::Stream),
        (r#"{"model":"m","messages":[]}"#, Format::OpenAi),
        (r#"{"custom_id":"1","url":"/v1/chat/completions","body":{"messages":[]}}"#, Format::OpenAi),
        (r#"{"call_type":"acompletion","messages":[],"model":"m"}"#, Format::LiteLlm),
    ];
    for (text, format) in forms {
        assert_eq!(open(text).map(|reader| reader.format()).expect(text), format, "{text}");
    }
}

#[test]
fn a_file_of_no_known_form_says_what_it_has_and_what_is_known() {
    let fault = |text| open(text).err().expect("unknown").to_string();
    assert!(fault(r#"{"when":1,"who":2}"#).contains("the fields when, who; known are labelled pairs"));
    assert!(fault("").contains("the file is empty"));
    assert!(fault("[1, 2]").contains("unknown format"));
    assert!(fault("{\"a\":").contains("line 1"));
    assert!(fault("just a line of prose").contains("neither a JSON object nor the header of a table"));
}

#[test]
fn a_bad_line_is_reported_with_its_number_and_the_rest_is_read() {
    let text = "\u{feff}{\"a\":\"x\",\"b\":\"y\",\"label\":1}\n\n{\"a\":\"x\"}\r\nnonsense\n{\"a\":\"x\",\"b\":\"z\",\"label\":2}\n\
                {\"a\":\"x\",\"b\":\"w\",\"label\":false}";
    let (rows, bad) = read(text);
    assert_eq!(rows.iter().map(asked).collect::<Vec<_>>(), [["x", "y"], ["x", "w"]]);
    assert_eq!(bad.iter().map(|bad| bad.line).collect::<Vec<_>>(), [3, 4, 5]);
    assert_eq!(bad[2].to_string(), "line 5: the label is 2, neither 0 nor 1");
}

#[test]
fn a_table_may_quote_commas_quotation_marks_and_ends_of_lines() {
    let text = "a,b,label,kind\n\"one, two\",\"say \"\"three\"\"\nfour\",1,made\nplain,\"\",0,\nshort,1\nb\"c,d,0,e\n";
    let (rows, bad) = read(text);
    assert_eq!(asked(&rows[0]), ["one, two", "say \"three\"\nfour"]);
    assert!(matches!(&rows[0], Row::Pair(pair) if pair.same && pair.kind == "made"));
    assert_eq!(bad[0].to_string(), "line 5: 2 fields where the header has 4");
    assert_eq!(bad[1].what, "a quoted field that does not end");
}

#[test]
fn only_answered_chats_of_a_log_count() {
    let text = r#"{"call_type":"acompletion","status":"success","model":"m","messages":[{"role":"user","content":"What is silt?"}],"model_parameters":{"temperature":0.5,"stream":true},"metadata":{"user_api_key_hash":"k1"}}
{"call_type":"aembedding","model":"e","messages":"What is silt?"}
{"call_type":"completion","status":"failure","model":"m","messages":[{"role":"user","content":"What is silt?"}]}
{"id":"7","standard_logging_object":{"call_type":"completion","model":"m","messages":"[{\"role\":\"user\",\"content\":\"What is loam?\"}]"}}"#;
    let (rows, bad) = read(text);
    assert_eq!(bad, []);
    let texts: Vec<_> = rows.iter().map(asked).collect();
    assert_eq!(texts, [vec!["What is silt?"], vec![], vec![], vec!["What is loam?"]]);
}

#[test]
fn the_key_of_a_log_line_is_its_tenant_and_its_parameters_are_its_request() {
    let line = |key: &str, temperature: f64| {
        let line = format!(
            r#"{{"call_type":"completion","messages":[{{"role":"user","content":"x"}}],"model_parameters":{{"temperature":{temperature}}},"metadata":{{"user_api_key_hash":"{key}"}}}}"#
        );
        match read(&line).0.remove(0) {
            Row::Arrival(arrival) => arrival.query.within("").partition,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(line("k1", 0.5), line("k1", 0.5));
    assert_ne!(line("k1", 0.5), line("k2", 0.5));
    assert_ne!(line("k1", 0.5), line("k1", 0.6));
}

#[test]
fn of_a_batch_file_the_chats_count() {
    let text = r#"{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"m","messages":[{"role":"user","content":"What is marl?"}]}}
{"custom_id":"2","method":"POST","url":"/v1/embeddings","body":{"model":"e","input":"x"}}"#;
    let (rows, bad) = read(text);
    assert_eq!(bad, []);
    assert_eq!(rows.iter().map(asked).collect::<Vec<_>>(), [vec!["What is marl?"], vec![]]);
}

#[test]
fn a_line_that_is_too_long_is_left_out_and_the_next_one_is_read() {
    let long = "x".repeat(lines::MAX_LINE + 10);
    let (rows, bad) = read(&format!("{{\"prompt\":\"x\"}}\n{long}\n{{\"prompt\":\"y\"}}\n"));
    assert_eq!(rows.iter().map(asked).collect::<Vec<_>>(), [["x"], ["y"]]);
    assert_eq!(bad.len(), 1);
    assert!(bad[0].to_string().starts_with("line 2: over"));
}

/// Counts how often it is asked for bytes.
struct Counted<'a>(&'a [u8], std::rc::Rc<std::cell::Cell<usize>>);

impl io::Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(out)?;
        self.1.set(self.1.get() + read);
        Ok(read)
    }
}

#[test]
fn a_file_is_read_as_rows_are_wanted_and_each_byte_once() {
    let text = "{\"prompt\":\"x\"}\n".repeat(10_000);
    let seen = std::rc::Rc::default();
    let input = io::BufReader::with_capacity(256, Counted(text.as_bytes(), std::rc::Rc::clone(&seen)));
    let mut reader = Reader::open(input, None).expect("a stream");
    reader.next().expect("a row").expect("it can be read").expect("a good row");
    assert!(seen.get() <= 512, "{} bytes for the first row", seen.get());
    assert_eq!(reader.count(), 9_999);
    assert_eq!(seen.get(), text.len());
}

fn csv_field(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(head in "[a-z,\t\"{}:]{0,30}", body in prop::collection::vec(any::<u8>(), 0..300)) {
        let heads = ["", "{\"a\":\"\",\"b\":\"\",\"label\":0}\n", "a,b,label\n", "{\"call_type\":\"\",\"messages\":[]}\n"];
        for first in heads.iter().map(|head| (*head).to_owned()).chain([head]) {
            let bytes = [first.as_bytes(), &body].concat();
            if let Ok(reader) = Reader::open(&bytes[..], None) {
                prop_assert!(reader.count() <= bytes.split(|byte| *byte == b'\n').count());
            }
        }
    }

    #[test]
    fn what_a_table_quotes_is_read_as_it_was_written(texts in prop::collection::vec("[^\r]{1,20}", 2..=2)) {
        let row = format!("{},{},1", csv_field(&texts[0]), csv_field(&texts[1]));
        let (rows, bad) = read(&format!("a,b,label\n{row}\n"));
        // A text of white space only is no user text to the gateway.
        let expected: Vec<_> = texts.iter().map(|t| if t.trim().is_empty() { "" } else { t.as_str() }).collect();
        prop_assert_eq!(bad, []);
        prop_assert_eq!(asked(&rows[0]), expected);
    }
}
