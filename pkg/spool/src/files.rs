//! The file operations that a spool needs, so that tests can fail, tear and forget each of them.

use rustix::fs::{FallocateFlags, FlockOperation};
use rustix::io::Errno;
use std::any::Any;
use std::fmt;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;

/// One directory. Names are relative to it.
pub trait Files: Send + Sync + fmt::Debug + 'static {
    /// Makes the directory if need be and takes its lock until the guard is dropped; `WouldBlock` if it is held,
    /// `Unsupported` on a network file system.
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>>;
    /// Names of the plain files in the directory.
    fn list(&self) -> io::Result<Vec<String>>;
    /// An empty file of this name, in place of any other.
    fn create(&self, name: &str) -> io::Result<Arc<dyn Handle>>;
    /// An existing file, for reading and writing.
    fn open(&self, name: &str) -> io::Result<Arc<dyn Handle>>;
    /// Renames atomically, in place of any other file of the name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, name: &str) -> io::Result<()>;
    /// Makes a directory in the directory, if need be.
    fn make_dir(&self, name: &str) -> io::Result<()>;
    /// Removes an empty directory in the directory.
    fn remove_dir(&self, name: &str) -> io::Result<()>;
    /// Makes creations, renames and removals durable, in the directory itself (`""`) or in one inside.
    fn sync_dir(&self, name: &str) -> io::Result<()>;
    /// Changes when the machine restarts; all zero if unknown.
    fn boot_id(&self) -> [u8; 16];
}

/// One open file.
pub trait Handle: Send + Sync + fmt::Debug + 'static {
    /// Reads up to `buf.len()` bytes; 0 at the end.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `buf`, in one system call if the kernel takes it whole.
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()>;
    /// Makes content and size durable.
    fn sync(&self) -> io::Result<()>;
    /// Cuts the file.
    fn truncate(&self, len: u64) -> io::Result<()>;
    /// Extends the file with zeros that are sure to have room; does nothing where the file system cannot promise it.
    fn preallocate(&self, len: u64) -> io::Result<()>;
    /// The size in bytes.
    fn size(&self) -> io::Result<u64>;
    /// Device and inode: the same for every handle of one file, and for no other file while it is open.
    fn identity(&self) -> io::Result<(u64, u64)>;
}

/// A directory of the operating system.
#[derive(Debug)]
pub struct Disk {
    dir: PathBuf,
}

impl Disk {
    /// The directory at `dir`, which need not exist.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true).mode(0o600);
        options
    }

    /// NFS and SMB, by `statfs(2)` `f_type`: their locks do not stop a writer on another machine.
    fn is_network(dir: &File) -> io::Result<bool> {
        const TYPES: [u32; 4] = [0x6969, 0x517b, 0xff53_4d42, 0xfe53_4d42];
        let kind = rustix::fs::fstatfs(dir)?.f_type;
        Ok(TYPES.iter().any(|&t| i64::from(t) == kind || i64::from(t.cast_signed()) == kind))
    }
}

impl Files for Disk {
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.dir)?;
        if Self::is_network(&File::open(&self.dir)?)? {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let file = Self::options().create(true).truncate(false).open(self.dir.join("LOCK"))?;
        // flock, not fcntl: an fcntl lock is dropped as soon as any descriptor of the file is closed.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Box::new(file))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                names.extend(entry.file_name().into_string().ok());
            }
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn Handle>> {
        Ok(Arc::new(Self::options().create(true).truncate(true).open(self.dir.join(name))?))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Handle>> {
        Ok(Arc::new(Self::options().open(self.dir.join(name))?))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.dir.join(from), self.dir.join(to))
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.dir.join(name))
    }

    fn make_dir(&self, name: &str) -> io::Result<()> {
        std::fs::create_dir_all(self.dir.join(name))
    }

    fn remove_dir(&self, name: &str) -> io::Result<()> {
        std::fs::remove_dir(self.dir.join(name))
    }

    fn sync_dir(&self, name: &str) -> io::Result<()> {
        File::open(self.dir.join(name))?.sync_all()
    }

    fn boot_id(&self) -> [u8; 16] {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        uuid::Uuid::try_parse(text.trim()).unwrap_or_default().into_bytes()
    }
}

impl Handle for File {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        FileExt::read_at(self, buf, offset)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(buf, offset)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(self)?)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        match rustix::fs::fallocate(self, FallocateFlags::empty(), 0, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
            other => Ok(other?),
        }
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        let found = self.metadata()?;
        Ok((found.dev(), found.ino()))
    }
}
