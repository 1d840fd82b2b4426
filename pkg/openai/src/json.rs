//! A borrowed JSON tree (RFC 8259) that knows where values lie and keeps numbers as they were written.
//!
//! Stricter than the RFC where leniency would let two readers disagree: lone surrogates, nesting over [`MAX_DEPTH`] and
//! anything behind the value are refused. Object members keep their order and their duplicates; whoever interprets an
//! object refuses duplicates with [`duplicate`].

mod write;

pub use write::write_str;

use std::borrow::Cow;
use std::ops::Range;

/// Deepest nesting that is read; recursion is bounded by it.
pub(crate) const MAX_DEPTH: usize = 128;

/// Most values in one text. A value takes at least 24 bytes here and 2 in a body, so a body of nothing but `0,0,0,..`
/// would take a dozen times its size in memory; this bounds it to some tens of megabytes.
pub(crate) const MAX_VALUES: usize = 1 << 20;

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Json<'a> {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// As written; valid by RFC 8259.
    Number(Cow<'a, str>),
    /// Without its escapes.
    String(Cow<'a, str>),
    /// In order.
    Array(Vec<Json<'a>>),
    /// In order, duplicates included.
    Object(Members<'a>),
    /// Where the last user text was, once it has been taken out of a request.
    Cut,
}

/// The members of an object, in order.
pub type Members<'a> = Vec<Member<'a>>;

/// One member of an object.
#[derive(Debug, Clone)]
pub struct Member<'a> {
    /// Without its escapes.
    pub key: Cow<'a, str>,
    /// What stands behind the colon.
    pub value: Json<'a>,
    /// Where the value lies in the text that was read; empty for members made by us.
    pub span: Range<usize>,
}

impl PartialEq for Member<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.value == other.value
    }
}

impl<'a> Member<'a> {
    /// A member that was not read from anywhere.
    pub fn new(key: impl Into<Cow<'a, str>>, value: Json<'a>) -> Self {
        Self { key: key.into(), value, span: 0..0 }
    }
}

/// Why bytes are not JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct JsonError {
    /// The byte at which it was noticed.
    pub at: usize,
    /// In a few words.
    pub reason: &'static str,
}

impl<'a> Json<'a> {
    /// Reads one value of at most [`MAX_VALUES`] values, and nothing behind it.
    ///
    /// # Errors
    /// Not JSON, not UTF-8, too deep or too many values.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, JsonError> {
        Self::parse_within(bytes, MAX_VALUES)
    }

    /// Reads one value of at most `max_values` values, and nothing behind it.
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn parse_within(bytes: &'a [u8], max_values: usize) -> Result<Self, JsonError> {
        let text = std::str::from_utf8(bytes)
            .map_err(|e| JsonError { at: e.valid_up_to(), reason: "the text is not valid UTF-8" })?;
        let mut reader = Reader { text, at: 0, left: max_values };
        reader.skip_space();
        let value = reader.value(MAX_DEPTH)?;
        reader.skip_space();
        if reader.at == text.len() { Ok(value) } else { Err(reader.fault("unexpected text behind the value")) }
    }

    /// The text, if it is a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if it is an array.
    pub fn as_array(&self) -> Option<&[Json<'a>]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, if it is an object.
    pub fn as_object(&self) -> Option<&[Member<'a>]> {
        match self {
            Self::Object(members) => Some(members),
            _ => None,
        }
    }

    /// The number, if it is a whole one of at most 64 bits without sign: `1`, `1.0` and `10e-1` are all 1.
    pub fn as_u64(&self) -> Option<u64> {
        let Self::Number(text) = self else { return None };
        if let Ok(whole) = text.parse() {
            return Some(whole);
        }
        let decimal = crate::canon::Decimal::read(text)?;
        decimal.to_u64()
    }

    /// Whether it is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Member `key` of an object; none for other values.
    pub fn get(&self, key: &str) -> Option<&Json<'a>> {
        get(self.as_object()?, key)
    }

    /// The same value without a borrow.
    pub fn into_owned(self) -> Json<'static> {
        match self {
            Self::Null => Json::Null,
            Self::Cut => Json::Cut,
            Self::Bool(value) => Json::Bool(value),
            Self::Number(text) => Json::Number(Cow::Owned(text.into_owned())),
            Self::String(text) => Json::String(Cow::Owned(text.into_owned())),
            Self::Array(items) => Json::Array(items.into_iter().map(Json::into_owned).collect()),
            Self::Object(members) => Json::Object(members.into_iter().map(Member::into_owned).collect()),
        }
    }
}

impl Member<'_> {
    /// The same member without a borrow.
    pub fn into_owned(self) -> Member<'static> {
        Member { key: Cow::Owned(self.key.into_owned()), value: self.value.into_owned(), span: self.span }
    }
}

/// The value under `key`, the first if there are several.
pub fn get<'m, 'a>(members: &'m [Member<'a>], key: &str) -> Option<&'m Json<'a>> {
    members.iter().find(|member| member.key == key).map(|member| &member.value)
}

