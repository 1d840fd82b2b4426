//! Changes of one place of a JSON text. Half of all changes are libFuzzer's own, of bytes: they reach what no tree can say.

use libfuzzer_sys::fuzzer_mutate;
use serde_json::{Map, Value, json};
use std::ops::Range;
use std::sync::OnceLock;

/// A buffer that libFuzzer lends: `size` bytes of input in room for `max_size`.
struct Input<'a> {
    data: &'a mut [u8],
    size: usize,
    max_size: usize,
}

impl Input<'_> {
    fn bytes(self) -> usize {
        fuzzer_mutate(self.data, self.size, self.max_size)
    }

    /// Puts `with` in the place of `range`; by bytes where that is too long.
    fn splice(self, range: Range<usize>, with: &[u8]) -> usize {
        let size = self.size - range.len() + with.len();
        if size > self.max_size {
            return self.bytes();
        }
        self.data.copy_within(range.end..self.size, range.start + with.len());
        self.data[range.start..range.start + with.len()].copy_from_slice(with);
        size
    }
}

/// Changes an input whose JSON stands behind `prefix` bytes, which are libFuzzer's alone. Returns the new size.
pub fn mutate(data: &mut [u8], (size, max_size): (usize, usize), seed: u32, prefix: usize) -> usize {
    let (input, mut chance) = (Input { data, size, max_size }, Chance::seeded(seed));
    if chance.one_in(2) || size < prefix {
        return input.bytes();
    }
    let changed = changed(&input.data[prefix..size], &mut chance);
    match changed {
        Some(text) => input.splice(prefix..size, &text),
        None => input.bytes(),
    }
}

/// The same for an event stream: the data of one event are changed, or an event is left out, doubled or moved.
pub fn mutate_stream(data: &mut [u8], (size, max_size): (usize, usize), seed: u32, prefix: usize) -> usize {
    let (input, mut chance) = (Input { data, size, max_size }, Chance::seeded(seed));
    if chance.one_in(2) || size < prefix {
        return input.bytes();
    }
    let events = events(&input.data[..size], prefix);
    let Some(event) = events.get(chance.below(events.len())).cloned() else { return input.bytes() };
    let text = input.data[event.clone()].to_vec();
    let at = events[chance.below(events.len())].start;
    match chance.below(6) {
        0 => input.splice(event, b""),
        1 => input.splice(at..at, &text),
        _ => {
            let json = find(&text, b"data: ").map(|found| found + 6..text.trim_ascii_end().len());
            let Some(json) = json.filter(|json| !json.is_empty()) else { return input.bytes() };
            match changed(&text[json.clone()], &mut chance) {
                Some(changed) => input.splice(event.start + json.start..event.start + json.end, &changed),
                None => input.bytes(),
            }
        }
    }
}

/// Where events are, with the blank line behind each.
fn events(data: &[u8], prefix: usize) -> Vec<Range<usize>> {
    let mut events = Vec::new();
    let mut from = prefix;
    while let Some(end) = find(&data[from..], b"\n\n") {
        events.push(from..from + end + 2);
        from += end + 2;
    }
    events
}

fn find(data: &[u8], part: &[u8]) -> Option<usize> {
    data.windows(part.len()).position(|window| window == part)
}

/// The text with one place changed; none where it is no JSON.
fn changed(text: &[u8], chance: &mut Chance) -> Option<Vec<u8>> {
    let mut tree: Value = serde_json::from_slice(text).ok()?;
    let count = count(&tree);
    let donor = nth(&mut tree, &mut chance.below(count))?.clone();
    let name = name_in(&mut tree, count, chance);
    change(nth(&mut tree, &mut chance.below(count))?, donor, name, chance);
    serde_json::to_vec(&tree).ok()
}

fn change(place: &mut Value, donor: Value, name: String, chance: &mut Chance) {
    match (chance.below(8), &mut *place) {
        (0, _) => *place = leaf(chance),
        (1, _) => *place = donor,
        (2, _) => *place = Value::String(name),
        (3, _) => *place = Value::Array(vec![place.take()]),
        (4, Value::Array(items)) if !items.is_empty() => drop(items.remove(chance.below(items.len()))),
        (_, Value::Array(items)) => items.insert(chance.below(items.len() + 1), donor),
        (4 | 5, Value::Object(members)) => drop(key_of(members, chance).and_then(|key| members.shift_remove(&key))),
        (6, Value::Object(members)) => {
            let value = key_of(members, chance).and_then(|key| members.shift_remove(&key));
            members.insert(name, value.unwrap_or(donor));
        }
        (_, Value::Object(members)) => drop(members.insert(name, if chance.one_in(2) { leaf(chance) } else { donor })),
        (_, other) => *other = leaf(chance),
    }
}

fn leaf(chance: &mut Chance) -> Value {
    let leaves = [
        Value::Null,
        json!(true),
        json!(false),
        json!(0),
        json!(1),
        json!(-1),
        json!(1.5),
        json!(1e300),
        json!(u64::MAX),
        json!(""),
        json!("a"),
        json!("{}"),
        json!([]),
        json!({}),
    ];
    leaves[chance.below(leaves.len())].clone()
}

/// A name that stands in the tree already, or that the code looks for.
fn name_in(tree: &mut Value, count: usize, chance: &mut Chance) -> String {
    let names = names();
    let known = match nth(tree, &mut chance.below(count)) {
        Some(Value::Object(members)) => key_of(members, chance),
        Some(Value::String(text)) => Some(text.clone()),
        _ => None,
    };
    known.or_else(|| names.get(chance.below(names.len())).cloned()).unwrap_or_default()
}

/// Those of the file that `FUZZ_NAMES` names, one a line.
fn names() -> &'static [String] {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let file = std::env::var_os("FUZZ_NAMES").and_then(|path| std::fs::read_to_string(path).ok());
        file.iter().flat_map(|text| text.lines()).map(str::to_owned).collect()
    })
}

fn key_of(members: &Map<String, Value>, chance: &mut Chance) -> Option<String> {
    members.keys().nth(chance.below(members.len())).cloned()
}

/// Values in the tree, itself with it.
fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(members) => members.values().map(count).sum(),
        _ => 0,
    }
}

/// The value that is `left` behind the first, in the order of the text.
fn nth<'a>(tree: &'a mut Value, left: &mut usize) -> Option<&'a mut Value> {
    if *left == 0 {
        return Some(tree);
    }
    *left -= 1;
    match tree {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, left)),
        Value::Object(members) => members.values_mut().find_map(|value| nth(value, left)),
        _ => None,
    }
}

/// xorshift32 (Marsaglia, 2003), from the seed that libFuzzer gives: an input can be found again.
struct Chance(u32);

impl Chance {
    fn seeded(seed: u32) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9) | 1)
    }

    /// Below `bound`; 0 for none.
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        (self.0 >> 8) as usize % bound.max(1)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }
}
