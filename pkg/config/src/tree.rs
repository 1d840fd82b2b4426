//! The merged tree: what was set where, before anybody judges it.

use std::collections::BTreeMap;
use toml::Value;

/// Who set a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File,
    /// The variable's name.
    Env(String),
    Flag,
}

/// A value and where it came from. From the environment and from flags it is always a string.
#[derive(Debug, Clone)]
pub(crate) struct Leaf {
    pub(crate) value: Value,
    pub(crate) source: Source,
}

/// A node of the tree.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Table(BTreeMap<String, Node>),
    /// A list of tables.
    List(Vec<Node>),
    Leaf(Leaf),
}

impl From<toml::Table> for Node {
    fn from(table: toml::Table) -> Self {
        Self::Table(table.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
    }
}

impl From<Value> for Node {
    fn from(value: Value) -> Self {
        match value {
            Value::Table(table) => table.into(),
            Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_table) => {
                Self::List(items.into_iter().map(Self::from).collect())
            }
            value => Self::Leaf(Leaf { value, source: Source::File }),
        }
    }
}

impl Node {
    /// Puts `leaf` at `path`, over what is there. Items of lists are named by their number; the next number adds one.
    pub(crate) fn set(&mut self, path: &[&str], leaf: Leaf) -> Result<(), &'static str> {
        let [first, rest @ ..] = path else {
            return match self {
                Self::Leaf(old) => {
                    *old = leaf;
                    Ok(())
                }
                Self::Table(_) => Err("is a section, not a value"),
                Self::List(_) => Err("is a list; set its items by their numbers"),
            };
        };
        let empty = || match rest.first() {
            None => Self::Leaf(leaf.clone()),
            Some(next) if next.parse::<usize>().is_ok() => Self::List(Vec::new()),
            Some(_) => Self::Table(BTreeMap::new()),
        };
        match self {
            Self::Table(keys) => keys.entry((*first).to_owned()).or_insert_with(empty).set(rest, leaf),
            Self::List(items) => {
                let at: usize = first.parse().map_err(|_| "is a list; name its items by their numbers")?;
                if at == items.len() {
                    items.push(empty());
                }
                items.get_mut(at).ok_or("skips a number of its list")?.set(rest, leaf)
            }
            Self::Leaf(_) => Err("has no keys below it"),
        }
    }
}
