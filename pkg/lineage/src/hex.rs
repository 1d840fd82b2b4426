//! Lowercase hexadecimal, the form of byte strings in statements.

const DIGITS: &[u8; 16] = b"0123456789abcdef";

/// Appends `bytes` in hexadecimal.
pub(crate) fn push(out: &mut Vec<u8>, bytes: &[u8]) {
    for &byte in bytes {
        out.extend_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
    }
}

/// `bytes` in hexadecimal.
pub(crate) fn text(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// The `N` bytes that `text` spells in exactly `2 * N` lowercase digits.
pub(crate) fn array<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    let mut out = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

/// The bytes that `text` spells in lowercase digits.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[high, low]: &[u8; 2]| Some(digit(*high)? << 4 | digit(*low)?);
    if rest.is_empty() { pairs.iter().map(byte).collect() } else { None }
}

const fn digit(c: u8) -> Option<u8> {
    match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lowercase_digits_of_the_exact_length_are_read() {
        assert_eq!(array::<2>(&text(&[0x0f, 0xa0])), Some([0x0f, 0xa0]));
        assert_eq!(array::<2>("0FA0"), None);
        assert_eq!(array::<2>("0fa"), None);
        assert_eq!(array::<2>("0fa00"), None);
    }
}
