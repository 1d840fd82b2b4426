//! What all sections share while a configuration is read: the faults so far and the values that hold.

use crate::env::Env;
use crate::problem::{Problem, Problems};
use crate::tree::Source;
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
}

impl<'a> Reader<'a> {
    pub(crate) fn new(env: &'a dyn Env, data_dir: PathBuf) -> Self {
        Self {
            env,
            data_dir,
            problems: RefCell::default(),
            warnings: RefCell::default(),
            effective: RefCell::default(),
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

    /// `path`, relative to the data folder unless it is absolute.
    pub(crate) fn resolve(&self, path: impl AsRef<Path>) -> PathBuf {
        self.data_dir.join(path)
    }

    /// The warnings and the values that hold, or all faults.
    pub(crate) fn end(self) -> Result<(Vec<String>, BTreeMap<String, String>), Problems> {
        let mut problems = self.problems.into_inner();
        if problems.is_empty() {
            return Ok((self.warnings.into_inner(), self.effective.into_inner()));
        }
        problems.sort_by(|a, b| a.key.cmp(&b.key));
        Err(Problems(problems))
    }
}
