//! Brotli (RFC 7932) of uncompressed meta-blocks (§9.2): valid for every decoder, with no compressor to carry.

/// A 64 KiB window (`0`), then an empty metadata block (ISLAST 0, MNIBBLES 3, reserved 0, MSKIPBYTES 0), which brings
/// the stream to a byte border so that every piece can begin at one.
pub(crate) const START: [u8; 1] = [0x0C];

/// ISLAST 1, ISLASTEMPTY 1.
pub(crate) const END: [u8; 1] = [0x03];

/// Appends a piece that a decoder can give out at once.
pub(crate) fn piece(out: &mut Vec<u8>, data: &[u8]) {
    for block in data.chunks(1 << 16) {
        // ISLAST 0, MNIBBLES 0 (four nibbles), MLEN - 1, ISUNCOMPRESSED 1, then bits to the byte border.
        let length = u32::try_from(block.len() - 1).expect("blocks are cut to 64 KiB");
        out.extend_from_slice(&((length << 3) | (1 << 19)).to_le_bytes()[..3]);
        out.extend_from_slice(block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_has_the_header_that_the_format_gives_it() {
        let mut out = Vec::new();
        piece(&mut out, b"hello");
        assert_eq!(out, [0x20, 0x00, 0x08, b'h', b'e', b'l', b'l', b'o']);
        let mut long = Vec::new();
        piece(&mut long, &vec![7; (1 << 16) + 1]);
        assert_eq!((&long[..3], &long[3 + (1 << 16)..]), (&[0xF8, 0xFF, 0x0F][..], &[0x00, 0x00, 0x08, 7][..]));
    }
}
