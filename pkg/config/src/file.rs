//! Reading the files that a configuration names. A device or a pipe in the place of one would never end, or never begin.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// No key, secret or configuration is nearly as large.
const LIMIT: u64 = 1 << 20;

/// The content of a plain file of at most 1 MiB; symbolic links are followed.
///
/// # Errors
/// The file cannot be read, is larger, or is something else, such as a device, a pipe or a folder; that it does not exist
/// is [`io::ErrorKind::NotFound`].
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    // Before it is opened: opening a pipe waits for its writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("it is not a plain file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LIMIT {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}

/// The same as text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read_file(path)?).map_err(|_| io::Error::other("it is not UTF-8 text"))
}
