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

    /// Appends the fixture to `out`. Values go in as they are: a JSON string comes with its quotes. What `more` names
    /// stands over `fixed`.
    pub(crate) fn fill(&self, out: &mut Vec<u8>, more: &[(&str, &str)], fixed: &[(&str, String)]) {
        for part in &self.0 {
            let text = match part {
                Part::Literal(text) => text,
                Part::Hole(name) => more
                    .iter()
                    .find(|(n, _)| n == name)
                    .map(|(_, value)| *value)
                    .or_else(|| fixed.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str()))
                    .expect("a test fills the holes of every fixture"),
            };
            out.extend_from_slice(text.as_bytes());
        }
    }

    /// The filled fixture as a value for a hole of another.
    pub(crate) fn filled(&self, more: &[(&str, &str)], fixed: &[(&str, String)]) -> String {
        let mut out = Vec::new();
        self.fill(&mut out, more, fixed);
        String::from_utf8(out).expect("fixtures and their values are UTF-8")
    }
}

/// The event fixtures of one API: a file in which a comment line with its name stands above each event.
pub(crate) struct Events(Vec<(&'static str, Template)>);

impl Events {
    pub(crate) fn parse(file: &'static str) -> Self {
        let sections = file.strip_prefix(": ").expect("the file begins with a name").split("\n\n: ");
        let parsed = sections.map(|section| {
            let (name, event) = section.split_once('\n').expect("an event stands below its name");
            (name, Template::parse(event))
        });
        Self(parsed.collect())
    }

    pub(crate) fn get(&self, name: &str) -> &Template {
        &self.0.iter().find(|(n, _)| *n == name).expect("a test writes every event").1
    }
}

macro_rules! fixture {
    ($name:ident, $kind:ident, $file:literal) => {
        static $name: std::sync::LazyLock<crate::template::$kind> =
            std::sync::LazyLock::new(|| crate::template::$kind::parse(include_str!(concat!("fixtures/", $file))));
    };
}
pub(crate) use fixture;

/// The quoted JSON form of a text.
pub(crate) fn json_string(text: &str) -> String {
    serde_json::to_string(text).expect("a string has a JSON form")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_and_values_are_not_read_again() {
        let mut out = Vec::new();
        let template = Template::parse("{\"a\":@a@,\"b\":@b@}\n");
        template.fill(&mut out, &[("a", "\"@b@\"")], &[("a", "1".to_owned()), ("b", "2".to_owned())]);
        assert_eq!(out, b"{\"a\":\"@b@\",\"b\":2}");
    }

    #[test]
    fn events_are_found_by_the_name_above_them() {
        let events = Events::parse(": one\nevent: a\ndata: 1\n\n: two\ndata: 2\n");
        assert_eq!(events.get("one").filled(&[], &[]), "event: a\ndata: 1");
        assert_eq!(events.get("two").filled(&[], &[]), "data: 2");
    }
}
