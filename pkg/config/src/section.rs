//! Reading one section: every key is taken once, and what is left at the end is unknown.

use crate::reader::Reader;
use crate::tree::{Leaf, Node, Source};
use signet_types::Secret;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use toml::Value;

/// Why a value that a later version will know is refused.
pub(crate) const LATER: &str = "not available in this version";

/// The keys of one section that have not been read yet.
pub(crate) struct Section<'r> {
    pub(crate) reader: &'r Reader<'r>,
    path: String,
    keys: BTreeMap<String, Node>,
}

impl<'r> Section<'r> {
    /// The whole tree.
    pub(crate) fn root(reader: &'r Reader<'r>, tree: Node) -> Self {
        Self::of(reader, String::new(), tree)
    }

    fn of(reader: &'r Reader<'r>, path: String, node: Node) -> Self {
        let keys = match node {
            Node::Table(keys) => keys,
            Node::List(_) | Node::Leaf(_) => {
                reader.fault(&path, "is not a section", None);
                BTreeMap::new()
            }
        };
        Self { reader, path, keys }
    }

    /// The path of `key`.
    pub(crate) fn at(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// Notes a fault of `key` that no single value is to blame for.
    pub(crate) fn fault(&self, key: &str, reason: impl Into<String>) {
        self.reader.fault(&self.at(key), reason, None);
    }

    /// The section `key`; an empty one if it is not there.
    pub(crate) fn section(&mut self, key: &str) -> Section<'r> {
        let node = self.keys.remove(key).unwrap_or_else(|| Node::Table(BTreeMap::new()));
        Self::of(self.reader, self.at(key), node)
    }

