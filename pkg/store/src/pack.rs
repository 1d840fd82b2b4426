//! Payloads made small for a row: what is random in a statement as bytes, what is the same in all statements by reference to a
//! dictionary.
//!
//! A statement is text of which about nine tenths are names that every other one has too, and hexadecimal digits. [`split`] takes
//! digests, UUIDs and numbers out of the text and leaves a mark for each; the rest hardly differs from one statement to the next, and
//! zstd (RFC 8878) with a prepared dictionary leaves some tens of bytes of it. The signed bytes themselves must come back:
//! whatever would not come back is stored as it is.
//!
//! Format, as long as `enc` is [`crate::columns::PACKED`]: length of the compressed text as a varint (LEB128); the zstd frame
//! without its magic number; the values in the order of their marks. The dictionary belongs to the format: another one needs
//! another `enc`.

use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

const DICTIONARY: &[u8] = include_bytes!("pack.dict");
const LEVEL: i32 = 3;
/// Larger ones are stored as they are; also what a stored one may become.
const MAX_BYTES: usize = 1 << 20;
const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Marks in the text. JSON has no such bytes; a payload that has them is not packed.
const HEX_16: u8 = 1;
const HEX_32: u8 = 2;
const UUID: u8 = 3;
const NUMBER: u8 = 4;
/// A number near the one before it that was as large: times of one answer.
const NEAR: u8 = 5;
/// Digits that stood in this payload before: the how-manieth of them.
const AGAIN_16: u8 = 6;
const AGAIN_32: u8 = 7;
const MARKS: std::ops::RangeInclusive<u8> = HEX_16..=AGAIN_32;
/// From here on a number is taken for a time.
const LARGE: u64 = 100_000_000_000;

static ENCODER: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

/// Packs the payloads of a batch.
pub(crate) struct Packer {
    compressor: Option<Compressor<'static>>,
}

impl Packer {
    pub(crate) fn new() -> Self {
        Self { compressor: Compressor::with_prepared_dictionary(&ENCODER).ok() }
    }

    /// The packed payload; none if it is to be stored as it is, because it would not come back or not become smaller.
    pub(crate) fn pack(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        if payload.len() > MAX_BYTES {
            return None;
        }
        let (text, values) = split(payload)?;
        let frame = self.compressor.as_mut()?.compress(&text).ok()?;
        let frame = frame.strip_prefix(&MAGIC)?;
        let mut packed = Vec::with_capacity(frame.len() + values.len() + 2);
        put_varint(&mut packed, frame.len() as u64);
        packed.extend_from_slice(frame);
        packed.extend_from_slice(&values);
        (packed.len() < payload.len() && unpack(&packed).as_deref() == Some(payload)).then_some(packed)
    }
}

/// The payload that was packed; none for bytes that no payload packs to.
pub(crate) fn unpack(packed: &[u8]) -> Option<Vec<u8>> {
    let mut rest = packed;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let (frame, values) = rest.split_at_checked(length)?;
    // A bit that zstd ignores, and one that it reserves (RFC 8878, 3.1.1.1.1): there is one way to write a payload.
    if frame.first()? & 0x18 != 0 {
        return None;
    }
    let mut decompressor = Decompressor::with_prepared_dictionary(&DECODER).ok()?;
    let text = decompressor.decompress(&[&MAGIC, frame].concat(), MAX_BYTES).ok()?;
    join(&text, values)
}

/// Text with marks, and the values that belong to them.
fn split(payload: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if payload.iter().any(|byte| MARKS.contains(byte)) {
        return None;
    }
    let (mut text, mut values, mut seen) = (Vec::with_capacity(payload.len()), Vec::new(), Seen::default());
    let mut at = 0;
    while let Some(rest) = payload.get(at..).filter(|rest| !rest.is_empty()) {
        let fresh = at == 0 || !payload[at - 1].is_ascii_alphanumeric();
        if let Some(bytes) = fresh.then(|| uuid(rest)).flatten() {
            at += 36;
            text.push(UUID);
            values.extend_from_slice(&bytes);
        } else if let Some((mark, bytes)) = fresh.then(|| digest(rest)).flatten() {
            at += bytes.len() * 2;
            if let Some(place) = seen.place(&bytes) {
                text.push(if mark == HEX_16 { AGAIN_16 } else { AGAIN_32 });
                put_varint(&mut values, place);
            } else {
                text.push(mark);
                values.extend_from_slice(&bytes);
            }
        } else if let Some((number, digits)) = fresh.then(|| number(rest)).flatten() {
            at += digits;
            let difference = seen.near(number);
            text.push(if difference.is_some() { NEAR } else { NUMBER });
            put_varint(&mut values, difference.unwrap_or(number));
        } else {
            text.push(rest[0]);
            at += 1;
        }
    }
    Some((text, values))
}

