//! The environment as a parameter, so that tests own it.

use std::ffi::OsStr;

/// Where environment variables come from.
pub trait Env {
    /// All names and values, in any order.
    fn vars(&self) -> Vec<(String, String)>;

    /// The value of `name`; none if it is unset or empty.
    fn get(&self, name: &str) -> Option<String> {
        self.vars().into_iter().find(|(held, _)| held == name).map(|(_, value)| value).filter(|value| !value.is_empty())
    }
}

/// The environment of this process. Names or values that are not UTF-8 are taken as unset: no setting can hold them.
#[derive(Debug, Clone, Copy, Default)]
pub struct ProcessEnv;

impl Env for ProcessEnv {
    fn vars(&self) -> Vec<(String, String)> {
        let text = |value: &OsStr| value.to_str().map(ToOwned::to_owned);
        std::env::vars_os().filter_map(|(name, value)| Some((text(&name)?, text(&value)?))).collect()
    }
}
