//! Files of checkpoints that someone keeps elsewhere: whole signed notes, each with one empty line behind it.
//!
//! ```text
//! file = *( note LF )
//! note = origin LF size LF root LF  LF  1*( "\u{2014} " name " " signature LF )
//! ```
//!
//! Whole notes, because a root without its signature shows a fork but proves nobody guilty of it. Only appended to: a write
//! that was cut short leaves a fragment, behind which the next writer puts empty lines; a reader says where it stands, and
//! goes on behind it.

/// What is appended to such a file for `note`.
pub fn anchored(note: &str) -> String {
    format!("{note}\n")
}

/// The notes in such a file, in order; or for a line that belongs to none, its number, counted from 1. Nothing is checked
/// here but the form: three lines, an empty one, signature lines, an empty one.
pub fn notes_in(text: &str) -> Vec<Result<&str, usize>> {
    let (mut found, mut rest, mut line) = (Vec::new(), text, 1);
    while !rest.is_empty() {
        let taken = if let Some(len) = note_len(rest) {
            found.push(Ok(&rest[..len]));
            len
        } else {
            let len = rest.find('\n').map_or(rest.len(), |at| at + 1);
            if len > 1 {
                found.push(Err(line));
            }
            len
        };
        line += rest[..taken].matches('\n').count();
        rest = &rest[taken..];
    }
    found
}

/// The length of the note that `text` begins with, which must be followed by an empty line.
fn note_len(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut line = || {
        let len = text[at..].find('\n')? + 1;
        at += len;
        Some((&text[at - len..at - 1], at))
    };
    for _ in 0..3 {
        line().filter(|(text, _)| !text.is_empty())?;
    }
    line().filter(|(text, _)| text.is_empty())?;
    let (_, mut end) = line().filter(|(text, _)| text.starts_with("\u{2014} "))?;
    loop {
        match line()? {
            ("", _) => return Some(end),
            (text, behind) if text.starts_with("\u{2014} ") => end = behind,
            _ => return None,
        }
    }
}
