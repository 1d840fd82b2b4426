//! Payloads made small for a row: what is random in a statement as bytes, what is the same in all statements by reference to a
//! dictionary.
//!
//! A statement is text of which about nine tenths are names that every other one has too, and hexadecimal digits. [`split`] takes
//! digests, UUIDs and numbers out of the text and leaves a mark for each; the rest hardly differs from one statement to the next, and
//! zstd (RFC 8878) with a prepared dictionary leaves some tens of bytes of it. The signed bytes themselves must come back:
//! whatever would not come back is stored as it is.
//!
//! What one process says of itself in each of its statements stands once beside them all, as *constants*: the text from `durability`
//! to the end of `gateway`, a zero byte, `"epoch":…,"id":"…"` of the log, a zero byte, and texts that many of its statements had
//! once their values were taken out (crate::learn); these go behind the dictionary. They come from statements, never from the
//! columns of a row: a row that was moved to another log still tells from which.
//!
//! Format, as long as `enc` is [`crate::columns::PACKED`]: a check byte over all that follows, since zstd writes the same in more
//! than one way; length of the compressed text as a varint (LEB128); the zstd frame without its magic number; the values in the
//! order of their marks. The dictionary belongs to the format: another one needs
//! another `enc`. [`crate::columns::PACKED_ALONE`] is the same with the dictionary and the marks of the version before, which had
//! neither check byte nor constants; it is read only.

use std::collections::HashMap;
use std::sync::LazyLock;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

const DICTIONARY: &[u8] = include_bytes!("rows.dict");
const DICTIONARY_BEFORE: &[u8] = include_bytes!("pack.dict");
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
/// The id of the log itself.
const OWN_LOG: u8 = 8;
/// As NEAR, for counts that take three bytes otherwise: places in the log.
const NEAR_COUNT: u8 = 11;
/// The two parts of the constants.
const GATEWAY: u8 = 14;
const LOG: u8 = 15;
const MARKS: [u8; 11] = [HEX_16, HEX_32, UUID, NUMBER, NEAR, AGAIN_16, AGAIN_32, OWN_LOG, NEAR_COUNT, GATEWAY, LOG];
/// From here on a number is taken for a time.
const LARGE: u64 = 100_000_000_000;
/// From here on for a count.
const COUNT: u64 = 1 << 14;

static ENCODER: LazyLock<EncoderDictionary<'static>> = LazyLock::new(|| EncoderDictionary::copy(DICTIONARY, LEVEL));
static DECODER: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));
static DECODER_BEFORE: LazyLock<DecoderDictionary<'static>> =
    LazyLock::new(|| DecoderDictionary::copy(DICTIONARY_BEFORE));

/// The constants that a statement tells; empty if it tells none.
pub(crate) fn constants(payload: &[u8]) -> Vec<u8> {
    let part = |from: &str, to: &str| {
        let text = std::str::from_utf8(payload).ok()?;
        let begin = text.find(from)?;
        let end = begin + text[begin..].find(to)? + to.len();
        Some(&text[begin..end])
    };
    let gateway = part("\"durability\":", "}");
    let log = part("\"log\":{", "}").and_then(|log| {
        let end = log.find(",\"seq\":")?;
        Some(&log[log.find("\"epoch\":").filter(|begin| *begin < end)?..end])
    });
    gateway.zip(log).map(|(gateway, log)| [gateway, log].join("\0").into_bytes()).unwrap_or_default()
}

/// Packs the payloads of a process.
pub(crate) struct Packer {
    compressor: Option<Compressor<'static>>,
    unpacker: Unpacker,
}

impl Packer {
    pub(crate) fn new(constants: &[u8]) -> Self {
        let unpacker = Unpacker::new(constants);
        let learnt = &unpacker.known.texts;
        let compressor = if learnt.is_empty() {
            Compressor::with_prepared_dictionary(&ENCODER)
        } else {
            Compressor::with_dictionary(LEVEL, &[DICTIONARY, learnt].concat())
        };
        Self { compressor: compressor.ok(), unpacker }
    }

