//! What a provider said in one API, said to a caller who speaks another.
//!
//! Hits and misses go through the same translation, so an answer that was kept is never served as something that a miss
//! would not have given.

use crate::pipeline::RouteRules;
use crate::replay::rendered;
use crate::serve::Plan;
use bytes::Bytes;
use parking_lot::Mutex;
use signet_dialect::sse::{Run, complete};
use signet_dialect::{
    Api, Defaults, Kept, Refusal, Request, Translate, Untranslatable, Wanted, translate_error, translate_sse,
    translate_stream, translate_whole,
};
use std::sync::Arc;

/// A provider's stream as the caller's, event by event.
pub(crate) struct Interpreter {
    translate: Box<dyn Translate>,
}

impl Interpreter {
    /// The caller's events for these of the provider's; perhaps none.
    pub(crate) fn run(&mut self, run: &Run) -> Result<Bytes, Untranslatable> {
        let mut out = bytes::BytesMut::with_capacity(run.raw.len() * 2);
        for event in complete(&run.raw) {
            self.translate.event(&event, &mut out)?;
        }
        Ok(out.freeze())
    }

    /// The caller's last events, behind the provider's last one if that came.
    pub(crate) fn last(&mut self, run: Option<&Run>) -> Result<Bytes, Untranslatable> {
        let said = run.map(|run| self.run(run)).transpose()?.unwrap_or_default();
        let mut out = bytes::BytesMut::from(said);
        self.translate.end(&mut out);
        Ok(out.freeze())
    }
}

/// A request in every API in which it is asked.
pub(crate) struct Wording {
    asked: Arc<Request>,
    /// As the preferred provider is asked.
    preferred: Arc<Request>,
    rules: RouteRules,
    /// What else was tried, for fallbacks; none of those in which it cannot be said.
    others: Mutex<Vec<(Api, Option<Arc<Request>>)>>,
}

impl Wording {
    pub(crate) fn new(asked: Arc<Request>, preferred: Arc<Request>, rules: RouteRules) -> Self {
        Self { asked, preferred, rules, others: Mutex::default() }
    }

    /// None where it cannot be said.
    pub(crate) fn said_in(&self, api: Api) -> Option<Arc<Request>> {
        if let Some(known) = [&self.preferred, &self.asked].into_iter().find(|request| request.api() == api) {
            return Some(known.clone());
        }
        let mut others = self.others.lock();
        if let Some((_, known)) = others.iter().find(|(of, _)| *of == api) {
            return known.clone();
        }
        let said = say(&self.asked, api, self.rules).ok().map(Arc::new);
        others.push((api, said.clone()));
        said
    }
}

/// A request said in another API.
pub(crate) fn say(asked: &Request, api: Api, rules: RouteRules) -> Result<Request, Refusal> {
    let defaults = Defaults { max_tokens: rules.max_tokens_default };
    Request::parse(api, &asked.to(api, &defaults)?)
}

impl Plan {
    /// Whether the caller speaks another API than the provider's `from`.
    pub(crate) fn differs(&self, from: Api) -> bool {
        self.asked.api() != from
    }

    fn wanted(&self, now_ms: u64) -> Wanted<'_> {
        Wanted { usage: self.asked.include_usage(), created: now_ms / 1000, asked: Some(self.asked.body()) }
    }

    /// A provider's whole answer or refusal, as this caller reads it: its status and its body.
    pub(crate) fn said_whole(
        &self,
        from: Api,
        (status, body): (u16, &Bytes),
        now_ms: u64,
    ) -> Result<(u16, Bytes), Untranslatable> {
        if !self.differs(from) {
            return Ok((status, body.clone()));
        }
        let to = self.asked.api();
        if status != 200 {
            return Ok(translate_error(from, to, status, body));
        }
        translate_whole(from, to, self.wanted(now_ms), body).map(|body| (status, body))
    }

    /// A kept answer in the form that this caller asked for, under an id and a time of its own.
    pub(crate) fn said_again(&self, kept: &Kept, from: Api, now_ms: u64) -> Result<Bytes, Untranslatable> {
        let stream = self.asked.stream();
        if !self.differs(from) {
            return Ok(rendered(stream, kept, now_ms, self.asked.include_usage()));
        }
        let (to, wanted, body) = (self.asked.api(), self.wanted(now_ms), rendered(stream, kept, now_ms, true));
        if stream { translate_sse(from, to, wanted, body) } else { translate_whole(from, to, wanted, &body) }
    }

    /// What translates a stream that comes in `from`; none where the caller speaks the same.
    pub(crate) fn interpreter(&self, from: Api, now_ms: u64) -> Option<Interpreter> {
        let translate = translate_stream(from, self.asked.api(), self.wanted(now_ms))?;
        Some(Interpreter { translate })
    }
}
