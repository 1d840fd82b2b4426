//! One request from its head to the response that answers it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::answer::{self, Said};
use crate::behaviour::{Behaviour, Fault};
use crate::body::{Broken, Reply};
use crate::errors::Refusal;
use crate::io::Fate;
use crate::journal::{Seen, Ticket};
use crate::pen::StreamForm;
use crate::request::{
    Ask, ChatRequest, CompletionRequest, EmbeddingRequest, MessagesRequest, ResponsesRequest, is_json,
};
use crate::route::{self, Api, Route, Vendor};
use crate::server::Shared;
use crate::wire::{plain, stream, typed};
use crate::{embedding, messages};

const MAX_REQUEST_BYTES: usize = 256 << 20;
const DEFAULT_CHUNKS: usize = 74;
const MODELS: &str = include_str!("fixtures/models.json");
const ANTHROPIC_MODELS: &str = include_str!("fixtures/anthropic_models.json");

/// What a connection's requests have in common.
pub(crate) struct Peer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) fate: Arc<Fate>,
    pub(crate) connection: u64,
}

pub(crate) async fn handle(peer: Arc<Peer>, request: Request<Incoming>) -> Result<Response<Reply>, Broken> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(|_| Broken)?.to_bytes();
    if head.uri.path().starts_with(crate::control::PREFIX) {
        return Ok(crate::control::answer(&peer.shared, &head, &body));
    }
    let route = route::of(&head);
    let vendor = route.map_or_else(|vendor| vendor, |route| route.vendor);
    let call = route.map_err(|_| Refusal::unknown_url(&head.method, head.uri.path()));
    let call = call.and_then(|route| read(&peer.shared, &head, route, &body));
    let prompt = call.as_ref().map_or("", Call::prompt);
    let (seq, behaviour) = enter(&peer, &head, &body, prompt);
    let mut ticket = Ticket::new(Arc::clone(&peer.shared.journal), Arc::clone(&peer.fate), seq);
    let behaviour = match behaviour {
        Ok(behaviour) => behaviour,
        Err(error) => return Ok(refuse(&error, vendor, None, seq, ticket)),
    };
    if let Some(ms @ 1..) = behaviour.latency_ms {
        tokio::time::sleep(Duration::from_millis(ms)).await;
    }
    match behaviour.fault {
        Some(Fault::Hang) => std::future::pending().await,
        Some(fault @ (Fault::CloseBeforeHead | Fault::Reset)) => {
            if fault == Fault::Reset {
                ticket.fate().reset();
            }
            ticket.abandon();
            return Err(Broken);
        }
        _ => {}
    }
    Ok(respond(call, vendor, &behaviour, seq, ticket))
}

/// Enters the request in the journal; its number, and what headers, script and flags say together.
fn enter(peer: &Peer, head: &Parts, body: &Bytes, prompt: &str) -> (u64, Result<Behaviour, Refusal>) {
    let journal = &peer.shared.journal;
    let (seq, scripted) = journal.enter(Seen::new(peer.connection, head.clone(), body), prompt);
    let below = scripted.map_or_else(|| peer.shared.behaviour.clone(), |s| s.over(&peer.shared.behaviour));
    let behaviour = match Behaviour::from_headers(&head.headers) {
        Ok(Behaviour { times: Some(times), .. }) if !journal.applies(head.uri.path(), prompt, times) => Ok(below),
        Ok(headers) => Ok(headers.over(&below)),
        Err(error) => Err(Refusal::bad_request(error.to_string(), None)),
    };
    (seq, behaviour)
}

