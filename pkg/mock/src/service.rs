//! One request from its head to the response that answers it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;

use crate::answer::{self, Chat, StreamForm};
use crate::behaviour::{Behaviour, Fault};
use crate::body::{Broken, End, Reply};
use crate::embedding;
use crate::gzip::Gzip;
use crate::io::Fate;
use crate::journal::{Seen, Ticket};
use crate::request::{ChatRequest, EmbeddingRequest, is_json};
use crate::server::Shared;

const MAX_REQUEST_BYTES: usize = 256 << 20;
const DEFAULT_CHUNKS: usize = 74;
pub(crate) const CHAT: &str = "/v1/chat/completions";
const EMBEDDINGS: &str = "/v1/embeddings";
const MODELS: &str = "/v1/models";
pub(crate) const PATHS: [&str; 3] = [CHAT, EMBEDDINGS, MODELS];

/// What a connection's requests have in common.
pub(crate) struct Peer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) fate: Arc<Fate>,
    pub(crate) connection: u64,
}

/// A refusal in the provider's shape.
struct Refusal {
    status: StatusCode,
    kind: &'static str,
    message: String,
    param: Option<&'static str>,
    code: Option<&'static str>,
}

pub(crate) async fn handle(peer: Arc<Peer>, request: Request<Incoming>) -> Result<Response<Reply>, Broken> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, MAX_REQUEST_BYTES).collect().await.map_err(|_| Broken)?.to_bytes();
    if head.uri.path().starts_with(crate::control::PREFIX) {
        return Ok(crate::control::answer(&peer.shared, &head, &body));
    }
    let headers = Behaviour::from_headers(&head.headers);
    let call = if authorized(&peer.shared, &head) { read(&head, &body) } else { Err(wrong_key()) };
    let prompt = call.as_ref().map_or("", Call::prompt);
    let seen = Seen::new(peer.connection, head, &body);
    let (seq, scripted) = peer.shared.journal.enter(seen, prompt);
    let mut ticket = Ticket::new(Arc::clone(&peer.shared.journal), Arc::clone(&peer.fate), seq);
    let below = scripted.map_or_else(|| peer.shared.behaviour.clone(), |s| s.over(&peer.shared.behaviour));
    let behaviour = match headers {
        Ok(headers) => headers.over(&below),
        Err(error) => {
            let refusal = bad_request(error.to_string(), None);
            return Ok(refuse(&refusal, None, ticket));
        }
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
    Ok(respond(call, &behaviour, seq, ticket))
}

fn respond(call: Result<Call<'_>, Refusal>, behaviour: &Behaviour, seq: u64, ticket: Ticket) -> Response<Reply> {
    let status = behaviour.status.and_then(|code| StatusCode::from_u16(code).ok()).unwrap_or(StatusCode::OK);
    if status.as_u16() >= 400 {
        return refuse(&scripted_error(status), behaviour.retry_after.as_deref(), ticket);
    }
    let mut response = match call {
        Err(refusal) => return refuse(&refusal, None, ticket),
        Ok(Call::Chat(request)) => chat(&request, behaviour, ticket),
        Ok(Call::Embeddings(request)) => plain(embedding::body(&request), behaviour, ticket),
        Ok(Call::Models) => plain(include_str!("fixtures/models.json").trim_end().into(), behaviour, ticket),
    };
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let id = HeaderValue::try_from(format!("req_mock_{seq}")).expect("digits");
    headers.insert("x-request-id", id);
    headers.insert("openai-processing-ms", HeaderValue::from_static("1"));
    headers.insert("x-ratelimit-remaining-requests", HeaderValue::from_static("9999"));
    response
}

enum Call<'a> {
    Chat(ChatRequest<'a>),
    Embeddings(EmbeddingRequest<'a>),
    Models,
}

impl Call<'_> {
    /// What script entries match against.
    fn prompt(&self) -> &str {
        match self {
            Self::Chat(request) => request.prompt(),
            Self::Embeddings(request) => request.input.0.first().map_or("", |text| text),
            Self::Models => "",
        }
    }
}

