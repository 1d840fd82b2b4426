//! Writes the events of a stream one after the other and remembers where each ends.

use bytes::Bytes;

use crate::template::Events;

/// How an answer is cut into events.
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub(crate) struct StreamForm {
    /// Events of a chat stream before `[DONE]`, role and finish included, the usage chunk not; other APIs bring their
    /// text in as many pieces as a chat stream of this length does.
    pub(crate) chunks: usize,
    pub(crate) usage: bool,
    pub(crate) choices_null: bool,
    /// Azure's first chunk, which has no choices.
    pub(crate) azure: bool,
    pub(crate) done: bool,
    pub(crate) line_end: &'static str,
}

impl StreamForm {
    /// Cuts a text at character borders into as many pieces as the form has room for.
    pub(crate) fn pieces<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let count = self.chunks.saturating_sub(2).max(1);
        let mut from = 0;
        (1..=count).map(move |i| {
            let to = text.floor_char_boundary(text.len() * i / count);
            &text[std::mem::replace(&mut from, to)..to]
        })
    }
}

pub(crate) struct Pen<'a> {
    events: &'static Events,
    fixed: Vec<(&'static str, String)>,
    form: &'a StreamForm,
    out: Vec<u8>,
    ends: Vec<usize>,
}

impl<'a> Pen<'a> {
    /// `fixed` fills the holes that no event fills itself.
    pub(crate) fn new(events: &'static Events, fixed: Vec<(&'static str, String)>, form: &'a StreamForm) -> Self {
        Self { events, fixed, form, out: Vec::with_capacity((form.chunks + 8) * 256), ends: Vec::new() }
    }

    pub(crate) fn event(&mut self, name: &str, more: &[(&str, &str)]) {
        let from = self.out.len();
        self.events.get(name).fill(&mut self.out, more, &self.fixed);
        if self.form.line_end != "\n" {
            // JSON has no line end of its own: what is found ends a field.
            let event = self.out.split_off(from);
            for (i, line) in event.split(|byte| *byte == b'\n').enumerate() {
                self.out.extend_from_slice(if i > 0 { self.form.line_end.as_bytes() } else { b"" });
                self.out.extend_from_slice(line);
            }
        }
        self.out.extend_from_slice(self.form.line_end.as_bytes());
        self.out.extend_from_slice(self.form.line_end.as_bytes());
        self.ends.push(self.out.len());
    }

    /// How many events there are so far.
    pub(crate) fn count(&self) -> usize {
        self.ends.len()
    }

    /// The events, all slices of one buffer.
    pub(crate) fn finish(self) -> Vec<Bytes> {
        let all = Bytes::from(self.out);
        let mut from = 0;
        self.ends.into_iter().map(|to| all.slice(std::mem::replace(&mut from, to)..to)).collect()
    }
}