    /// The section `key`, if it is there.
    pub(crate) fn optional_section(&mut self, key: &str) -> Option<Section<'r>> {
        self.keys.contains_key(key).then(|| self.section(key))
    }

    /// The one section of the list `key` where nobody set any.
    pub(crate) fn item_zero(&self, key: &str) -> Section<'r> {
        Self::of(self.reader, format!("{}.0", self.at(key)), Node::Table(BTreeMap::new()))
    }

    /// Sets `key` to `value`, unless it or `other` was set.
    pub(crate) fn put_default(&mut self, key: &str, other: &str, value: &str) {
        if !self.has(key) && !self.has(other) {
            self.put(key, Leaf { value: Value::String(value.to_owned()), source: Source::File });
        }
    }

    /// Sets `key`.
    pub(crate) fn put(&mut self, key: &str, leaf: Leaf) {
        self.keys.insert(key.to_owned(), Node::Leaf(leaf));
    }

    /// The sections of the list `key`.
    pub(crate) fn list(&mut self, key: &str) -> Vec<Section<'r>> {
        let path = self.at(key);
        match self.keys.remove(key) {
            None => Vec::new(),
            Some(Node::List(items)) => {
                let item = |(at, node)| Self::of(self.reader, format!("{path}.{at}"), node);
                items.into_iter().enumerate().map(item).collect()
            }
            Some(Node::Leaf(Leaf { value: Value::Array(items), .. })) if items.is_empty() => Vec::new(),
            Some(_) => {
                self.reader.fault(&path, "is not a list of sections", None);
                Vec::new()
            }
        }
    }

    /// Whether `key` was set and not read yet.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.keys.contains_key(key)
    }

    /// The value of `key`, if it was set and not read yet.
    pub(crate) fn peek(&self, key: &str) -> Option<&Value> {
        match self.keys.get(key)? {
            Node::Leaf(leaf) => Some(&leaf.value),
            Node::Table(_) | Node::List(_) => None,
        }
    }

    /// The keys that have not been read yet.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.keys().map(String::as_str)
    }

    /// The value of `key`, if it was set.
    pub(crate) fn take(&mut self, key: &str) -> Option<Leaf> {
        match self.keys.remove(key)? {
            Node::Leaf(leaf) => Some(leaf),
            Node::Table(_) | Node::List(_) => {
                self.fault(key, "is a value, not a section");
                None
            }
        }
    }

    /// Reads `key` with `read`, which is given the value; `default` if it was not set or is no `expected`.
    fn value<T>(&mut self, key: &str, default: T, expected: &str, read: impl Fn(&Leaf) -> Option<T>) -> T {
        let Some(leaf) = self.take(key) else { return default };
        read(&leaf).unwrap_or_else(|| {
            self.reader.fault(&self.at(key), format!("is not {expected}"), Some(&leaf.source));
            default
        })
    }

    /// A whole number within `range`.
    pub(crate) fn number(&mut self, key: &str, default: u64, range: RangeInclusive<u64>) -> u64 {
        let expected = format!("a whole number from {} to {}", range.start(), range.end());
        let number = self.value(key, default, &expected, |leaf| {
            let number = match &leaf.value {
                Value::Integer(number) => u64::try_from(*number).ok(),
                Value::String(text) if leaf.source != Source::File => text.parse().ok(),
                _ => None,
            };
            number.filter(|number| range.contains(number))
        });
        self.reader.holds(&self.at(key), &number);
        number
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, key: &str, default: bool) -> bool {
        let flag = self.value(key, default, "true or false", |leaf| match &leaf.value {
            Value::Boolean(flag) => Some(*flag),
            Value::String(text) if leaf.source != Source::File => text.parse().ok(),
            _ => None,
        });
        self.reader.holds(&self.at(key), &flag);
        flag
    }

    /// A share over 0, at most 1. None if it was not set.
    pub(crate) fn share(&mut self, key: &str) -> Option<f32> {
        let share = self.value(key, None, "a number over 0, at most 1", |leaf| {
            let share = match &leaf.value {
                #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough for a share")]
                Value::Float(share) => Some(*share as f32),
                Value::Integer(1) => Some(1.0f32),
                Value::String(text) if leaf.source != Source::File => text.parse().ok(),
                _ => None,
            };
            share.filter(|share| *share > 0.0 && *share <= 1.0).map(Some)
        });
        if let Some(share) = share {
            self.reader.holds(&self.at(key), &share);
        }
        share
    }

    /// A number within `range`.
    pub(crate) fn real(&mut self, key: &str, default: f64, range: RangeInclusive<f64>) -> f64 {
        let expected = format!("a number from {} to {}", range.start(), range.end());
        let real = self.value(key, default, &expected, |leaf| {
            let real = match &leaf.value {
                Value::Float(real) => Some(*real),
                Value::Integer(0) => Some(0.0),
                Value::Integer(1) => Some(1.0),
                Value::String(text) if leaf.source != Source::File => text.parse().ok(),
                _ => None,
            };
            real.filter(|real| range.contains(real))
        });
        self.reader.holds(&self.at(key), &real);
        real
    }

    /// A text; none if it was not set or is empty.
    pub(crate) fn text(&mut self, key: &str) -> Option<String> {
        let text = self.value(key, None, "a text", |leaf| leaf.value.as_str().map(|text| Some(text.to_owned())));
        text.filter(|text| !text.is_empty())
    }

    /// A text that `T` accepts.
    pub(crate) fn parsed<T: FromStr + Display>(&mut self, key: &str, default: &str, expected: &str) -> T {
        let default = default.parse().ok().expect("the default is good");
        let parsed = self.value(key, default, expected, |leaf| leaf.value.as_str()?.parse().ok());
        self.reader.holds(&self.at(key), &parsed);
        parsed
    }

    /// A name that must be set.
    pub(crate) fn name<T: FromStr + Display>(&mut self, key: &str) -> Option<T> {
        if !self.has(key) {
            self.fault(key, "must be set");
            return None;
        }
        let expected = "a name of 1 to 256 printable characters";
        let name = self.value(key, None, expected, |leaf| leaf.value.as_str()?.parse().ok().map(Some))?;
        self.reader.holds(&self.at(key), &name);
        Some(name)
    }

    /// One of `choices`, the first being the default. A choice without a value comes with a later version.
    pub(crate) fn choice<T: Copy>(&mut self, key: &str, choices: &[(&str, Option<T>)]) -> T {
        let default = choices[0].1.expect("the default is available");
        let words: Vec<&str> = choices.iter().filter(|(_, choice)| choice.is_some()).map(|(word, _)| *word).collect();
        let Some(leaf) = self.take(key) else {
            self.reader.holds(&self.at(key), choices[0].0);
            return default;
        };
        let found = choices.iter().find(|(word, _)| leaf.value.as_str() == Some(word));
        let reason = match found {
            Some((word, Some(choice))) => {
                self.reader.holds(&self.at(key), word);
                return *choice;
            }
            Some((word, None)) => format!("{word:?} is {LATER}"),
            None => format!("is not one of: {}", words.join(", ")),
        };
        self.reader.fault(&self.at(key), reason, Some(&leaf.source));
        default
    }

    /// A list of `T`: an array of texts in the file, a text with commas elsewhere.
    pub(crate) fn parsed_list<T: FromStr + Display>(&mut self, key: &str, expected: &str) -> Vec<T> {
        let list: Vec<T> = self.value(key, Vec::new(), expected, |leaf| {
            let texts: Vec<&str> = match &leaf.value {
                Value::Array(items) => items.iter().map(Value::as_str).collect::<Option<_>>()?,
                Value::String(text) if leaf.source != Source::File => {
                    text.split(',').map(str::trim).filter(|text| !text.is_empty()).collect()
                }
                _ => return None,
            };
            texts.into_iter().map(|text| text.parse().ok()).collect()
        });
        let words: Vec<String> = list.iter().map(T::to_string).collect();
        self.reader.holds(&self.at(key), &words.join(","));
        list
    }

    /// A path, relative to the data folder.
    pub(crate) fn path(&mut self, key: &str, default: &str) -> PathBuf {
        let text = self.text(key).unwrap_or_else(|| default.to_owned());
        self.reader.holds(&self.at(key), &text);
        self.reader.resolve(text)
    }

    /// The secret behind `<stem>_env` or `<stem>_file`; an empty name means none. A named variable that is not set is a
    /// fault; only the variable `usual`, which is named by default, may be missing.
    pub(crate) fn secret(&mut self, stem: &str, usual: Option<&str>) -> Option<Secret<String>> {
        let (env, file) = (format!("{stem}_env"), format!("{stem}_file"));
        if let Some(leaf) = self.take(stem) {
            let reason = format!("a secret must not stand here: name a variable in {env} or a file in {file}");
            self.reader.fault(&self.at(stem), reason, Some(&leaf.source));
        }
        let (variable, path) = (self.text(&env), self.text(&file));
        if variable.is_some() && path.is_some() {
            self.fault(&env, format!("cannot be set together with {file}"));
            return None;
        }
        if let Some(path) = path {
            self.reader.holds(&self.at(&file), &path);
            return self.secret_file(&file, &path);
        }
        let variable = variable?;
        self.reader.holds(&self.at(&env), &variable);
        let value = self.reader.env.get(&variable);
        if value.is_none() && usual != Some(variable.as_str()) {
            // Whoever puts the secret itself there must not find it in a log.
            let usual = |c: u8| c.is_ascii_uppercase() || c.is_ascii_digit() || c == b'_';
            let shown = if variable.bytes().all(usual) {
                format!("the variable {variable}, which")
            } else {
                "a variable that".to_owned()
            };
            self.fault(&env, format!("names {shown} is not set"));
        }
        self.reader.holds(&self.at(stem), if value.is_some() { "set" } else { "not set" });
        if let Some(value) = &value {
            self.reader.secret(&self.at(stem), value);
        }
        value.map(Secret::new)
    }

    /// The content of the secret file that `key` names, without the line end.
    pub(crate) fn secret_file(&self, key: &str, path: &str) -> Option<Secret<String>> {
        let path = self.reader.resolve(path);
        self.reader.file(&path);
        let text = match crate::file::read_text(&path) {
            Ok(text) => Secret::new(text),
            Err(error) => {
                self.fault(key, format!("{} cannot be read: {error}", path.display()));
                return None;
            }
        };
        let line = text.expose().trim_end_matches(['\r', '\n']);
        if line.is_empty() {
            self.fault(key, format!("{} is empty", path.display()));
            return None;
        }
        self.reader.secret(&self.at(key), line);
        Some(Secret::new(line.to_owned()))
    }

    /// Whatever was not read is unknown.
    pub(crate) fn end(self) {
        for (key, node) in &self.keys {
            let source = match node {
                Node::Leaf(leaf) => Some(&leaf.source),
                Node::Table(_) | Node::List(_) => None,
            };
            self.reader.fault(&self.at(key), "is not a setting", source);
        }
    }
}
