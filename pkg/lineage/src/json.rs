//! A writer of canonical JSON, small enough for the path of every answer.
//!
//! Canonical here means: object keys ASCII, strictly ascending and so unique; no white space; integers from 0 to
//! 2^53 - 1, no fractions or exponents; no null; strings with the escapes that `serde_json` writes (`\"`, `\\`, `\b`,
//! `\f`, `\n`, `\r`, `\t`, `\u00xx` in lowercase for other control characters, all else as raw UTF-8), which are those of
//! RFC 8785 §3.2.2.2. Keys are written in the order in which the caller names them: the callers are ordered by hand, and a
//! property test reads every statement back with the verifier's own strict reader.

use crate::hex;

/// The largest integer that every JSON reader keeps exactly: 2^53 - 1.
pub(crate) const MAX_INT: u64 = (1 << 53) - 1;

/// An object or array being written at the end of a buffer.
pub(crate) struct Json<'a>(&'a mut Vec<u8>);

impl<'a> Json<'a> {
    /// Writes behind what `out` holds.
    pub(crate) fn at_end(out: &'a mut Vec<u8>) -> Self {
        Self(out)
    }

    /// Opens the outermost object.
    pub(crate) fn start(&mut self) {
        self.0.push(b'{');
    }

    /// Closes the outermost object.
    pub(crate) fn end(&mut self) {
        self.0.push(b'}');
    }

    /// Bytes in the buffer.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Writes the separator that is due, then the key.
    fn key(&mut self, key: &str) -> &mut Self {
        self.comma();
        self.0.push(b'"');
        self.0.extend_from_slice(key.as_bytes());
        self.0.extend_from_slice(b"\":");
        self
    }

    fn comma(&mut self) {
        if !matches!(self.0.last(), Some(b'{' | b'[' | b',') | None) {
            self.0.push(b',');
        }
    }

    /// A nested object.
    pub(crate) fn object(&mut self, key: &str, fields: impl FnOnce(&mut Json<'_>)) {
        self.key(key).0.push(b'{');
        fields(self);
        self.0.push(b'}');
    }

    /// A nested array of objects.
    pub(crate) fn objects<T>(&mut self, key: &str, items: &[T], mut fields: impl FnMut(&mut Json<'_>, &T)) {
        self.key(key).0.push(b'[');
        for item in items {
            self.comma();
            self.0.push(b'{');
            fields(self, item);
            self.0.push(b'}');
        }
        self.0.push(b']');
    }

    /// An integer; one that other readers could not keep becomes 2^53 - 1.
    pub(crate) fn int(&mut self, key: &str, value: u64) {
        let mut digits = itoa::Buffer::new();
        self.key(key).0.extend_from_slice(digits.format(value.min(MAX_INT)).as_bytes());
    }

    pub(crate) fn bool(&mut self, key: &str, value: bool) {
        self.key(key).0.extend_from_slice(if value { b"true" } else { b"false" });
    }

    /// Bytes, as lowercase hexadecimal.
    pub(crate) fn hex(&mut self, key: &str, value: &[u8]) {
        self.key(key).0.push(b'"');
        hex::push(self.0, value);
        self.0.push(b'"');
    }

    pub(crate) fn text(&mut self, key: &str, value: &str) {
        self.key(key);
        if value.bytes().all(|b| b >= b' ' && b != b'"' && b != b'\\') {
            self.0.push(b'"');
            self.0.extend_from_slice(value.as_bytes());
            self.0.push(b'"');
        } else {
            serde_json::to_writer(&mut *self.0, value).expect("a Vec takes every write, and a str is a JSON string");
        }
    }

    /// An id in the hyphenated form of RFC 9562.
    pub(crate) fn uuid(&mut self, key: &str, value: uuid::Uuid) {
        let mut form = [0; uuid::fmt::Hyphenated::LENGTH];
        self.text(key, value.hyphenated().encode_lower(&mut form));
    }

    pub(crate) fn some_int(&mut self, key: &str, value: Option<u64>) {
        if let Some(value) = value {
            self.int(key, value);
        }
    }

    pub(crate) fn some_hex(&mut self, key: &str, value: Option<&[u8]>) {
        if let Some(value) = value {
            self.hex(key, value);
        }
    }

    pub(crate) fn some_text(&mut self, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(key, value);
        }
    }
}