fn read<'a>(head: &Parts, body: &'a Bytes) -> Result<Call<'a>, Refusal> {
    match (&head.method, head.uri.path()) {
        (&Method::POST, CHAT) => serde_json::from_slice(body).map(Call::Chat).map_err(|e| unreadable(body, &e)),
        (&Method::POST, EMBEDDINGS) => {
            serde_json::from_slice(body).map(Call::Embeddings).map_err(|e| unreadable(body, &e))
        }
        (&Method::GET, MODELS) => Ok(Call::Models),
        (method, path) => Err(Refusal {
            status: StatusCode::NOT_FOUND,
            code: Some("unknown_url"),
            ..bad_request(format!("Invalid URL ({method} {path})"), None)
        }),
    }
}

fn authorized(shared: &Shared, head: &Parts) -> bool {
    let Some(key) = &shared.api_key else { return true };
    let sent = head.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    sent.and_then(|value| value.strip_prefix("Bearer ")) == Some(key)
}

fn wrong_key() -> Refusal {
    let refusal = bad_request("Incorrect API key provided.".to_owned(), None);
    Refusal { status: StatusCode::UNAUTHORIZED, code: Some("invalid_api_key"), ..refusal }
}

fn unreadable(body: &[u8], error: &serde_json::Error) -> Refusal {
    if !is_json(body) {
        return bad_request("We could not parse the JSON body of your request.".to_owned(), None);
    }
    let text = error.to_string();
    let param = ["model", "messages", "input"].into_iter().find(|name| text.contains(&format!("`{name}`")));
    bad_request(text, param)
}

fn bad_request(message: String, param: Option<&'static str>) -> Refusal {
    Refusal { status: StatusCode::BAD_REQUEST, kind: "invalid_request_error", message, param, code: None }
}

fn scripted_error(status: StatusCode) -> Refusal {
    let (kind, code) = match status.as_u16() {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        _ => ("server_error", None),
    };
    Refusal { status, kind, message: format!("Mock error {}.", status.as_u16()), param: None, code }
}

fn refuse(refusal: &Refusal, retry_after: Option<&str>, ticket: Ticket) -> Response<Reply> {
    let body = answer::error_body(&refusal.message, refusal.kind, refusal.param, refusal.code);
    let mut response = typed("application/json", Reply::whole(body, Some(ticket)));
    *response.status_mut() = refusal.status;
    if let Some(value) = retry_after.and_then(|text| HeaderValue::try_from(text).ok()) {
        response.headers_mut().insert(header::RETRY_AFTER, value);
    }
    response
}