/// A key that occurs more than once. Sorts, so that an object of a million keys costs no quadratic time.
pub fn duplicate<'m>(members: &'m [Member<'_>]) -> Option<&'m str> {
    let mut keys: Vec<&str> = members.iter().map(|member| &*member.key).collect();
    keys.sort_unstable();
    keys.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// How many more values may be read.
    left: usize,
}

impl<'a> Reader<'a> {
    fn fault(&self, reason: &'static str) -> JsonError {
        JsonError { at: self.at, reason }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Steps over `byte` if it is next.
    fn eat(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| self.fault("too many values"))?;
        match self.peek() {
            Some(b'"') => self.string().map(Json::String),
            Some(b'{') => self.object(self.deeper(depth)?),
            Some(b'[') => self.array(self.deeper(depth)?),
            Some(b'-' | b'0'..=b'9') => self.number().map(|text| Json::Number(Cow::Borrowed(text))),
            Some(b'n') => self.word("null", Json::Null),
            Some(b't') => self.word("true", Json::Bool(true)),
            Some(b'f') => self.word("false", Json::Bool(false)),
            Some(_) => Err(self.fault("expected a value")),
            None => Err(self.fault("the text ends inside a value")),
        }
    }

    fn deeper(&self, depth: usize) -> Result<usize, JsonError> {
        depth.checked_sub(1).ok_or_else(|| self.fault("nested too deeply"))
    }

    fn word(&mut self, word: &str, value: Json<'a>) -> Result<Json<'a>, JsonError> {
        if self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            self.at += word.len();
            Ok(value)
        } else {
            Err(self.fault("expected a value"))
        }
    }

    fn array(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut items = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.eat(b']') {
            return Ok(Json::Array(items));
        }
        loop {
            self.skip_space();
            items.push(self.value(depth)?);
            self.skip_space();
            if self.eat(b']') {
                return Ok(Json::Array(items));
            }
            if !self.eat(b',') {
                return Err(self.fault("expected `,` or `]`"));
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut members = Vec::new();
        self.at += 1;
        self.skip_space();
        if self.eat(b'}') {
            return Ok(Json::Object(members));
        }
        loop {
            self.skip_space();
            members.push(self.member(depth)?);
            self.skip_space();
            if self.eat(b'}') {
                return Ok(Json::Object(members));
            }
            if !self.eat(b',') {
                return Err(self.fault("expected `,` or `}`"));
            }
        }
    }

    fn member(&mut self, depth: usize) -> Result<Member<'a>, JsonError> {
        if self.peek() != Some(b'"') {
            return Err(self.fault("expected a key in quotes"));
        }
        let key = self.string()?;
        self.skip_space();
        if !self.eat(b':') {
            return Err(self.fault("expected `:`"));
        }
        self.skip_space();
        let start = self.at;
        let value = self.value(depth)?;
        Ok(Member { key, value, span: start..self.at })
    }

    fn number(&mut self) -> Result<&'a str, JsonError> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), JsonError> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start { Err(self.fault("expected a digit")) } else { Ok(()) }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        self.at = plain_end(self.text.as_bytes(), self.at);
        if self.eat(b'"') {
            return Ok(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut text = String::from(&self.text[start..self.at]);
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(Cow::Owned(text));
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.fault("a control character inside a string")),
                None => return Err(self.fault("the text ends inside a string")),
            }
            let from = self.at;
            self.at = plain_end(self.text.as_bytes(), from);
            text.push_str(&self.text[from..self.at]);
        }
    }

    fn escape(&mut self) -> Result<char, JsonError> {
        self.at += 1;
        let char = match self.peek() {
            Some(plain @ (b'"' | b'\\' | b'/')) => char::from(plain),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return Err(self.fault("an unknown escape")),
        };
        self.at += 1;
        Ok(char)
    }

    /// `\uXXXX`, or a pair of surrogates; at the `u`.
    fn unicode(&mut self) -> Result<char, JsonError> {
        let first = self.hex4()?;
        if !(0xD800..0xE000).contains(&first) {
            return Ok(char::from_u32(first).expect("four hex digits without surrogates are a character"));
        }
        if first >= 0xDC00 || !(self.eat(b'\\') && self.peek() == Some(b'u')) {
            return Err(self.fault("a lone surrogate"));
        }
        let second = self.hex4()?;
        if !(0xDC00..0xE000).contains(&second) {
            return Err(self.fault("a lone surrogate"));
        }
        let code = 0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        Ok(char::from_u32(code).expect("a surrogate pair is a character"))
    }

    /// The four digits behind the `u` at the current place.
    fn hex4(&mut self) -> Result<u32, JsonError> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            code = code * 16 + digit.ok_or_else(|| self.fault("expected a hexadecimal digit"))?;
            self.at += 1;
        }
        Ok(code)
    }
}

/// The first place from `at` on that ends a run of plain string bytes: `"`, `\`, a control character, or the end.
/// In large steps, since prompts are most of every body: first as the compiler makes them of vector instructions, then
/// eight bytes a step (the well-known "has zero byte" trick; a false positive can only lie behind a true one).
fn plain_end(bytes: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = ONES << 7;
    let plain = |byte: &u8| *byte >= 0x20 && *byte != b'"' && *byte != b'\\';
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<32>) {
        if !chunk.iter().fold(true, |all, byte| all & plain(byte)) {
            break;
        }
        at += 32;
    }
    while let Some(chunk) = bytes.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        let word = u64::from_le_bytes(*chunk);
        let zero_in = |x: u64| x.wrapping_sub(ONES) & !x & HIGH;
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGH;
        let found = control | zero_in(word ^ (ONES * u64::from(b'"'))) | zero_in(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + bytes[at..].iter().take_while(|byte| plain(byte)).count()
}

#[cfg(test)]
mod tests;