fn respond(
    call: Result<Call<'_>, Refusal>,
    vendor: Vendor,
    behaviour: &Behaviour,
    seq: u64,
    ticket: Ticket,
) -> Response<Reply> {
    let status = behaviour.status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
    if status.as_u16() >= 400 {
        return refuse(&Refusal::scripted(status), vendor, behaviour.retry_after.as_deref(), seq, ticket);
    }
    let mut response = match call {
        Err(refusal) => return refuse(&refusal, vendor, None, seq, ticket),
        Ok(call) => call.answer(behaviour, ticket),
    };
    *response.status_mut() = status;
    name_request(&mut response, vendor, seq);
    let headers = response.headers_mut();
    let limits = match vendor {
        Vendor::Anthropic => "anthropic-ratelimit-requests-remaining",
        Vendor::OpenAi | Vendor::Azure => {
            headers.insert("openai-processing-ms", HeaderValue::from_static("1"));
            "x-ratelimit-remaining-requests"
        }
    };
    headers.insert(HeaderName::from_static(limits), HeaderValue::from_static("9999"));
    response
}

fn name_request(response: &mut Response<Reply>, vendor: Vendor, seq: u64) {
    let id = HeaderValue::try_from(request_id(seq)).expect("digits");
    response.headers_mut().insert(HeaderName::from_static(vendor.request_id()), id);
}

fn request_id(seq: u64) -> String {
    format!("req_mock_{seq}")
}

fn refuse(refusal: &Refusal, vendor: Vendor, retry_after: Option<&str>, seq: u64, ticket: Ticket) -> Response<Reply> {
    let body = refusal.body(vendor, &request_id(seq));
    let mut response = typed("application/json", Reply::whole(body, Some(ticket)));
    *response.status_mut() = refusal.status;
    name_request(&mut response, vendor, seq);
    if let Some(value) = retry_after.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

/// A request that was understood.
struct Call<'a> {
    route: Route<'a>,
    body: Body<'a>,
}

enum Body<'a> {
    Chat(ChatRequest<'a>),
    Completion(CompletionRequest<'a>),
    Response(ResponsesRequest<'a>),
    Messages(MessagesRequest<'a>),
    Embeddings(EmbeddingRequest<'a>),
    None,
}

impl Call<'_> {
    fn ask(&self) -> Option<Ask<'_>> {
        match &self.body {
            Body::Chat(request) => Some(request.ask()),
            Body::Completion(request) => Some(request.ask()),
            Body::Response(request) => Some(request.ask()),
            Body::Messages(request) => Some(request.ask()),
            Body::Embeddings(_) | Body::None => None,
        }
    }

    /// What script entries match against.
    fn prompt(&self) -> &str {
        match &self.body {
            Body::Chat(request) => request.ask().prompt,
            Body::Completion(request) => request.ask().prompt,
            Body::Response(request) => request.ask().prompt,
            Body::Messages(request) => request.ask().prompt,
            Body::Embeddings(request) => request.input.0.first().map_or("", |text| text),
            Body::None => "",
        }
    }

    /// The model of the path or the body; a body without one is refused on reading.
    fn model(&self) -> &str {
        let of_body = match &self.body {
            Body::Embeddings(request) => request.model.as_deref(),
            _ => self.ask().and_then(|ask| ask.model),
        };
        self.route.deployment.or(of_body).unwrap_or_default()
    }

    fn answer(&self, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
        let (api, model) = (self.route.api, self.model());
        let ask = match (&self.body, self.ask()) {
            (Body::Embeddings(request), _) => return plain(embedding::body(model, request), behaviour, ticket),
            (_, None) => {
                let list = if self.route.vendor == Vendor::Anthropic { ANTHROPIC_MODELS } else { MODELS };
                return plain(list.trim_end().into(), behaviour, ticket);
            }
            (_, Some(ask)) if api == Api::CountTokens => return plain(messages::count(ask.prompt), behaviour, ticket),
            (_, Some(ask)) => ask,
        };
        let said = say(&ask, model, behaviour);
        if !ask.stream {
            return plain(said.json(api), behaviour, ticket);
        }
        let form = StreamForm {
            chunks: behaviour.chunks.unwrap_or(DEFAULT_CHUNKS),
            usage: ask.usage,
            choices_null: behaviour.fault == Some(Fault::ChoicesNull),
            azure: self.route.vendor == Vendor::Azure,
            done: behaviour.fault != Some(Fault::NoDone),
            line_end: if behaviour.fault == Some(Fault::SplitUtf8) { "\r\n" } else { "\n" },
        };
        let mut events = said.events(api, &form);
        let mut tail = said.tail(api, &form);
        if let Some(Fault::ErrorEvent(sent)) = behaviour.fault
            && sent < events.len()
        {
            events.truncate(sent);
            events.extend(said.failure(api, sent, &form));
            tail = 0;
        }
        stream(events, tail, behaviour, ticket)
    }
}

fn say<'a>(ask: &Ask<'a>, model: &'a str, behaviour: &'a Behaviour) -> Said<'a> {
    let prompt = ask.prompt;
    let wants_tool = behaviour.tool_call.unwrap_or_else(|| prompt.contains("use the tool") && !ask.has_result);
    let thinks = behaviour.thinking.unwrap_or(ask.thinking);
    Said {
        text: text(prompt, behaviour),
        others: ask.others.iter().map(|prompt| text(prompt, behaviour)).collect(),
        tool: ask.tool.filter(|_| wants_tool),
        thinking: thinks.then(|| format!("The question [{}] has one answer.", answer::marker(prompt))),
        sealed: ask.sealed,
        length: behaviour.fault == Some(Fault::Length),
        stop: behaviour.stop.as_deref(),
        cached: behaviour.cached_tokens.unwrap_or(0),
        written: behaviour.cache_write_tokens.unwrap_or(0),
        store: ask.store,
        previous: ask.previous,
        ..Said::nothing(model, prompt)
    }
}