fn typed(content_type: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn chat(request: &ChatRequest<'_>, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
    let prompt = request.prompt();
    let wants_tool = behaviour.tool_call.unwrap_or_else(|| prompt.contains("use the tool"));
    let chat = Chat {
        model: &request.model,
        prompt,
        text: text(prompt, behaviour),
        finish: if behaviour.fault == Some(Fault::Length) { "length" } else { "stop" },
        tool: request.first_tool().filter(|_| wants_tool),
    };
    if request.stream != Some(true) {
        return plain(chat.json(), behaviour, ticket);
    }
    let form = StreamForm {
        chunks: behaviour.chunks.unwrap_or(DEFAULT_CHUNKS),
        usage: request.wants_usage(),
        choices_null: behaviour.fault == Some(Fault::ChoicesNull),
        error_after: if let Some(Fault::ErrorEvent(n)) = behaviour.fault { Some(n) } else { None },
        done: behaviour.fault != Some(Fault::NoDone),
        line_end: if behaviour.fault == Some(Fault::SplitUtf8) { "\r\n" } else { "\n" },
    };
    stream(chat.events(&form), behaviour, ticket)
}

fn text(prompt: &str, behaviour: &Behaviour) -> String {
    let mut text = behaviour.text.clone().unwrap_or_else(|| answer::answer_text(prompt));
    if behaviour.fault == Some(Fault::SplitUtf8) {
        text.push_str(" Grüße, 你好 🌍.");
    }
    while text.len() < behaviour.answer_bytes.unwrap_or(0) {
        text.push_str(" and so on");
    }
    text
}

fn stream(mut events: Vec<Bytes>, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
    let mut gap = Duration::from_millis(behaviour.chunk_ms.unwrap_or(0));
    let mut end = End::Clean;
    match behaviour.fault {
        Some(Fault::CutAfter(n)) => end = cut(&mut events, n, End::Cut),
        Some(Fault::RstAfter(n)) => end = cut(&mut events, n, End::Reset),
        Some(Fault::HangAfter(n)) => end = cut(&mut events, n, End::Stall),
        Some(Fault::HalfEventAfter(n)) => {
            let half = events.get(n).map(|event| event.slice(..event.len() / 2));
            end = cut(&mut events, n, End::Stall);
            events.extend(half);
        }
        Some(Fault::NeverEnding) => {
            let more = events[1].clone();
            end = cut(&mut events, 2, End::Repeat(more));
        }
        Some(Fault::SplitUtf8) => events = events.iter().flat_map(awkward_pieces).collect(),
        Some(Fault::Gzip) => events = gzipped(&events),
        Some(Fault::NotJson) => events = vec![Bytes::from_static(b"data: <html>\n\n")],
        _ => {}
    }
    if behaviour.burst == Some(true) {
        events = vec![events.concat().into()];
        gap = Duration::ZERO;
    }
    let mut response = typed("text/event-stream; charset=utf-8", Reply::paced(events, gap, end, ticket));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    encoded(response, behaviour)
}

fn cut(events: &mut Vec<Bytes>, after: usize, end: End) -> End {
    events.truncate(after);
    end
}

fn plain(body: Vec<u8>, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
    let body = if behaviour.fault == Some(Fault::NotJson) { b"<html>not JSON</html>".to_vec() } else { body };
    let (after, end) = match behaviour.fault {
        Some(Fault::CutAfter(n)) => (n, End::Cut),
        Some(Fault::RstAfter(n)) => (n, End::Reset),
        Some(Fault::HangAfter(n) | Fault::HalfEventAfter(n)) => (n, End::Stall),
        Some(Fault::Gzip) => {
            let body = gzipped(&[body.into()]).concat();
            return encoded(typed("application/json", Reply::whole(body, Some(ticket))), behaviour);
        }
        Some(Fault::SplitUtf8) => {
            let (length, pieces) = (body.len(), awkward_pieces(&body.into()));
            let gap = Duration::from_millis(behaviour.chunk_ms.unwrap_or(0));
            return typed("application/json", Reply::paced(pieces, gap, End::Clean, ticket).announcing(length));
        }
        _ => return typed("application/json", Reply::whole(body, Some(ticket))),
    };
    let length = body.len();
    let part = Bytes::from(body).slice(..after.min(length.saturating_sub(1)));
    typed("application/json", Reply::paced(vec![part], Duration::ZERO, end, ticket).announcing(length))
}

fn encoded(mut response: Response<Reply>, behaviour: &Behaviour) -> Response<Reply> {
    if behaviour.fault == Some(Fault::Gzip) {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

fn gzipped(frames: &[Bytes]) -> Vec<Bytes> {
    let mut head = Vec::new();
    let mut gzip = Gzip::start(&mut head);
    let mut out = vec![Bytes::from(head)];
    for frame in frames {
        let mut piece = Vec::with_capacity(frame.len() + 8);
        gzip.piece(&mut piece, frame);
        out.push(piece.into());
    }
    let mut tail = Vec::new();
    gzip.finish(&mut tail);
    out.push(tail.into());
    out
}

/// Cuts where a careless reader breaks: after the first byte of every character of several bytes, inside `data:` and
/// between `\r` and `\n`.
fn awkward_pieces(event: &Bytes) -> Vec<Bytes> {
    let mut cuts: Vec<usize> = event
        .iter()
        .enumerate()
        .filter(|(at, byte)| **byte >= 0xC0 || **byte == b'\r' || *at == 1)
        .map(|(at, _)| at + 1)
        .filter(|at| *at < event.len())
        .collect();
    cuts.push(event.len());
    let mut from = 0;
    cuts.into_iter().map(|to| event.slice(std::mem::replace(&mut from, to)..to)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn awkward_pieces_split_every_long_character_and_lose_nothing(text in "[a-zé你🌍\r\n]{1,40}") {
            let whole = Bytes::from(text.clone().into_bytes());
            let pieces = awkward_pieces(&whole);
            prop_assert_eq!(pieces.concat(), text.as_bytes());
            for piece in &pieces {
                prop_assert!(!piece.is_empty());
                let long = piece.iter().filter(|byte| **byte >= 0xC0).count();
                prop_assert!(long <= 1 && (long == 0 || piece.last() >= Some(&0xC0)));
            }
        }
    }
}
