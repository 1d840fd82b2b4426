//! A directory in RAM that fails, tears, crashes and forgets on command. For tests only.

use crate::files::{Files, Handle};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

const SECTOR: usize = 512;

/// The kinds of call that change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// Creating a file.
    Create,
    /// Writing.
    Write,
    /// Syncing a file.
    Sync,
    /// Cutting a file.
    Truncate,
    /// Reserving room.
    Preallocate,
    /// Renaming.
    Rename,
    /// Removing a name.
    Unlink,
    /// Syncing a directory.
    SyncDir,
}

#[derive(Debug, Clone, Default)]
struct Inode {
    data: Vec<u8>,
    durable: Vec<u8>,
}

#[derive(Debug, Default)]
struct State {
    inodes: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    calls: u64,
    crash_at: Option<u64>,
    crashed: bool,
    faults: Vec<(Call, io::ErrorKind)>,
    full: bool,
    locked: bool,
    largest_read: usize,
    boot: u8,
}

/// The directory. Clones are the same directory.
#[derive(Debug, Clone, Default)]
pub struct SimFiles(Arc<Mutex<State>>);

impl SimFiles {
    /// An empty directory on a machine that was started.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { boot: 1, ..State::default() })))
    }

    /// How many changing calls were made.
    pub fn calls(&self) -> u64 {
        self.0.lock().calls
    }

    /// The process dies in the changing call number `call` (from 0): a write is half done, anything else is not, and
    /// every later call fails.
    pub fn crash_at(&self, call: u64) {
        self.0.lock().crash_at = Some(call);
    }

    /// Bytes asked for by the largest read.
    pub fn largest_read(&self) -> usize {
        self.0.lock().largest_read
    }

    /// Whether it died.
    pub fn crashed(&self) -> bool {
        self.0.lock().crashed
    }

    /// The process dies now.
    pub fn crash(&self) {
        self.0.lock().crashed = true;
    }

    /// The next call of this kind fails and changes nothing. A write that fails is half done.
    pub fn fail_next(&self, call: Call, error: io::ErrorKind) {
        self.0.lock().faults.push((call, error));
    }

    /// The disk has no more room, or has some again: no file grows, and a write beyond the end of one is half done.
    pub fn full(&self, full: bool) {
        self.0.lock().full = full;
    }

    /// What a new process finds: everything that was written.
    #[must_use]
    pub fn after_crash(&self) -> Self {
        let state = self.0.lock();
        let inodes = state.inodes.clone();
        let (names, durable_names) = (state.names.clone(), state.durable_names.clone());
        Self(Arc::new(Mutex::new(State { inodes, names, durable_names, boot: state.boot, ..State::default() })))
    }

    /// What is found after a power cut: what was synced, and of the rest those sectors that `keep` picks by file and
    /// sector number, in whatever order the disk wrote them.
    #[must_use]
    pub fn after_power_loss(&self, keep: impl Fn(usize, usize) -> bool) -> Self {
        let state = self.0.lock();
        let mut inodes = state.inodes.clone();
        for (file, inode) in inodes.iter_mut().enumerate() {
            let mut kept = inode.durable.clone();
            for (sector, written) in inode.data.chunks(SECTOR).enumerate() {
                let at = sector * SECTOR;
                if inode.durable.get(at..at + written.len()) != Some(written) && keep(file, sector) {
                    kept.resize(kept.len().max(at + written.len()), 0);
                    kept[at..at + written.len()].copy_from_slice(written);
                }
            }
            *inode = Inode { data: kept.clone(), durable: kept };
        }
        let names = state.durable_names.clone();
        let boot = state.boot.wrapping_add(1);
        Self(Arc::new(Mutex::new(State { inodes, durable_names: names.clone(), names, boot, ..State::default() })))
    }

    /// Changes a file behind the log's back.
    pub fn edit(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        let inode = state.names[name];
        let Inode { data, durable } = &mut state.inodes[inode];
        change(data);
        durable.clone_from(data);
    }

    /// A file's content.
    pub fn content(&self, name: &str) -> Vec<u8> {
        let state = self.0.lock();
        state.inodes[state.names[name]].data.clone()
    }

    /// All names, also in directories inside.
    pub fn names(&self) -> Vec<String> {
        self.0.lock().names.keys().cloned().collect()
    }

    fn change<T>(&self, call: Call, change: impl FnOnce(&mut State, bool) -> io::Result<T>) -> io::Result<T> {
        let mut state = self.0.lock();
        if state.crashed {
            return Err(io::Error::other("the process is dead"));
        }
        let number = state.calls;
        state.calls += 1;
        if state.crash_at == Some(number) {
            state.crashed = true;
            if call == Call::Write {
                drop(change(&mut state, true));
            }
            return Err(io::Error::other("the process died"));
        }
        if let Some(i) = state.faults.iter().position(|(kind, _)| *kind == call) {
            let (_, error) = state.faults.remove(i);
            if call == Call::Write {
                drop(change(&mut state, true));
            }
            return Err(error.into());
        }
        change(&mut state, false)
    }
}

