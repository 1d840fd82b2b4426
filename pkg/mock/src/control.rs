//! `/_mock/…`: what a test or script asks the mock itself. None of it is counted.

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Response, StatusCode, header};
use serde::Serialize;

use crate::behaviour::Behaviour;
use crate::body::Reply;
use crate::server::Shared;

pub(crate) const PREFIX: &str = "/_mock/";

pub(crate) fn answer(shared: &Shared, head: &Parts, body: &Bytes) -> Response<Reply> {
    match (&head.method, head.uri.path()) {
        (&Method::GET, "/_mock/requests") => {
            let seen: Vec<_> = shared.journal.seen().iter().map(crate::Seen::to_json).collect();
            json(StatusCode::OK, &seen)
        }
        (&Method::DELETE, "/_mock/requests") => {
            shared.journal.reset();
            json(StatusCode::OK, &())
        }
        (&Method::GET, "/_mock/counts") => json(StatusCode::OK, &shared.journal.counts()),
        (&Method::POST, "/_mock/script") => match serde_json::from_slice::<Vec<Behaviour>>(body) {
            Ok(script) => {
                shared.journal.script(script);
                json(StatusCode::OK, &())
            }
            Err(error) => json(StatusCode::BAD_REQUEST, &format!("not a list of behaviours: {error}")),
        },
        (&Method::POST, "/_mock/close-idle") => {
            shared.close_idle();
            json(StatusCode::OK, &())
        }
        _ => {
            json(StatusCode::NOT_FOUND, &"GET|DELETE /_mock/requests, GET /_mock/counts, POST /_mock/script|close-idle")
        }
    }
}

fn json(status: StatusCode, value: &impl Serialize) -> Response<Reply> {
    let body = serde_json::to_vec(value).expect("plain values have a JSON form");
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Reply::whole(body, None))
        .expect("the head is constant")
}
