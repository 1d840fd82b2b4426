//! Where a body of HTTP/1.1 ends (RFC 9112 §6 and §7), whatever pieces it comes in.

use bytes::{Buf, Bytes};

/// Bytes of chunk extensions and trailers of one body, which nobody reads.
const IGNORED_MAX: usize = 16 << 10;

/// What is still to come of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked(Chunks),
    /// All up to the end of the connection.
    UntilClose,
}

/// The peer broke the rules of chunks.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Where in a chunked body we are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chunks {
    at: At,
    /// Of the chunk.
    left: u64,
    ignored: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// Before the first digit of a size.
    Start,
    Size,
    /// Blanks behind a size.
    Blank,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the beginning of a line behind the last chunk.
    LineStart,
    Line,
    LineLf,
    EndLf,
    Over,
}

impl Framing {
    pub(crate) const fn chunked() -> Self {
        Self::Chunked(Chunks { at: At::Start, left: 0, ignored: 0 })
    }

    /// Whether nothing more comes.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self, Self::Length(0) | Self::Chunked(Chunks { at: At::Over, .. }))
    }

    /// The next piece of the body in what `came`; none if that is used up, or the body over.
    pub(crate) fn next(&mut self, came: &mut Bytes) -> Result<Option<Bytes>, Malformed> {
        match self {
            Self::Length(left) => Ok(take(left, came)),
            Self::UntilClose => Ok(Some(std::mem::take(came)).filter(|piece| !piece.is_empty())),
            Self::Chunked(chunks) => chunks.next(came),
        }
    }
}

/// At most `left` bytes. What is used up is let go.
fn take(left: &mut u64, came: &mut Bytes) -> Option<Bytes> {
    let size = usize::try_from(*left).unwrap_or(usize::MAX).min(came.len());
    *left -= size as u64;
    let piece = if size == came.len() { std::mem::take(came) } else { came.split_to(size) };
    Some(piece).filter(|piece| !piece.is_empty())
}

impl Chunks {
    fn next(&mut self, came: &mut Bytes) -> Result<Option<Bytes>, Malformed> {
        while self.at != At::Over && !came.is_empty() {
            if self.at == At::Data {
                let piece = take(&mut self.left, came);
                if self.left == 0 {
                    self.at = At::DataCr;
                }
                return Ok(piece);
            }
            self.at = self.behind(came.get_u8())?;
        }
        if came.is_empty() {
            *came = Bytes::new();
        }
        Ok(None)
    }

