//! Standard output and error for commands. A closed pipe (`| head`) is not a fault.

use std::io::Write;

/// Prints to standard output.
pub(crate) fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Prints a line to standard error.
pub(crate) fn complain(text: &str) {
    drop(writeln!(std::io::stderr().lock(), "{text}"));
}
