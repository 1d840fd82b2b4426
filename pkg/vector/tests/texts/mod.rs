//! Prompts to search among: templates filled from word lists, so that many are near one another, as in real traffic.

const TEMPLATES: [&str; 20] = [
    "how do i {v} the {a} {n}",
    "how can we {v} our {n} {w}",
    "what is the difference between a {n} and a {m}",
    "why does the {n} {v} itself when the {m} is {a}",
    "explain {n} {w} to a {p}",
    "write a short {a} story about a {p} and a {n}",
    "which {n} is best for a {a} {m} {w}",
    "list three ways to {v} a {n} without a {m}",
    "is it safe to {v} a {a} {n} {w}",
    "summarise what a {p} should know about the {n} of a {m}",
    "give me an example of a {a} {n} that a {p} would {v}",
    "my {n} stopped working after i tried to {v} the {m}",
    "when should a {p} {v} the {n}",
    "translate the sentence the {p} wants to {v} a {a} {n} into french",
    "draft an email asking the {p} to {v} the {n} {w}",
    "what are the steps to {v} {a} {n} data in the {m}",
    "compare the {n} of {a} and {b} {m} designs",
    "can a {p} {v} the {n} before the {m} arrives",
    "what happens to the {n} if nobody can {v} the {m} {w}",
    "who decides how a {a} {n} and a {b} {m} are {v}ed",
];
const VERBS: [&str; 24] = [
    "reset",
    "install",
    "repair",
    "cancel",
    "measure",
    "paint",
    "export",
    "rename",
    "inspect",
    "borrow",
    "deploy",
    "cook",
    "clean",
    "insure",
    "monitor",
    "replace",
    "update",
    "archive",
    "sharpen",
    "translate",
    "calibrate",
    "lift",
    "weigh",
    "encrypt",
];
const NOUNS: [&str; 48] = [
    "printer",
    "invoice",
    "garden",
    "database",
    "bicycle",
    "passport",
    "kitchen",
    "contract",
    "guitar",
    "battery",
    "schedule",
    "router",
    "curtain",
    "mortgage",
    "compiler",
    "telescope",
    "recipe",
    "password",
    "engine",
    "bridge",
    "violin",
    "server",
    "ladder",
    "budget",
    "camera",
    "vaccine",
    "carpet",
    "keyboard",
    "glacier",
    "novel",
    "turbine",
    "receipt",
    "balcony",
    "spreadsheet",
    "pension",
    "lantern",
    "harbour",
    "sensor",
    "syllabus",
    "furnace",
    "orchard",
    "helmet",
    "cluster",
    "ticket",
    "magnet",
    "mirror",
    "pipeline",
    "statue",
];
const ADJECTIVES: [&str; 20] = [
    "broken",
    "small",
    "wooden",
    "expensive",
    "modern",
    "empty",
    "secure",
    "heavy",
    "public",
    "frozen",
    "digital",
    "quiet",
    "rented",
    "ancient",
    "portable",
    "damaged",
    "shared",
    "legal",
    "electric",
    "yearly",
];
const PEOPLE: [&str; 12] = [
    "teacher",
    "nurse",
    "manager",
    "farmer",
    "student",
    "pilot",
    "lawyer",
    "child",
    "customer",
    "plumber",
    "tenant",
    "scientist",
];
const WHERES: [&str; 12] = [
    "at home",
    "in winter",
    "on a budget",
    "for the first time",
    "in berlin",
    "by next week",
    "without tools",
    "during a storm",
    "in simple words",
    "at the office",
    "on linux",
    "after midnight",
];

/// A small generator, so that every run sees the same prompts.
pub(crate) struct Texts(pub(crate) u64);

impl Texts {
    /// One of `list`.
    pub(crate) fn pick(&mut self, list: &[&'static str]) -> &'static str {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list[usize::try_from(self.0 >> 33).expect("31 bits") % list.len()]
    }

    /// A prompt of about twelve words.
    pub(crate) fn prompt(&mut self) -> String {
        let mut text = self.pick(&TEMPLATES).to_owned();
        for (slot, list) in [
            ("{v}", &VERBS[..]),
            ("{n}", &NOUNS),
            ("{m}", &NOUNS),
            ("{a}", &ADJECTIVES),
            ("{b}", &ADJECTIVES),
            ("{p}", &PEOPLE),
            ("{w}", &WHERES),
        ] {
            text = text.replace(slot, self.pick(list));
        }
        text
    }
}
