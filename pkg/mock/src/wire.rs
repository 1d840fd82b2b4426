//! From the events or the body of an answer to a response that may be paced, encoded, bent or cut.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Response, header};

use crate::behaviour::{Behaviour, Fault};
use crate::body::{End, Reply};
use crate::encoding::Encoding;
use crate::journal::Ticket;

pub(crate) fn typed(content_type: &'static str, reply: Reply) -> Response<Reply> {
    let mut response = Response::new(reply);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// The last `tail` events come without the wait between events, unless a fault cuts them up.
pub(crate) fn stream(mut events: Vec<Bytes>, tail: usize, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
    let whole = events.len();
    match behaviour.fault {
        Some(Fault::SplitUtf8) => events = events.iter().flat_map(awkward_pieces).collect(),
        Some(Fault::NotJson) => events = vec![Bytes::from_static(b"data: <html>\n\n")],
        _ => {}
    }
    if let Some(encoding) = encoding(behaviour) {
        events = encoding.apply(&events);
    }
    let (end, mut pauses) = break_off(&mut events, behaviour);
    if events.len() == whole {
        pauses.extend((whole.saturating_sub(tail)..whole).map(|place| (place, Duration::ZERO)));
    }
    let mut gap = gap(behaviour);
    if behaviour.burst == Some(true) {
        events = vec![events.concat().into()];
        gap = Duration::ZERO;
    }
    let reply =
        pauses.into_iter().fold(Reply::paced(events, gap, end, ticket), |reply, (at, wait)| reply.pausing(at, wait));
    let mut response = typed("text/event-stream; charset=utf-8", reply);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    encoded(response, behaviour)
}

pub(crate) fn plain(body: Vec<u8>, behaviour: &Behaviour, ticket: Ticket) -> Response<Reply> {
    let mut body = if behaviour.fault == Some(Fault::NotJson) { b"<html>not JSON</html>".to_vec() } else { body };
    if let Some(encoding) = encoding(behaviour) {
        body = encoding.apply(&[body.into()]).concat();
    }
    let length = body.len();
    let whole = Bytes::from(body);
    let part = |n: usize| whole.slice(..n.min(length.saturating_sub(1)));
    let (pieces, end) = match behaviour.fault {
        Some(Fault::CutAfter(n)) => (vec![part(n)], End::Cut),
        Some(Fault::RstAfter(n)) => (vec![part(n)], End::Reset),
        Some(Fault::HangAfter(n) | Fault::HalfEventAfter(n)) => (vec![part(n)], End::Stall),
        Some(Fault::SplitUtf8) => (awkward_pieces(&whole), End::Clean),
        Some(Fault::LateClose(ms)) => {
            // Without a length: only the end of the body tells the client that it has all.
            let reply = Reply::paced(vec![whole], gap(behaviour), End::Clean, ticket).pausing(1, millis(ms));
            return encoded(typed("application/json", reply), behaviour);
        }
        _ if behaviour.first_byte_ms.is_none() => {
            return encoded(typed("application/json", Reply::whole(whole, Some(ticket))), behaviour);
        }
        _ => (vec![whole], End::Clean),
    };
    let mut reply = Reply::paced(pieces, gap(behaviour), end, ticket).announcing(length);
    if let Some(ms) = behaviour.first_byte_ms {
        reply = reply.pausing(0, Duration::from_millis(ms));
    }
    encoded(typed("application/json", reply), behaviour)
}

/// Cuts the events where the fault says; how the body ends, and what is waited for before which event.
fn break_off(events: &mut Vec<Bytes>, behaviour: &Behaviour) -> (End, Vec<(usize, Duration)>) {
    let mut pauses: Vec<_> = behaviour.first_byte_ms.map(|ms| (0, Duration::from_millis(ms))).into_iter().collect();
    let end = match behaviour.fault {
        Some(Fault::CutAfter(n)) => cut(events, n, End::Cut),
        Some(Fault::RstAfter(n)) => cut(events, n, End::Reset),
        Some(Fault::HangAfter(n)) => cut(events, n, End::Stall),
        Some(Fault::HalfEventAfter(n)) if n < events.len() => {
            let halves = events[n].clone();
            let (first, second) = (halves.slice(..halves.len() / 2), halves.slice(halves.len() / 2..));
            if let Some(ms) = behaviour.pause_ms {
                events.splice(n..=n, [first, second]);
                pauses.push((n + 1, Duration::from_millis(ms)));
                End::Clean
            } else {
                events.truncate(n);
                events.push(first);
                End::Stall
            }
        }
        Some(Fault::NeverEnding) => {
            let more = events[1].clone();
            cut(events, 2, End::Repeat(more))
        }
        Some(Fault::LateClose(ms)) => {
            pauses.push((events.len(), millis(ms)));
            End::Clean
        }
        _ => End::Clean,
    };
    (end, pauses)
}

fn cut(events: &mut Vec<Bytes>, after: usize, end: End) -> End {
    events.truncate(after);
    end
}

fn gap(behaviour: &Behaviour) -> Duration {
    Duration::from_millis(behaviour.chunk_ms.unwrap_or(0))
}

fn millis(count: usize) -> Duration {
    Duration::from_millis(count as u64)
}

fn encoding(behaviour: &Behaviour) -> Option<Encoding> {
    behaviour.encoding.or(match behaviour.fault {
        Some(Fault::Gzip) => Some(Encoding::Gzip),
        Some(Fault::Brotli) => Some(Encoding::Brotli),
        _ => None,
    })
}

fn encoded(mut response: Response<Reply>, behaviour: &Behaviour) -> Response<Reply> {
    if let Some(encoding) = encoding(behaviour) {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
    }
    response
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
    use std::pin::Pin;
    use std::sync::Arc;

    use http_body::Body as _;
    use proptest::prelude::*;

    use super::*;
    use crate::io::Fate;
    use crate::journal::Journal;

    /// When each frame comes, in milliseconds.
    async fn times(behaviour: &Behaviour, tail: usize) -> Vec<u128> {
        let ticket = Ticket::new(Arc::new(Journal::new(0)), Arc::new(Fate::default()), 1);
        let events = (0..5).map(|_| Bytes::from_static(b"data: 1\n\n")).collect();
        let mut reply = stream(events, tail, behaviour, ticket).into_body();
        let begun = tokio::time::Instant::now();
        let mut times = Vec::new();
        while std::future::poll_fn(|cx| Pin::new(&mut reply).poll_frame(cx)).await.is_some() {
            times.push(begun.elapsed().as_millis());
        }
        times
    }

    #[tokio::test(start_paused = true)]
    async fn the_tail_is_not_paced_and_other_waits_stand_where_they_are_asked_for() {
        let paced = Behaviour { chunk_ms: Some(20), ..Behaviour::default() };
        assert_eq!(times(&paced, 2).await, [0, 20, 40, 40, 40]);
        let late = Behaviour { first_byte_ms: Some(500), ..paced.clone() };
        assert_eq!(times(&late, 2).await, [500, 520, 540, 540, 540]);
        let half = Behaviour { pause_ms: Some(300), fault: Some(Fault::HalfEventAfter(1)), ..paced };
        assert_eq!(times(&half, 2).await, [0, 20, 320, 340, 360, 380]);
    }

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