    fn behind(&mut self, byte: u8) -> Result<At, Malformed> {
        Ok(match (self.at, byte) {
            (At::Start | At::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                let digit = char::from(byte).to_digit(16).expect("a digit");
                let larger = self.left.checked_mul(16).and_then(|size| size.checked_add(u64::from(digit)));
                self.left = larger.ok_or(Malformed("a chunk of more bytes than can be counted"))?;
                At::Size
            }
            (At::Size | At::Blank, b' ' | b'\t') => At::Blank,
            (At::Size | At::Blank, b';') => At::Extension,
            (At::Size | At::Blank | At::Extension, b'\r') => At::SizeLf,
            (At::SizeLf, b'\n') if self.left == 0 => At::LineStart,
            (At::SizeLf, b'\n') => At::Data,
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => At::Start,
            (At::LineStart, b'\r') => At::EndLf,
            (At::Line, b'\r') => At::LineLf,
            (At::LineLf, b'\n') => At::LineStart,
            (At::EndLf, b'\n') => At::Over,
            (At::Extension | At::LineStart | At::Line, byte) if byte != b'\n' && self.ignored < IGNORED_MAX => {
                self.ignored += 1;
                if self.at == At::Extension { At::Extension } else { At::Line }
            }
            (At::Extension | At::LineStart | At::Line, _) => {
                return Err(Malformed("extensions or trailers that are broken or endless"));
            }
            _ => return Err(Malformed("what is no chunk where one should be")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The body, whether it is over, and what is left behind it.
    fn read(mut framing: Framing, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool, Vec<u8>), Malformed> {
        let (mut body, mut rest) = (Vec::new(), Vec::new());
        for piece in pieces {
            let mut came = Bytes::copy_from_slice(piece);
            while let Some(data) = framing.next(&mut came)? {
                assert!(!data.is_empty());
                body.extend_from_slice(&data);
            }
            assert!(came.is_empty() || framing.is_over());
            rest.extend_from_slice(&came);
        }
        Ok((body, framing.is_over(), rest))
    }

    fn whole(text: &str) -> Result<(Vec<u8>, bool, Vec<u8>), Malformed> {
        read(Framing::chunked(), &[text.as_bytes()])
    }

    proptest! {
        /// Chunks of any sizes, with blanks, extensions and trailers, cut at any places.
        #[test]
        fn chunks_are_put_together_wherever_they_are_cut(
            chunks in prop::collection::vec((prop::collection::vec(any::<u8>(), 1..40), 0usize..4), 0..12),
            trailers in 0usize..3,
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut wire = Vec::new();
            for (data, way) in &chunks {
                let size = ["{:x}", "{:X}", "000{:x}", "{:x} \t"][*way].replace("{:x}", &format!("{:x}", data.len()));
                let size = size.replace("{:X}", &format!("{:X}", data.len()));
                wire.extend_from_slice(format!("{size}{}\r\n", [";a=\"b\"", ""][way % 2]).as_bytes());
                wire.extend_from_slice(data);
                wire.extend_from_slice(b"\r\n");
            }
            wire.extend_from_slice(format!("0\r\n{}\r\nnext", "x-sum: 1\r\n".repeat(trailers)).as_bytes());
            let mut at: Vec<_> = cuts.iter().map(|cut| cut.index(wire.len())).chain([0, wire.len()]).collect();
            at.sort_unstable();
            let pieces: Vec<_> = at.windows(2).map(|cut| &wire[cut[0]..cut[1]]).collect();
            let body: Vec<u8> = chunks.into_iter().flat_map(|(data, _)| data).collect();
            prop_assert_eq!(read(Framing::chunked(), &pieces), Ok((body, true, b"next".to_vec())));
        }

        #[test]
        fn no_bytes_make_it_panic_or_go_back(wire in prop::collection::vec(any::<u8>(), 0..200)) {
            _ = read(Framing::chunked(), &[&wire]);
        }
    }

    #[test]
    fn what_breaks_the_rules_of_chunks_is_refused() {
        for bad in [
            "\r\n",
            "g\r\n",
            "-1\r\n",
            "1\n",
            "1 1\r\n",
            "2\r\nabc",
            "1\r\na\n",
            "1;\n",
            "10000000000000000\r\n",
            "0\r\n\n",
            "0\r\na\rb",
            "\u{85}",
            "1\r\r\n",
            "0\r\n\rx",
        ] {
            assert!(whole(bad).is_err(), "{bad:?}");
        }
        assert_eq!(whole("0\r\n\r\n"), Ok((vec![], true, vec![])));
        assert!(!whole("3\r\nabc\r\n0\r\n").expect("good so far").1, "the empty line is missing");
    }

    #[test]
    fn extensions_and_trailers_have_a_bound() {
        let endless = "x".repeat(IGNORED_MAX + 1);
        assert!(whole(&format!("1;{endless}\r\n")).is_err());
        assert!(whole(&format!("0\r\n{endless}\r\n\r\n")).is_err());
        let most = &endless[..IGNORED_MAX];
        assert_eq!(whole(&format!("1;{most}\r\na\r\n0\r\n\r\n")).map(|read| read.0), Ok(b"a".to_vec()));
    }

    #[test]
    fn a_length_is_counted_down_and_without_one_all_is_taken() {
        assert_eq!(read(Framing::Length(3), &[b"ab", b"cd"]), Ok((b"abc".to_vec(), true, b"d".to_vec())));
        assert_eq!(read(Framing::UntilClose, &[b"ab", b"cd"]), Ok((b"abcd".to_vec(), false, vec![])));
    }
}