#[derive(Debug)]
struct SimHandle {
    files: SimFiles,
    inode: usize,
}

#[derive(Debug)]
struct SimLock(SimFiles);

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.0.lock().locked = false;
    }
}

impl Files for SimFiles {
    fn lock(&self) -> io::Result<Box<dyn Any + Send + Sync>> {
        let mut state = self.0.lock();
        if state.locked {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        state.locked = true;
        Ok(Box::new(SimLock(self.clone())))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.names().into_iter().filter(|n| !n.contains('/')).collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn Handle>> {
        self.change(Call::Create, |state, _| {
            let inode = state.inodes.len();
            state.inodes.push(Inode::default());
            state.names.insert(name.into(), inode);
            Ok(Arc::new(SimHandle { files: self.clone(), inode }) as Arc<dyn Handle>)
        })
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn Handle>> {
        let inode = self.0.lock().names.get(name).copied().ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimHandle { files: self.clone(), inode }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.change(Call::Rename, |state, _| {
            let inode = state.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
            state.names.insert(to.into(), inode);
            Ok(())
        })
    }

    fn unlink(&self, name: &str) -> io::Result<()> {
        self.change(Call::Unlink, |state, _| {
            state.names.remove(name).map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
        })
    }

    fn make_dir(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn remove_dir(&self, _name: &str) -> io::Result<()> {
        Ok(())
    }

    fn sync_dir(&self, _name: &str) -> io::Result<()> {
        self.change(Call::SyncDir, |state, _| {
            state.durable_names = state.names.clone();
            Ok(())
        })
    }

    fn boot_id(&self) -> [u8; 16] {
        [self.0.lock().boot; 16]
    }
}

impl Handle for SimHandle {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut state = self.files.0.lock();
        state.largest_read = state.largest_read.max(buf.len());
        let data = &state.inodes[self.inode].data;
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
        let got = buf.len().min(data.len() - from);
        buf[..got].copy_from_slice(&data[from..from + got]);
        Ok(got)
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        self.files.change(Call::Write, |state, torn| {
            let buf = if torn { &buf[..buf.len() / 2] } else { buf };
            let from = usize::try_from(offset).map_err(io::Error::other)?;
            let full = state.full;
            let data = &mut state.inodes[self.inode].data;
            if full && from + buf.len() > data.len() {
                let fits = data.len().saturating_sub(from).min(buf.len());
                data.splice(from.min(data.len())..from.min(data.len()) + fits, buf[..fits].iter().copied());
                return Err(io::ErrorKind::StorageFull.into());
            }
            data.resize(data.len().max(from + buf.len()), 0);
            data[from..from + buf.len()].copy_from_slice(buf);
            Ok(())
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.files.change(Call::Sync, |state, _| {
            let inode = &mut state.inodes[self.inode];
            inode.durable.clone_from(&inode.data);
            Ok(())
        })
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.files.change(Call::Truncate, |state, _| {
            state.inodes[self.inode].data.resize(usize::try_from(len).map_err(io::Error::other)?, 0);
            Ok(())
        })
    }

    fn preallocate(&self, len: u64) -> io::Result<()> {
        self.files.change(Call::Preallocate, |state, _| {
            let full = state.full;
            let data = &mut state.inodes[self.inode].data;
            if full && len > data.len() as u64 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            data.resize(data.len().max(usize::try_from(len).map_err(io::Error::other)?), 0);
            Ok(())
        })
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.files.0.lock().inodes[self.inode].data.len() as u64)
    }

    fn identity(&self) -> io::Result<(u64, u64)> {
        Ok((0, self.inode as u64))
    }
}
