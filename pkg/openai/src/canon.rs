//! Canonical digests: two trees have the same digest exactly if they mean the same JSON.
//!
//! Key order, white space, the choice of escapes and the way a number is written (`0`, `0.0`, `-0`, `1e0`) do not matter.
//! Every value starts with a tag and every length is written, so no two different trees give the same bytes. Numbers are
//! compared as exact decimals, never as floats: 2^53 + 1 is not 2^53.

use crate::json::{Json, Member};
use sha2::{Digest, Sha256};

/// SHA-256 of `members` as one object under a domain label.
pub fn digest<'m>(domain: &[u8], members: impl Iterator<Item = &'m Member<'m>>) -> [u8; 32] {
    let mut canon = Canon { hash: Sha256::new(), buf: Vec::with_capacity(FLUSH + 512) };
    canon.bytes(b'd', domain);
    canon.members(members.collect());
    canon.hash.update(&canon.buf);
    canon.hash.finalize().into()
}

/// Small pieces are gathered up to this many bytes: a hash update for each costs more than the hash.
const FLUSH: usize = 1024;

struct Canon {
    hash: Sha256,
    buf: Vec<u8>,
}

impl Canon {
    fn value(&mut self, value: &Json<'_>) {
        match value {
            Json::Null => self.buf.push(b'n'),
            Json::Bool(true) => self.buf.push(b't'),
            Json::Bool(false) => self.buf.push(b'f'),
            Json::Cut => self.buf.push(b'c'),
            Json::Number(text) => self.number(text),
            Json::String(text) => self.bytes(b's', text.as_bytes()),
            Json::Array(items) => {
                self.head(b'[', items.len());
                for item in items {
                    self.value(item);
                }
            }
            Json::Object(members) => self.members(members.iter().collect()),
        }
    }

    /// Sorted by key; equal keys keep their order, since readers disagree on which of them counts.
    fn members(&mut self, mut members: Vec<&Member<'_>>) {
        members.sort_by(|a, b| a.key.cmp(&b.key));
        self.head(b'{', members.len());
        for member in members {
            self.bytes(b'k', member.key.as_bytes());
            self.value(&member.value);
        }
    }

    fn number(&mut self, text: &str) {
        match Decimal::read(text) {
            Some(decimal) => {
                self.buf.extend_from_slice(&[b'0', u8::from(decimal.negative)]);
                self.buf.extend_from_slice(&decimal.exponent.to_be_bytes());
                self.bytes(b'9', &decimal.digits);
            }
            None => self.bytes(b'r', text.as_bytes()),
        }
    }

    fn bytes(&mut self, tag: u8, bytes: &[u8]) {
        self.head(tag, bytes.len());
        if bytes.len() > FLUSH {
            self.flush();
            self.hash.update(bytes);
        } else {
            self.buf.extend_from_slice(bytes);
        }
    }

    fn head(&mut self, tag: u8, len: usize) {
        if self.buf.len() > FLUSH {
            self.flush();
        }
        self.buf.push(tag);
        self.buf.extend_from_slice(&(len as u64).to_be_bytes());
    }

    fn flush(&mut self) {
        self.hash.update(&self.buf);
        self.buf.clear();
    }
}

/// A number as `digits * 10^exponent`, without leading or trailing zeros; zero has no digits, no sign, exponent 0.
pub(crate) struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    /// Reads a number that is valid JSON. None if its exponent is beyond 64 bits.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).skip_while(|digit| *digit == b'0').collect();
        let significant = digits.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
        if significant == 0 {
            return Some(Self { negative: false, digits: Vec::new(), exponent: 0 });
        }
        let zeros = i64::try_from(digits.len() - significant).ok()?;
        digits.truncate(significant);
        let shift = zeros - i64::try_from(fraction.len()).ok()?;
        Some(Self { negative, digits, exponent: exponent.parse::<i64>().ok()?.checked_add(shift)? })
    }

    /// The whole number it is, if it is one without sign that fits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        if self.digits.is_empty() {
            return Some(0);
        }
        let digits: u64 = std::str::from_utf8(&self.digits).ok()?.parse().ok()?;
        let scale = 10u64.checked_pow(u32::try_from(self.exponent).ok()?)?;
        if self.negative { None } else { digits.checked_mul(scale) }
    }
}

#[cfg(test)]
mod tests;
