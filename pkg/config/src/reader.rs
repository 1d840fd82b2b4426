//! What all sections share while a configuration is read: the faults so far and the values that hold.

use crate::env::Env;
use crate::problem::{Problem, Problems};
use crate::tree::Source;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One reading of one configuration.
pub(crate) struct Reader<'a> {
    pub(crate) env: &'a dyn Env,
    pub(crate) data_dir: PathBuf,
    problems: RefCell<Vec<Problem>>,
    warnings: RefCell<Vec<String>>,
    effective: RefCell<BTreeMap<String, String>>,
    prints: RefCell<BTreeMap<String, [u8; 32]>>,
    files: RefCell<Vec<PathBuf>>,
}

/// What a reading without faults leaves beside the settings.
pub(crate) struct Found {
    pub(crate) warnings: Vec<String>,
    pub(crate) effective: BTreeMap<String, String>,
    pub(crate) prints: BTreeMap<String, [u8; 32]>,
    pub(crate) files: Vec<PathBuf>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(env: &'a dyn Env, data_dir: PathBuf) -> Self {
        Self {
            env,
            data_dir,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            effective: RefCell::default(),
            prints: RefCell::default(),
            files: RefCell::default(),
        }
    }

    /// Notes a fault of `key`.
    pub(crate) fn fault(&self, key: &str, reason: impl Into<String>, source: Option<&Source>) {
        let variable = match source {
            Some(Source::Env(name)) => Some(name.clone()),
            _ => None,
        };
        self.problems.borrow_mut().push(Problem { key: key.to_owned(), reason: reason.into(), variable });
    }

    /// Notes something that is allowed but probably not meant.
    pub(crate) fn warn(&self, text: String) {
        self.warnings.borrow_mut().push(text);
    }

    /// Notes the value that holds for `key`. Never a secret.
    pub(crate) fn holds(&self, key: &str, value: &(impl ToString + ?Sized)) {
        self.effective.borrow_mut().insert(key.to_owned(), value.to_string());
    }

    /// Notes what a secret is, so that another one is told apart from it.
    pub(crate) fn secret(&self, key: &str, value: &str) {
        self.prints.borrow_mut().insert(key.to_owned(), Sha256::digest(value).into());
    }

    /// Notes a file that was read.
    pub(crate) fn file(&self, path: &Path) {
        self.files.borrow_mut().push(path.to_owned());
    }

    /// `path`, relative to the data folder unless it is absolute.
    pub(crate) fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.data_dir.join(path)
    }

    /// What was found, or all faults.
    pub(crate) fn end(self) -> Result<Found, Problems> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok(Found {
                warnings: self.warnings.into_inner(),
                effective: self.effective.into_inner(),
                prints: self.prints.into_inner(),
                files: self.files.into_inner(),
            });
        }
        problems.sort_by(|a, b| a.key.cmp(&b.key));
        Err(Problems(problems))
    }
}
