//! The strict reader's first look: is this the one way to write this value?
//!
//! A payload that parses in two ways, or that differs from what a careful writer would write, may mean one thing to one
//! auditor and another to the next: duplicate keys, numbers beyond 2^53, needless escapes, white space. None of them is
//! ever written by Signet, so any of them is a finding. The rules stand in the writer's module; they are checked here
//! byte by byte, without its code and without a parser whose behaviour depends on how it was built.

/// Nesting deeper than any statement's.
const MAX_DEPTH: u32 = 16;
const MAX_INT: u64 = (1 << 53) - 1;

/// Whether `payload` is one JSON object in canonical form; else what is wrong first, and where.
pub(super) fn canonical(payload: &[u8]) -> Result<(), String> {
    let mut scan = Scan { bytes: payload, at: 0 };
    let result = match std::str::from_utf8(payload) {
        Err(e) => {
            scan.at = e.valid_up_to();
            Err("not UTF-8")
        }
        Ok(_) if payload.first() != Some(&b'{') => Err("not an object"),
        Ok(_) => scan.value(0),
    };
    match result {
        Ok(()) if scan.at == payload.len() => Ok(()),
        Ok(()) => Err(format!("bytes after the end, at byte {}", scan.at)),
        Err(what) => Err(format!("{what}, at byte {}", scan.at)),
    }
}

type Step = Result<(), &'static str>;

struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    fn value(&mut self, depth: u32) -> Step {
        if depth > MAX_DEPTH {
            return Err("nested too deeply");
        }
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'"') => self.string().map(|_| ()),
            Some(b'0'..=b'9') => self.integer(),
            Some(b't') => self.word(b"true"),
            Some(b'f') => self.word(b"false"),
            _ => Err("not a value that a statement may hold"),
        }
    }

    fn object(&mut self, depth: u32) -> Step {
        self.at += 1;
        let mut last: Option<&[u8]> = None;
        if self.eat(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            if !key.iter().all(|b| b.is_ascii_graphic() && *b != b'\\') {
                return Err("a key that is not plain ASCII");
            }
            if last.is_some_and(|last| last >= key) {
                return Err("keys out of order or twice");
            }
            last = Some(key);
            self.want(b':')?;
            self.value(depth + 1)?;
            if self.eat(b'}') {
                return Ok(());
            }
            self.want(b',')?;
        }
    }

    fn array(&mut self, depth: u32) -> Step {
        self.at += 1;
        if self.eat(b']') {
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.eat(b']') {
                return Ok(());
            }
            self.want(b',')?;
        }
    }

    /// The text between the quotes, escapes as they stand.
    fn string(&mut self) -> Result<&'a [u8], &'static str> {
        self.want(b'"')?;
        let from = self.at;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.bytes[from..self.at - 1]);
                }
                Some(b'\\') => self.escape()?,
                Some(b' '..) => self.at += 1,
                Some(_) => return Err("a control character"),
                None => return Err("a string without end"),
            }
        }
    }

    fn escape(&mut self) -> Step {
        match self.bytes.get(self.at + 1..).unwrap_or_default() {
            [b'"' | b'\\' | b'b' | b'f' | b'n' | b'r' | b't', ..] => self.at += 2,
            [b'u', b'0', b'0', b'1', b'0'..=b'9' | b'a'..=b'f', ..]
            | [b'u', b'0', b'0', b'0', b'0'..=b'7' | b'b' | b'e' | b'f', ..] => self.at += 6,
            _ => return Err("an escape that is not needed"),
        }
        Ok(())
    }

    fn integer(&mut self) -> Step {
        let digits = self.bytes[self.at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let text = &self.bytes[self.at..self.at + digits];
        let value = std::str::from_utf8(text).ok().and_then(|text| text.parse::<u64>().ok());
        if (digits > 1 && text[0] == b'0') || value.is_none_or(|value| value > MAX_INT) {
            return Err("not an integer below 2^53 without leading zeros");
        }
        self.at += digits;
        Ok(())
    }

    fn word(&mut self, word: &[u8]) -> Step {
        if !self.bytes[self.at..].starts_with(word) {
            return Err("not a value that a statement may hold");
        }
        self.at += word.len();
        Ok(())
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> bool {
        let eaten = self.peek() == Some(byte);
        self.at += usize::from(eaten);
        eaten
    }

    fn want(&mut self, byte: u8) -> Step {
        if self.eat(byte) { Ok(()) } else { Err("white space, or a token out of place") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canonical_value_passes() {
        for good in ["{}", r#"{"a":[],"b":{"c":[1,true,{"d":"é\n\u001f\"/"}]}}"#, r#"{"a":9007199254740991,"b":0}"#] {
            assert_eq!(canonical(good.as_bytes()), Ok(()), "{good}");
        }
    }

    #[test]
    fn whatever_two_readers_could_read_differently_is_refused() {
        let bad = [
            "",
            "1",
            "[]",
            "{",
            r#"{"a":1}x"#,
            r#"{"a":1} "#,
            r#"{ "a":1}"#,
            r#"{"a": 1}"#,
            r#"{"a":1,"a":2}"#,
            r#"{"b":1,"a":2}"#,
            r#"{"a":1,}"#,
            r#"{"a":01}"#,
            r#"{"a":-1}"#,
            r#"{"a":1.0}"#,
            r#"{"a":1e3}"#,
            r#"{"a":9007199254740992}"#,
            r#"{"a":99999999999999999999}"#,
            r#"{"a":null}"#,
            r#"{"a":"\/"}"#,
            r#"{"a":"\u0041"}"#,
            r#"{"a":"\u000a"}"#,
            r#"{"a":"\u001F"}"#,
            r#"{"a":"\ud800"}"#,
            "{\"a\":\"\n\"}",
            r#"{"é":1}"#,
            r#"{"\u0061":1}"#,
            r#"{"a":tru}"#,
            r#"{"a":"x}"#,
            r#"{"a":[1,]}"#,
            r#"{"a"}"#,
        ];
        for text in bad {
            assert!(canonical(text.as_bytes()).is_err(), "{text}");
        }
        assert!(canonical(b"{\"a\":\"\xff\"}").is_err());
        assert!(canonical(format!("{{\"a\":{}{}}}", "[".repeat(40), "]".repeat(40)).as_bytes()).is_err());
    }
}
