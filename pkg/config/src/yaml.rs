//! YAML of others, read within bounds.
//!
//! The loader repeats what an anchor names at each alias, and goes into nested values by recursion: a few hundred bytes can
//! stand for more than all memory, or for more than the stack. So the events, which come flat, are weighed first.

use std::collections::HashMap;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::{Yaml, YamlLoader};

/// Deepest nesting; a configuration has a dozen levels.
const DEPTH_MAX: usize = 64;
/// Most bytes that its values may come to, aliases written out.
const WEIGHT_MAX: usize = 64 << 20;
/// What a value weighs beside its text.
const VALUE: usize = 64;

/// The documents of a text.
///
/// # Errors
/// It is not YAML, or larger or deeper than a configuration can be.
pub(crate) fn documents(text: &str) -> Result<Vec<Yaml>, String> {
    let not_yaml = |error| format!("not YAML: {error}");
    let mut parser = Parser::new_from_str(text);
    let mut scale = Scale::default();
    loop {
        match parser.next_token().map_err(not_yaml)?.0 {
            Event::StreamEnd => break,
            event => scale.weigh(event)?,
        }
    }
    YamlLoader::load_from_str(text).map_err(not_yaml)
}

#[derive(Default)]
struct Scale {
    /// The values around the next one: anchor, and weight so far.
    open: Vec<(usize, usize)>,
    /// Of what each anchor names.
    anchors: HashMap<usize, usize>,
    all: usize,
}

impl Scale {
    fn weigh(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Scalar(text, _, anchor, _) => self.add(anchor, VALUE + text.len()),
            Event::Alias(anchor) => {
                let named = self.anchors.get(&anchor).copied().unwrap_or(VALUE);
                self.add(0, named)
            }
            Event::SequenceStart(anchor, _) | Event::MappingStart(anchor, _) => {
                self.open.push((anchor, VALUE));
                if self.open.len() > DEPTH_MAX { Err("its values are nested too deeply".to_owned()) } else { Ok(()) }
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some((anchor, weight)) => self.add(anchor, weight),
                None => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// A value is complete. Anchors are numbered from 1.
    fn add(&mut self, anchor: usize, weight: usize) -> Result<(), String> {
        if anchor > 0 {
            self.anchors.insert(anchor, weight);
        }
        let around = self.open.last_mut().map_or(&mut self.all, |(_, around)| around);
        *around = around.saturating_add(weight);
        if *around > WEIGHT_MAX { Err("its aliases stand for too much".to_owned()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    #[test]
    fn aliases_that_stand_for_more_than_memory_are_refused() {
        let mut bomb = "a0: &a0 x\n".to_owned();
        for n in 1..12 {
            writeln!(bomb, "a{n}: &a{n} [{}]", vec![format!("*a{}", n - 1); 10].join(", ")).expect("a text takes all");
        }
        assert_eq!(documents(&bomb).expect_err("11 digits of values"), "its aliases stand for too much");
    }

    #[test]
    fn values_nested_beyond_the_stack_are_refused_however_they_are_written() {
        for deep in ["- ".repeat(100_000), "? ".repeat(100_000), "[".repeat(100_000), "{a: ".repeat(100_000)] {
            assert!(documents(&(deep + "a")).is_err());
        }
        let within = "[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX);
        assert_eq!(documents(&within).map(|documents| documents.len()), Ok(1));
    }

    #[test]
    fn an_alias_of_what_it_is_in_is_no_loop() {
        assert!(documents("a: &a [*a, *a]").is_ok());
    }
}
