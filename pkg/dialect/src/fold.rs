//! A provider's event stream, cut between events and read as it passes.

use crate::completions::CompletionsFold;
use crate::messages::{Classifier, MessageFold};
use crate::responses::{self, ResponsesFold};
use crate::{Api, Form, Kept, Usage};
use bytes::Bytes;
use signet_openai::Accumulator;
use signet_openai::sse::{ChatEvents, Classify, Kind, Run, Splitter, TooLong, events};

/// Bytes in any pieces, runs of events out, and at the end the answer that they are parts of.
///
/// Concatenated, the runs and the unfinished rest are the bytes that came in.
#[derive(Debug)]
pub struct Fold {
    splitter: Splitter<Events>,
    /// None once the provider has said that the answer failed, or the answer is taken.
    parts: Option<Parts>,
    failed: bool,
    /// What was counted when the parts went.
    usage: Option<Usage>,
}

/// What the events of a stream are, by the rules of its API.
#[derive(Debug)]
pub enum Events {
    /// Chat chunks.
    Chat(ChatEvents),
    /// Messages events.
    Messages(Classifier),
    /// Events of responses.
    Responses(responses::Classifier),
}

/// An answer that is being put together.
#[derive(Debug)]
enum Parts {
    Chat(Accumulator),
    Messages(MessageFold),
    Completions(CompletionsFold),
    Responses(ResponsesFold),
}

impl Classify for Events {
    fn classify(&mut self, raw: &[u8]) -> Option<Kind> {
        match self {
            Self::Chat(events) => events.classify(raw),
            Self::Messages(events) => events.classify(raw),
            Self::Responses(events) => events.classify(raw),
        }
    }

    fn all_finished(&self) -> bool {
        match self {
            Self::Chat(events) => events.all_finished(),
            Self::Messages(events) => events.all_finished(),
            Self::Responses(events) => events.all_finished(),
        }
    }
}

impl Parts {
    fn push(&mut self, data: &[u8]) {
        match self {
            Self::Chat(chunks) => chunks.push(data),
            Self::Messages(events) => events.push(data),
            Self::Completions(events) => events.push(data),
            Self::Responses(events) => events.push(data),
        }
    }

    fn usage(&self) -> Option<Usage> {
        match self {
            Self::Chat(chunks) => chunks.usage(),
            Self::Messages(events) => events.usage(),
            Self::Completions(events) => events.usage(),
            Self::Responses(events) => events.usage(),
        }
    }

    fn finish(self) -> Option<Kept> {
        match self {
            Self::Chat(chunks) => chunks.finish().ok().map(Kept::Chat),
            Self::Messages(events) => events.finish().ok().map(Kept::Message),
            Self::Completions(events) => events.finish().ok().map(Kept::Completion),
            Self::Responses(events) => events.finish().ok().map(Kept::Response),
        }
    }
}

impl Fold {
    /// For a stream in this form, refusing events of more than `max_event_bytes`; none where the API has no streams.
    pub fn new(form: Form, max_event_bytes: usize) -> Option<Self> {
        let (events, parts) = match form.api {
            Api::Chat => {
                let choices = u32::try_from(form.parts).unwrap_or(u32::MAX);
                (Events::Chat(ChatEvents::new(choices)), Parts::Chat(Accumulator::new(choices)))
            }
            Api::Messages => (Events::Messages(Classifier::default()), Parts::Messages(MessageFold::new())),
            Api::Completions => {
                let choices = u32::try_from(form.parts).unwrap_or(u32::MAX);
                // Their events have the ends of chat.
                (Events::Chat(ChatEvents::new(choices)), Parts::Completions(CompletionsFold::new(choices)))
            }
            Api::Responses => (Events::Responses(responses::Classifier::new()), Parts::Responses(ResponsesFold::new())),
            Api::Embeddings | Api::Models | Api::CountTokens => return None,
        };
        Some(Self { splitter: Splitter::with(max_event_bytes, events), parts: Some(parts), failed: false, usage: None })
    }

    /// Takes what arrived; then call [`Self::next_run`] until there is none.
    pub fn push(&mut self, piece: Bytes) {
        self.splitter.push(piece);
    }

    /// The next run of complete events, which is then part of the answer.
    ///
    /// # Errors
    /// An event is too long. What was complete before it has been returned.
    pub fn next_run(&mut self) -> Result<Option<Run>, TooLong> {
        let run = self.splitter.next_run()?;
        if let Some(run) = &run {
            self.take(run);
        }
        Ok(run)
    }

    /// The stream has ended: its last event, if it was complete. An unfinished one is dropped: no reader of events would
    /// ever see it.
    pub fn finish(&mut self) -> Option<Run> {
        let (run, _) = self.splitter.finish();
        if let Some(run) = &run {
            self.take(run);
        }
        run
    }

    /// Whether a clean end from here on is a complete answer.
    pub fn all_finished(&self) -> bool {
        self.splitter.all_finished()
    }

    /// Whether the provider has reported a failure inside the stream.
    pub const fn failed(&self) -> bool {
        self.failed
    }

    /// What the provider counted so far.
    pub fn usage(&self) -> Option<Usage> {
        self.parts.as_ref().map_or(self.usage, Parts::usage)
    }

    /// The whole answer, once; none if the events do not make one.
    pub fn take_answer(&mut self) -> Option<Kept> {
        self.usage = self.usage();
        self.parts.take()?.finish()
    }

    fn take(&mut self, run: &Run) {
        let Some(parts) = self.parts.as_mut() else { return };
        events(&run.raw).for_each(|data| parts.push(&data));
        if run.kind == Kind::Error {
            self.usage = parts.usage();
            (self.parts, self.failed) = (None, true);
        }
    }
}
