//! Writing JSON objects and arrays, member by member.

use signet_openai::wire::{Json, write_str};

/// An object or array that is being written; closed by [`Self::end`].
pub(crate) struct Writer<'o> {
    out: &'o mut Vec<u8>,
    first: bool,
    close: u8,
}

impl<'o> Writer<'o> {
    pub(crate) fn object(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true, close: b'}' }
    }

    pub(crate) fn array(out: &'o mut Vec<u8>) -> Self {
        out.push(b'[');
        Self { out, first: true, close: b']' }
    }

    pub(crate) fn end(self) {
        self.out.push(self.close);
    }

    /// Where the next item of an array goes.
    pub(crate) fn item(&mut self) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.first) {
            self.out.push(b',');
        }
        self.out
    }

    /// Where the value of the next member goes.
    pub(crate) fn key(&mut self, key: &str) -> &mut Vec<u8> {
        let out = self.item();
        write_str(key, out);
        out.push(b':');
        out
    }

    pub(crate) fn text(&mut self, key: &str, text: &str) -> &mut Self {
        write_str(text, self.key(key));
        self
    }

    /// A value that is JSON already.
    pub(crate) fn raw(&mut self, key: &str, json: &str) -> &mut Self {
        self.key(key).extend_from_slice(json.as_bytes());
        self
    }

    pub(crate) fn value(&mut self, key: &str, value: &Json<'_>) -> &mut Self {
        value.write(self.key(key));
        self
    }

    /// The member only where there is a number.
    pub(crate) fn number(&mut self, key: &str, number: Option<&str>) -> &mut Self {
        if let Some(number) = number {
            self.raw(key, number);
        }
        self
    }
}
