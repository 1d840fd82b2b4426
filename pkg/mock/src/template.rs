//! Literal fixtures with named holes.

/// A fixture text cut at its `@name@` holes once, so that an answer is a few copies.
pub(crate) struct Template(Vec<Part>);

enum Part {
    Literal(&'static str),
    Hole(&'static str),
}

impl Template {
    /// The last line end of the file is not part of the fixture.
    pub(crate) fn parse(fixture: &'static str) -> Self {
        let parts = fixture.trim_end().split('@').enumerate();
        Self(parts.map(|(i, text)| if i % 2 == 0 { Part::Literal(text) } else { Part::Hole(text) }).collect())
    }

    /// Appends the fixture to `out`. Values go in as they are: a JSON string comes with its quotes.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, values: &[(&str, &str)]) {
        for part in &self.0 {
            let text = match part {
                Part::Literal(text) => text,
                Part::Hole(name) => {
                    values.iter().find(|(n, _)| n == name).expect("a test fills the holes of every fixture").1
                }
            };
            out.extend_from_slice(text.as_bytes());
        }
    }
}

/// The quoted JSON form of a text.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::Template;

    #[test]
    fn holes_are_filled_and_values_are_not_read_again() {
        let mut out = Vec::new();
        Template::parse("{\"a\":@a@,\"b\":@b@}\n").fill(&mut out, &[("a", "\"@b@\""), ("b", "2")]);
        assert_eq!(out, b"{\"a\":\"@b@\",\"b\":2}");
    }
}
