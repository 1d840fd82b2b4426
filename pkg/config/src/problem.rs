//! Faults of a configuration. The operator is at fault, and sees all of them at once.

use std::fmt;

/// One fault. It never holds a configured value: that could be a secret in the wrong place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key's path, `provider.0.base_url`, or the file's path.
    pub key: String,
    /// What is wrong and what would be right.
    pub reason: String,
    /// The environment variable that the value came from, if it did.
    pub variable: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.reason)?;
        match &self.variable {
            Some(variable) => write!(f, " (set by {variable})"),
            None => Ok(()),
        }
    }
}

/// Every fault found, at least one, in the order of their keys.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
