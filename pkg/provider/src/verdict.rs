//! What is done after an attempt. Pure.
//!
//! A request is sent again only where the attempt cannot have been billed: it never reached the provider, or the provider
//! refused it because it has too much to do. Then the next target is asked at once; only where none is left, and the
//! caller has said that it waits long enough, is the same one asked again after the pause that it wants, once.
//! Everything else is final, whatever it is: what may have been processed may have been billed.

use crate::error::UpstreamError;
use http::{HeaderMap, StatusCode};
use std::time::{Duration, UNIX_EPOCH};

/// What follows an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It stands, good or bad.
    Stop,
    /// The next target is asked.
    Next,
    /// The same target is asked again after so long.
    Wait(Duration),
}

/// What matters of the head of an answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    /// The pause that the provider wants.
    pub(crate) retry_after: Option<Duration>,
    /// `x-should-retry: false`: asking this provider again will not help.
    pub(crate) is_final: bool,
}

/// What is still possible.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    /// Another attempt may be made.
    pub(crate) attempt: bool,
    /// Another target is left.
    pub(crate) other: bool,
    /// Another target is left that is not known to be down.
    pub(crate) working: bool,
    /// Longest pause, zero where there was one already; none where the caller does not say how long it waits.
    pub(crate) pause: Option<Duration>,
}

pub(crate) fn verdict(outcome: Result<Answer, &UpstreamError>, room: Room) -> Verdict {
    if !room.attempt {
        return Verdict::Stop;
    }
    match outcome {
        Err(error) if error.is_unbilled() && room.other => Verdict::Next,
        Err(_) => Verdict::Stop,
        Ok(answer) if !is_busy(answer.status) => Verdict::Stop,
        Ok(_) if room.working => Verdict::Next,
        Ok(answer) => match (answer.retry_after, room.pause) {
            (Some(wait), Some(pause)) if wait < pause && !answer.is_final => Verdict::Wait(wait),
            _ => Verdict::Stop,
        },
    }
}

/// Whether the provider refused for want of capacity: 429, 503, and the 529 that Anthropic means by "overloaded".
pub(crate) fn is_busy(status: StatusCode) -> bool {
    matches!(status.as_u16(), 429 | 503 | 529)
}

impl Answer {
    /// Reads a head; `now_ms` is the time since the Unix epoch.
    pub(crate) fn read(status: StatusCode, headers: &HeaderMap, now_ms: u64) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
        let retry_after = text("retry-after-ms").and_then(milliseconds);
        Self {
            status,
            retry_after: retry_after.or_else(|| text("retry-after").and_then(|text| pause(text, now_ms))),
            is_final: text("x-should-retry").is_some_and(|value| value.eq_ignore_ascii_case("false")),
        }
    }
}

/// `retry-after-ms`, which is finer than a second; some providers write a fraction.
fn milliseconds(text: &str) -> Option<Duration> {
    let ms: f64 = text.parse().ok()?;
    Duration::try_from_secs_f64(ms / 1000.0).ok()
}

/// `Retry-After` (RFC 9110 §10.2.3): seconds, or a date; one that has passed is no pause. Some providers write a fraction.
fn pause(text: &str, now_ms: u64) -> Option<Duration> {
    if let Ok(seconds) = text.parse::<f64>() {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(Duration::from_millis(now_ms)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ClosedWhen, ConnectCause};
    use http::HeaderValue;

    const NOW_MS: u64 = 784_111_777_000; // Sun, 06 Nov 1994 08:49:37 GMT

    fn read(status: u16, headers: &[(&'static str, &'static str)]) -> Answer {
        let headers = headers.iter().map(|&(n, v)| (n.parse().expect("a name"), HeaderValue::from_static(v))).collect();
        Answer::read(StatusCode::from_u16(status).expect("a status"), &headers, NOW_MS)
    }

    fn all_rooms() -> Vec<Room> {
        let pauses = [None, Some(Duration::ZERO), Some(Duration::from_secs(10))];
        let mut rooms = Vec::new();
        for (attempt, other, working) in
            [(false, true, true), (true, true, true), (true, true, false), (true, false, false)]
        {
            rooms.extend(pauses.map(|pause| Room { attempt, other, working, pause }));
        }
        rooms
    }

    fn failures() -> Vec<(UpstreamError, bool)> {
        let (w, boxed) = (Duration::from_secs(1), || "x".into());
        let connect =
            [ConnectCause::Dns, ConnectCause::Refused, ConnectCause::Timeout, ConnectCause::Tls, ConnectCause::Network];
        let mut all: Vec<_> =
            connect.into_iter().map(|cause| (UpstreamError::Connect { cause, source: None }, true)).collect();
        all.extend([
            (UpstreamError::Closed { when: ClosedWhen::Unprocessed, source: None }, true),
            (UpstreamError::Closed { when: ClosedWhen::BeforeHead, source: None }, false),
            (UpstreamError::Closed { when: ClosedWhen::MidBody, source: None }, false),
            (UpstreamError::FirstByteTimeout { waited: w }, false),
            (UpstreamError::IdleTimeout { waited: w }, false),
            (UpstreamError::DeadlineExceeded { waited: w }, false),
            (UpstreamError::Protocol(boxed()), false),
            (UpstreamError::TooLarge { limit: 1 }, false),
            (UpstreamError::UnsupportedEncoding { encoding: "gzip".to_owned() }, false),
        ]);
        all
    }

    #[test]
    fn only_a_call_that_never_reached_the_provider_goes_to_another_after_a_failure() {
        for (error, unbilled) in failures() {
            for room in all_rooms() {
                let expected = if unbilled && room.attempt && room.other { Verdict::Next } else { Verdict::Stop };
                assert_eq!(verdict(Err(&error), room), expected, "{error:?} {room:?}");
            }
        }
    }

    #[test]
    fn only_a_refusal_for_want_of_capacity_is_followed_by_anything() {
        for status in 100..=599 {
            for (headers, wait) in [
                (&[("retry-after", "7")][..], Some(7)),
                (&[("retry-after", "7"), ("x-should-retry", "false")], None),
                (&[("retry-after", "10")], None),
                (&[], None),
            ] {
                for room in all_rooms() {
                    let busy = [429, 503, 529].contains(&status) && room.attempt;
                    let fits = room.pause == Some(Duration::from_secs(10));
                    let expected = match wait {
                        _ if busy && room.working => Verdict::Next,
                        Some(wait) if busy && fits => Verdict::Wait(Duration::from_secs(wait)),
                        _ => Verdict::Stop,
                    };
                    assert_eq!(verdict(Ok(read(status, headers)), room), expected, "{status} {headers:?} {room:?}");
                }
            }
        }
    }

    #[test]
    fn a_pause_is_read_in_every_form_and_nonsense_is_none() {
        let wait = |headers: &[(&'static str, &'static str)]| read(429, headers).retry_after;
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(wait(&[("retry-after", "2")]), ms(2000));
        assert_eq!(wait(&[("retry-after", " 1.5 ")]), ms(1500));
        assert_eq!(wait(&[("retry-after-ms", "40"), ("retry-after", "2")]), ms(40), "the finer one counts");
        assert_eq!(wait(&[("retry-after-ms", "soon"), ("retry-after", "2")]), ms(2000));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:49:40 GMT")]), ms(3000));
        assert_eq!(wait(&[("retry-after", "Sunday, 06-Nov-94 08:49:40 GMT")]), ms(3000));
        assert_eq!(wait(&[("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT")]), ms(0));
        for nonsense in ["", "-1", "inf", "nan", "1e300", "tomorrow"] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }
}