fn text(prompt: &str, behaviour: &Behaviour) -> String {
    let mut text = behaviour.text.clone().unwrap_or_else(|| answer::answer_text(prompt));
    if behaviour.fault == Some(Fault::SplitUtf8) {
        text.push_str(" Grüße, 你好 🌍.");
    }
    answer::padded(text, behaviour.answer_bytes.unwrap_or(0))
}

fn read<'a>(shared: &Shared, head: &'a Parts, route: Route<'a>, body: &'a Bytes) -> Result<Call<'a>, Refusal> {
    if shared.api_key.as_ref().is_some_and(|key| !route.vendor.has_key(&head.headers, key)) {
        return Err(Refusal::wrong_key());
    }
    if route.vendor == Vendor::Anthropic && !head.headers.contains_key(route::ANTHROPIC_VERSION) {
        return Err(Refusal::bad_request("anthropic-version: header is required", None));
    }
    let read = match route.api {
        Api::Chat => serde_json::from_slice(body).map(Body::Chat),
        Api::Completions => serde_json::from_slice(body).map(Body::Completion),
        Api::Responses => serde_json::from_slice(body).map(Body::Response),
        Api::Messages | Api::CountTokens => serde_json::from_slice(body).map(Body::Messages),
        Api::Embeddings => serde_json::from_slice(body).map(Body::Embeddings),
        Api::Models => return Ok(Call { route, body: Body::None }),
    };
    let call = Call { route, body: read.map_err(|error| unreadable(body, &error))? };
    if call.model().is_empty() {
        return Err(Refusal::bad_request("missing field `model`", Some("model")));
    }
    if let (Api::Messages, Body::Messages(MessagesRequest { max_tokens: None, .. })) = (route.api, &call.body) {
        return Err(Refusal::bad_request("max_tokens: Field required", None));
    }
    Ok(call)
}

fn unreadable(body: &[u8], error: &serde_json::Error) -> Refusal {
    if !is_json(body) {
        return Refusal::bad_request("We could not parse the JSON body of your request.", None);
    }
    let text = error.to_string();
    let param = ["model", "messages", "input", "prompt"].into_iter().find(|name| text.contains(&format!("`{name}`")));
    Refusal::bad_request(text, param)
}
