//! The questions of a matched run: about 0.9 KB a request, each asked once, or a small fixed set for hits.
//!
//! A unique question differs from every other by its ticket and batch numbers, which a semantic cache has to respect;
//! its words come from a few dozen texts, as real traffic repeats itself, and none of them gives a semantic cache a reason
//! to look away (too long, about today, about the asker), so that its work is part of what is measured. Making one is a
//! copy and two patches.

use std::ops::Range;

use crate::target::Target;

pub(crate) const MODEL: &str = "gpt-4o-mini";

const PRODUCTS: [&str; 8] = [
    "a rooftop solar inverter",
    "an electric cargo bike",
    "a heat pump in an old house",
    "a home alarm panel",
    "a small espresso machine",
    "a shared 3D printer",
    "a greenhouse controller",
    "a second-hand sailing dinghy",
];
const PROBLEMS: [&str; 8] = [
    "stops working after some minutes and starts again by itself",
    "makes a grinding noise whenever the air turns cold",
    "shows readings that the meter on the wall contradicts",
    "needs far more power than the data sheet promises",
    "lost its settings after the last power cut",
    "cannot be reached from the phone although the light is on",
    "has a leak that nobody can find",
    "was assembled with two parts left over",
];

/// A request ready to be written, with its prompt marked.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    wire: Vec<u8>,
    body_at: usize,
    prompt: Range<usize>,
}

impl Question {
    /// A chat request for a prompt that needs no escapes in JSON.
    pub(crate) fn new(target: &Target, prompt: &str, stream: bool) -> Self {
        Self::padded(target, prompt, stream, 0)
    }

    /// As before, with a system message that makes the body so many bytes longer, as long contexts do.
    fn padded(target: &Target, prompt: &str, stream: bool, pad: usize) -> Self {
        let stream = if stream { ",\"stream\":true" } else { "" };
        let before = format!(
            "{{\"model\":\"{MODEL}\",\"messages\":[{{\"role\":\"system\",\"content\":\"You help a repair shop. Answer in plain \
             words, name the likely cause first, then the check that tells it apart from the others, then what to do. Every \
             customer has had the thing for a while, bought it new, keeps the manual at hand, has done no repairs yet, and \
             has already cleaned it, looked for loose cables and switched it off and on again. All of them would rather \
             repair than replace and can handle a screwdriver and a meter. Say what belongs to the shop.{}\"}},\
             {{\"role\":\"user\",\"content\":\"",
            filler(pad)
        );
        let body = format!("{before}{prompt}\"}}],\"temperature\":0.2,\"max_tokens\":400{stream}}}");
        let mut wire = target.head(body.len());
        let body_at = wire.len();
        wire.extend_from_slice(body.as_bytes());
        let from = body_at + before.len();
        Self { wire, body_at, prompt: from..from + prompt.len() }
    }

    /// Head and body as HTTP/1.1 has them.
    pub(crate) fn wire(&self) -> &[u8] {
        &self.wire
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.wire[self.body_at..]
    }

    pub(crate) fn prompt(&self) -> &str {
        std::str::from_utf8(&self.wire[self.prompt.clone()]).expect("prompts are made of ASCII")
    }

    fn copy_from(&mut self, other: &Self) {
        self.wire.clone_from(&other.wire);
        (self.body_at, self.prompt) = (other.body_at, other.prompt.clone());
    }
}

/// Words of the shop's handbook.
fn filler(bytes: usize) -> String {
    const SENTENCE: &str = " Keep the old part until the new one has run for a day.";
    SENTENCE.chars().cycle().take(bytes).collect()
}

/// All questions of one side and mode.
pub(crate) struct Questions {
    texts: Vec<Question>,
    /// Numbers the run, so that a gateway with a past has no answer yet.
    batch: u64,
}

const BATCH: Range<usize> = 6..16;
const TICKET: Range<usize> = 24..34;
const UNNUMBERED: &str = "Batch 0000000000 ticket 0000000000: ";

impl Questions {
    /// `pad`: bytes by which every body is longer.
    pub(crate) fn new(target: &Target, stream: bool, batch: u64, pad: usize) -> Self {
        let pairs = PRODUCTS.iter().flat_map(|product| PROBLEMS.iter().map(move |problem| (product, problem)));
        let texts = pairs.map(|(product, problem)| {
            let prompt = format!(
                "{UNNUMBERED}what is the most likely cause when {product} {problem}, which check tells that cause apart \
                 from the others, and what does the repair cost in parts and hours?"
            );
            Question::padded(target, &prompt, stream, pad)
        });
        Self { texts: texts.collect(), batch: batch % 10_000_000_000 }
    }

    pub(crate) fn scratch(&self) -> Question {
        self.texts[0].clone()
    }

    /// Writes question `number` of the run into `into`.
    pub(crate) fn write(&self, number: u64, into: &mut Question) {
        let count = self.texts.len() as u64;
        let text = usize::try_from(number % count).expect("below a small count");
        into.copy_from(&self.texts[text]);
        let start = into.prompt.start;
        let mut patch = |at: &Range<usize>, value: u64| digits(&mut into.wire[start + at.start..start + at.end], value);
        patch(&BATCH, self.batch);
        patch(&TICKET, number);
    }
}

fn digits(field: &mut [u8], mut value: u64) {
    for byte in field.iter_mut().rev() {
        *byte = b'0' + u8::try_from(value % 10).expect("a digit");
        value /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_valid_json_of_the_promised_size_and_differ_in_their_numbers() {
        let target = Target::new("http://127.0.0.1:1", None).expect("a URL");
        let questions = Questions::new(&target, true, 1_234_567_890, 0);
        let mut question = questions.scratch();
        let mut prompts = std::collections::HashSet::new();
        for number in 0..200 {
            questions.write(number, &mut question);
            let body: serde_json::Value = serde_json::from_slice(question.body()).expect("JSON");
            assert_eq!(body["messages"][1]["content"], question.prompt());
            assert!((800..1000).contains(&question.body().len()), "{}", question.body().len());
            assert!(question.prompt().starts_with(&format!("Batch 1234567890 ticket {number:010}: ")));
            prompts.insert(question.prompt().to_owned());
        }
        assert_eq!(prompts.len(), 200);
        let plain = questions.scratch();
        let long = Questions::new(&target, true, 1_234_567_890, 200_000).scratch();
        assert_eq!((long.body().len() - plain.body().len(), long.prompt()), (200_000, plain.prompt()));
        serde_json::from_slice::<serde_json::Value>(long.body()).expect("JSON");
    }
}
