//! Content encodings, event by event: what is written so far can always be decoded to its last byte.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::brotli;
use crate::gzip::Gzip;

/// A content encoding, sent whether asked for or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Encoding {
    /// RFC 1952.
    #[serde(rename = "gzip")]
    Gzip,
    /// RFC 7932.
    #[serde(rename = "br")]
    Brotli,
}

impl Encoding {
    /// As `Content-Encoding` has it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
        }
    }

    /// Encodes each frame so that it can be decoded alone with what came before. The header rides on the first frame;
    /// the trailer is a frame of its own, after all that can be read.
    pub(crate) fn apply(self, frames: &[Bytes]) -> Vec<Bytes> {
        match self {
            Self::Gzip => gzip(frames),
            Self::Brotli => brotli(frames),
        }
    }
}

fn gzip(frames: &[Bytes]) -> Vec<Bytes> {
    let mut piece = Vec::new();
    let mut gzip = Gzip::start(&mut piece);
    let mut out = Vec::with_capacity(frames.len() + 1);
    for frame in frames {
        gzip.piece(&mut piece, frame);
        out.push(std::mem::take(&mut piece).into());
    }
    gzip.finish(&mut piece);
    out.push(piece.into());
    out
}

fn brotli(frames: &[Bytes]) -> Vec<Bytes> {
    let mut piece = brotli::START.to_vec();
    let mut out = Vec::with_capacity(frames.len() + 1);
    for frame in frames {
        brotli::piece(&mut piece, frame);
        out.push(std::mem::take(&mut piece).into());
    }
    piece.extend_from_slice(&brotli::END);
    out.push(piece.into());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_frame_is_encoded_alone_and_the_trailer_is_the_last() {
        let frames = [Bytes::from_static(b"a"), Bytes::from_static(b"bc")];
        let br = Encoding::Brotli.apply(&frames);
        assert_eq!(br, [&b"\x0C\x00\x00\x08a"[..], b"\x08\x00\x08bc", b"\x03"]);
        let gz = Encoding::Gzip.apply(&frames);
        assert_eq!(gz[0], b"\x1f\x8b\x08\0\0\0\0\0\0\xff\0\x01\0\xfe\xffa"[..]);
        assert_eq!((&gz[1][..], gz[2].len()), (&b"\0\x02\0\xfd\xffbc"[..], 13));
    }
}