/// The reverse of [`split`].
fn join(text: &[u8], mut values: &[u8]) -> Option<Vec<u8>> {
    let (mut payload, mut seen) = (Vec::with_capacity(text.len() * 4), Seen::default());
    for &byte in text {
        match byte {
            HEX_16 | HEX_32 => {
                let bytes = take(&mut values, if byte == HEX_16 { 16 } else { 32 })?;
                seen.place(bytes);
                put_hex(&mut payload, bytes);
            }
            AGAIN_16 | AGAIN_32 => {
                let length = if byte == AGAIN_16 { 16 } else { 32 };
                let place = usize::try_from(take_varint(&mut values)?).ok()?;
                let bytes = seen.digests.get(place).filter(|bytes| bytes.len() == length)?;
                put_hex(&mut payload, bytes);
            }
            UUID => {
                let bytes: [u8; 16] = take(&mut values, 16)?.try_into().ok()?;
                let mut form = [0; 36];
                uuid::Uuid::from_bytes(bytes).hyphenated().encode_lower(&mut form);
                payload.extend_from_slice(&form);
            }
            NUMBER | NEAR => {
                let value = take_varint(&mut values)?;
                let number = if byte == NEAR { seen.before(value)? } else { value };
                seen.near(number);
                payload.extend_from_slice(number.to_string().as_bytes());
            }
            _ => payload.push(byte),
        }
        if payload.len() > MAX_BYTES {
            return None;
        }
    }
    values.is_empty().then_some(payload)
}

/// What stood in this payload before.
#[derive(Default)]
struct Seen {
    digests: Vec<Vec<u8>>,
    large: Option<u64>,
}

impl Seen {
    /// Where these digits stood before; else they are remembered.
    fn place(&mut self, bytes: &[u8]) -> Option<u64> {
        let place = self.digests.iter().position(|known| known == bytes);
        if place.is_none() {
            self.digests.push(bytes.to_vec());
        }
        place.map(|place| place as u64)
    }

    /// How far a large number is from the one before, odd if it is below; none if that is far, or it is the first.
    fn near(&mut self, number: u64) -> Option<u64> {
        if number < LARGE {
            return None;
        }
        let before = self.large.replace(number)?;
        let distance = number.abs_diff(before);
        (distance < 1 << 24).then_some(distance << 1 | u64::from(number < before))
    }

    fn before(&self, difference: u64) -> Option<u64> {
        let (before, distance) = (self.large?, difference >> 1);
        if difference & 1 == 1 { before.checked_sub(distance) } else { before.checked_add(distance) }
    }
}

/// A whole run of 32 or 64 digits.
fn digest(rest: &[u8]) -> Option<(u8, Vec<u8>)> {
    let digits = rest.iter().take(65).take_while(|byte| nibble(**byte).is_some()).count();
    let mark = match digits {
        32 => HEX_16,
        64 => HEX_32,
        _ => return None,
    };
    Some((mark, bytes(&rest[..digits])?))
}

fn uuid(rest: &[u8]) -> Option<[u8; 16]> {
    let form = rest.get(..36)?;
    if [8, 13, 18, 23].iter().any(|at| form[*at] != b'-') {
        return None;
    }
    let digits: Vec<u8> = form.iter().copied().filter(|byte| *byte != b'-').collect();
    bytes(&digits)?.try_into().ok()
}

/// A number as JSON writes it, and how many digits it has. Up to 18 of them, so that it fits.
fn number(rest: &[u8]) -> Option<(u64, usize)> {
    let digits = rest.iter().take(19).take_while(|byte| byte.is_ascii_digit()).count();
    if !(1..19).contains(&digits) || (digits > 1 && rest[0] == b'0') {
        return None;
    }
    Some((std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?, digits))
}

fn nibble(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    }
}

fn bytes(digits: &[u8]) -> Option<Vec<u8>> {
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

fn put_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    let digit = |nibble: u8| b"0123456789abcdef"[usize::from(nibble)];
    out.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]));
}

fn take<'v>(values: &mut &'v [u8], length: usize) -> Option<&'v [u8]> {
    let (taken, rest) = values.split_at_checked(length)?;
    *values = rest;
    Some(taken)
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn take_varint(values: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..63).step_by(7) {
        let byte = take(values, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return (byte > 0 || shift == 0).then_some(value);
        }
    }
    None
}

#[cfg(test)]
#[path = "pack_tests.rs"]
mod tests;
