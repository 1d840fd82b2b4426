//! An HTTP/2 connection that is told to go away with requests in flight (RFC 9113 §6.8).
//!
//! The client may safely ask again what lies beyond the announced last stream, and must wait for the rest. hyper's
//! server cannot be made to drop accepted requests, so the few frames are written by hand. Request headers stay in
//! their HPACK block: the path is taken to be the chat endpoint.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::answer::chat_body;
use crate::journal::{Seen, Ticket};
use crate::request::ChatRequest;
use crate::service::Peer;

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
/// HPACK (RFC 7541): `:status: 200` from the static table, then a literal for its entry 31, `content-type`.
const HEAD: &[u8] = b"\x88\x0f\x10\x10application/json";

/// Waits for `in_flight` requests, answers the first and disowns the others and all that still come; ends with the client.
pub(crate) async fn serve(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    in_flight: usize,
    peer: &Peer,
) -> io::Result<()> {
    io.read_exact(&mut [0; PREFACE]).await?;
    frame(&mut io, SETTINGS, 0, 0, &[]).await?;
    let mut waiting: BTreeMap<u32, (Bytes, Ticket)> = BTreeMap::new();
    let mut bodies: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    let mut gone = false;
    loop {
        let mut head = [0; 9];
        io.read_exact(&mut head).await?;
        let [a, b, c, kind, flags, id @ ..] = head;
        let mut payload = vec![0; usize::try_from(u32::from_be_bytes([0, a, b, c])).expect("24 bits")];
        io.read_exact(&mut payload).await?;
        let stream = u32::from_be_bytes(id);
        match kind {
            SETTINGS | PING if flags & ACK == 0 => {
                let echo = if kind == PING { payload.as_slice() } else { &[] };
                frame(&mut io, kind, ACK, 0, echo).await?;
            }
            DATA => bodies.entry(stream).or_default().append(&mut payload),
            _ => {}
        }
        if matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0 {
            let body = Bytes::from(bodies.remove(&stream).unwrap_or_default());
            let mut ticket = enter(peer, &body);
            if gone {
                // Sent before the client had heard of it.
                ticket.abandon();
            } else {
                waiting.insert(stream, (body, ticket));
            }
        }
        if waiting.len() == in_flight
            && let Some((first, (body, mut ticket))) = waiting.pop_first()
        {
            frame(&mut io, GOAWAY, 0, 0, &[first.to_be_bytes(), [0; 4]].concat()).await?;
            frame(&mut io, HEADERS, END_HEADERS, first, HEAD).await?;
            frame(&mut io, DATA, END_STREAM, first, &answer(&body)).await?;
            ticket.finish();
            for (_, mut ticket) in std::mem::take(&mut waiting).into_values() {
                ticket.abandon();
            }
            gone = true;
        }
    }
}

fn enter(peer: &Peer, body: &Bytes) -> Ticket {
    let (head, ()) = Request::post("/v1/chat/completions").body(()).expect("the head is constant").into_parts();
    let (seq, _) = peer.shared.journal.enter(Seen::new(peer.connection, head, body), "");
    Ticket::new(Arc::clone(&peer.shared.journal), Arc::clone(&peer.fate), seq)
}

fn answer(body: &Bytes) -> Vec<u8> {
    serde_json::from_slice::<ChatRequest<'_>>(body)
        .map(|request| chat_body(request.ask().model.unwrap_or_default(), request.ask().prompt))
        .unwrap_or_default()
}

async fn frame(io: &mut (impl AsyncWrite + Unpin), kind: u8, flags: u8, stream: u32, payload: &[u8]) -> io::Result<()> {
    let [_, length @ ..] = u32::try_from(payload.len()).expect("frames are small").to_be_bytes();
    let mut out = Vec::with_capacity(9 + payload.len());
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    io.write_all(&out).await?;
    io.flush().await
}