    /// Takes the values out of a payload; none if it is to be stored as it is.
    pub(crate) fn split(&self, payload: &[u8]) -> Option<Split> {
        if payload.len() > MAX_BYTES {
            return None;
        }
        split(payload, &self.unpacker.known).map(|(text, values)| Split { text, values })
    }

    /// The packed payload; none if it is to be stored as it is, because it would not come back or not become smaller.
    pub(crate) fn pack(&mut self, payload: &[u8], Split { text, values }: &Split) -> Option<Vec<u8>> {
        let frame = self.compressor.as_mut()?.compress(text).ok()?;
        let frame = frame.strip_prefix(&MAGIC)?;
        let mut packed = Vec::with_capacity(frame.len() + values.len() + 4);
        packed.push(0);
        put_varint(&mut packed, frame.len() as u64);
        packed.extend_from_slice(frame);
        packed.extend_from_slice(values);
        packed[0] = check(&packed[1..]);
        let back = self.unpacker.unpack(&packed);
        (packed.len() < payload.len() && back.as_deref() == Some(payload)).then_some(packed)
    }
}

/// A payload, taken apart.
pub(crate) struct Split {
    /// Text with marks.
    pub(crate) text: Vec<u8>,
    values: Vec<u8>,
}

/// Unpacks the payloads of a process.
pub(crate) struct Unpacker {
    known: Known,
    decoder: Option<DecoderDictionary<'static>>,
}

impl Unpacker {
    pub(crate) fn new(constants: &[u8]) -> Self {
        let known = Known::read(constants);
        let own = |texts: &Vec<u8>| DecoderDictionary::copy(&[DICTIONARY, texts].concat());
        let decoder = Some(&known.texts).filter(|texts| !texts.is_empty()).map(own);
        Self { known, decoder }
    }

    /// The payload that was packed; none for bytes that no payload packs to.
    pub(crate) fn unpack(&self, packed: &[u8]) -> Option<Vec<u8>> {
        let (checked, packed) = packed.split_first()?;
        let decoder = self.decoder.as_ref().unwrap_or(&DECODER);
        (check(packed) == *checked).then(|| unpack_known(packed, decoder, &self.known))?
    }
}

/// The payload that was packed by the version without constants.
pub(crate) fn unpack_alone(packed: &[u8]) -> Option<Vec<u8>> {
    unpack_known(packed, &DECODER_BEFORE, &Known::NONE)
}

fn unpack_known(packed: &[u8], dictionary: &DecoderDictionary<'static>, known: &Known) -> Option<Vec<u8>> {
    let mut rest = packed;
    let length = usize::try_from(take_varint(&mut rest)?).ok()?;
    let (frame, values) = rest.split_at_checked(length)?;
    // A bit that zstd ignores, and one that it reserves (RFC 8878, 3.1.1.1.1): there is one way to write a payload.
    if frame.first()? & 0x18 != 0 {
        return None;
    }
    let mut decompressor = Decompressor::with_prepared_dictionary(dictionary).ok()?;
    let text = decompressor.decompress(&[&MAGIC, frame].concat(), MAX_BYTES).ok()?;
    join(&text, values, known)
}

/// Differs for bytes of which one differs: FNV-1a in a ring of 256, where each step can be undone.
fn check(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0xc5, |sum: u8, byte| (sum ^ byte).wrapping_mul(0x93))
}

/// The constants, taken apart.
struct Known {
    gateway: Vec<u8>,
    log: Vec<u8>,
    own: Option<[u8; 16]>,
    texts: Vec<u8>,
}

impl Known {
    const NONE: Self = Self { gateway: Vec::new(), log: Vec::new(), own: None, texts: Vec::new() };

    fn read(constants: &[u8]) -> Self {
        let mut parts = constants.splitn(3, |byte| *byte == 0).map(<[u8]>::to_vec);
        let (Some(gateway), Some(log)) = (parts.next(), parts.next()) else { return Self::NONE };
        let own = log.len().checked_sub(37).and_then(|from| uuid(&log[from..]));
        Self { gateway, log, own, texts: parts.next().unwrap_or_default() }
    }

    /// Which part stands here, and how long it is.
    fn at(&self, rest: &[u8]) -> Option<(u8, usize)> {
        let parts = [(GATEWAY, &self.gateway), (LOG, &self.log)];
        let here = parts.into_iter().find(|(_, part)| !part.is_empty() && rest.starts_with(part));
        here.map(|(mark, part)| (mark, part.len()))
    }
}

