//! gzip (RFC 1952) of stored blocks (RFC 1951 §3.2.4): valid for every decoder, with no compressor to carry.

/// One gzip member, written piece by piece.
pub(crate) struct Gzip {
    crc: u32,
    len: u32,
}

impl Gzip {
    /// Starts a member; the header goes to `out`.
    pub(crate) fn start(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
        Self { crc: !0, len: 0 }
    }

    /// Appends a piece that a decoder can give out at once.
    pub(crate) fn piece(&mut self, out: &mut Vec<u8>, data: &[u8]) {
        for block in data.chunks(usize::from(u16::MAX)) {
            stored_block(out, 0, block);
        }
        for byte in data {
            self.crc ^= u32::from(*byte);
            for _ in 0..8 {
                let poly = if self.crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
                self.crc = (self.crc >> 1) ^ poly;
            }
        }
        // ISIZE is the length modulo 2^32.
        self.len = self.len.wrapping_add(u32::try_from(data.len() & 0xFFFF_FFFF).expect("masked to 32 bits"));
    }

    /// The last block, checksum and length.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        stored_block(out, 1, &[]);
        out.extend_from_slice(&(!self.crc).to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }
}

fn stored_block(out: &mut Vec<u8>, last: u8, data: &[u8]) {
    let len = u16::try_from(data.len()).expect("blocks are cut to 64 KiB");
    out.push(last);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&(!len).to_le_bytes());
    out.extend_from_slice(data);
}

#[cfg(test)]
mod tests {
    use super::Gzip;

    #[test]
    fn the_trailer_holds_the_checksum_of_the_standard_test_text() {
        let mut out = Vec::new();
        let mut gzip = Gzip::start(&mut out);
        gzip.piece(&mut out, b"1234");
        gzip.piece(&mut out, b"56789");
        gzip.finish(&mut out);
        let trailer = &out[out.len() - 8..];
        assert_eq!(trailer, [0x26, 0x39, 0xF4, 0xCB, 9, 0, 0, 0], "CRC-32 check value 0xCBF43926 and the length");
        assert_eq!(out[10..15], [0, 4, 0, 0xFB, 0xFF]);
    }
}
