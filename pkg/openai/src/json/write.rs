//! Writing values. Numbers go out as they came in; strings with the shortest escapes.

use super::{Json, Member};
use std::borrow::Cow;

impl Json<'_> {
    /// Appends the value without white space.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null | Self::Cut => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Number(text) => out.extend_from_slice(text.as_bytes()),
            Self::String(text) => write_str(text, out),
            Self::Array(items) => {
                out.push(b'[');
                for (i, item) in items.iter().enumerate() {
                    comma(i, out);
                    item.write(out);
                }
                out.push(b']');
            }
            Self::Object(members) => {
                out.push(b'{');
                for (i, member) in members.iter().enumerate() {
                    comma(i, out);
                    member.write(out);
                }
                out.push(b'}');
            }
        }
    }

    /// A string value.
    pub fn text(text: &str) -> Json<'static> {
        Json::String(Cow::Owned(text.to_owned()))
    }
}

impl Member<'_> {
    /// Appends `"key":value`.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_str(&self.key, out);
        out.push(b':');
        self.value.write(out);
    }
}

fn comma(index: usize, out: &mut Vec<u8>) {
    if index > 0 {
        out.push(b',');
    }
}

/// Appends `text` as a JSON string, quotes included.
pub fn write_str(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut from = 0;
    loop {
        let end = super::plain_end(bytes, from);
        out.extend_from_slice(&bytes[from..end]);
        let Some(&byte) = bytes.get(end) else { break };
        escape(byte, out);
        from = end + 1;
    }
    out.push(b'"');
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' | b'\\' => byte,
        0x08 => b'b',
        0x0C => b'f',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        _ => {
            let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}