/// Text with marks, and the values that belong to them.
fn split(payload: &[u8], known: &Known) -> Option<(Vec<u8>, Vec<u8>)> {
    if payload.iter().any(|byte| MARKS.contains(byte)) {
        return None;
    }
    let (mut text, mut values, mut seen) = (Vec::with_capacity(payload.len()), Vec::new(), Seen::default());
    let mut at = 0;
    while let Some(rest) = payload.get(at..).filter(|rest| !rest.is_empty()) {
        let fresh = at == 0 || !payload[at - 1].is_ascii_alphanumeric();
        if let Some((mark, length)) = known.at(rest) {
            at += length;
            text.push(mark);
        } else if let Some(bytes) = fresh.then(|| uuid(rest)).flatten() {
            at += 36;
            if known.own == Some(bytes) {
                text.push(OWN_LOG);
            } else {
                text.push(UUID);
                values.extend_from_slice(&bytes);
                seen.dated(&bytes, known);
            }
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
            let (mark, value) = seen.near(number, known);
            text.push(mark);
            put_varint(&mut values, value);
        } else {
            text.push(rest[0]);
            at += 1;
        }
    }
    Some((text, values))
}

/// The reverse of [`split`].
fn join(text: &[u8], mut values: &[u8], known: &Known) -> Option<Vec<u8>> {
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
            GATEWAY if known.own.is_some() => payload.extend_from_slice(&known.gateway),
            LOG if known.own.is_some() => payload.extend_from_slice(&known.log),
            UUID | OWN_LOG if byte == UUID || known.own.is_some() => {
                let bytes: [u8; 16] = match known.own {
                    Some(own) if byte == OWN_LOG => own,
                    _ => take(&mut values, 16)?.try_into().ok()?,
                };
                if byte == UUID {
                    seen.dated(&bytes, known);
                }
                let mut form = [0; 36];
                uuid::Uuid::from_bytes(bytes).hyphenated().encode_lower(&mut form);
                payload.extend_from_slice(&form);
            }
            NUMBER | NEAR | NEAR_COUNT => {
                let value = take_varint(&mut values)?;
                let number = if byte == NUMBER { value } else { seen.before(byte, value)? };
                seen.near(number, known);
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
    /// Where each of them stands: a row that somebody made up may hold very many.
    places: HashMap<Vec<u8>, u64>,
    time: Option<u64>,
    count: Option<u64>,
}

impl Seen {
    /// Where these digits stood before; else they are remembered.
    fn place(&mut self, bytes: &[u8]) -> Option<u64> {
        let place = self.places.get(bytes).copied();
        if place.is_none() {
            self.places.insert(bytes.to_vec(), self.digests.len() as u64);
            self.digests.push(bytes.to_vec());
        }
        place
    }

    /// The first UUID is the record's own, and begins with a time (RFC 9562, 5.7).
    fn dated(&mut self, id: &[u8; 16], known: &Known) {
        if self.time.is_none() && known.own.is_some() {
            self.time = Some(id[..6].iter().fold(0, |ms, byte| ms << 8 | u64::from(*byte)));
        }
    }

    /// A mark and a value for this number: how far it is from the one before it that was as large, odd if it is below; itself if
    /// that is far, or it is the first.
    fn near(&mut self, number: u64, known: &Known) -> (u8, u64) {
        let (mark, before, limit) = match number {
            LARGE.. => (NEAR, self.time.replace(number), 1 << 24),
            COUNT.. if known.own.is_some() => (NEAR_COUNT, self.count.replace(number), 1 << 12),
            _ => return (NUMBER, number),
        };
        let near = before.filter(|before| number.abs_diff(*before) < limit);
        near.map_or((NUMBER, number), |before| (mark, number.abs_diff(before) << 1 | u64::from(number < before)))
    }

    fn before(&self, mark: u8, difference: u64) -> Option<u64> {
        let before = if mark == NEAR { self.time? } else { self.count? };
        let distance = difference >> 1;
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
pub(crate) mod tests;
