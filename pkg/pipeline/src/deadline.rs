//! How long a caller waits, as far as it says so.
//!
//! `X-Signet-Timeout-Ms` says it to us. OpenAI's and Anthropic's SDKs say it to their own services: `x-stainless-timeout`
//! (JavaScript: seconds until the head) and `x-stainless-read-timeout` (Python: the longest silence in seconds, with a
//! fraction). Either way nothing has come of an answer by then, so all three bound its first byte: the head of a stream,
//! the whole of any other answer. None ends a stream that runs.

use crate::fault::Fault;
use crate::head::Head;
use http::HeaderMap;
use std::time::Duration;
use tokio::time::Instant;

const OURS: &str = "x-signet-timeout-ms";
const THEIRS: [&str; 2] = ["x-stainless-timeout", "x-stainless-read-timeout"];
const LONGEST: Duration = Duration::from_hours(24);
/// What is kept for our refusal to reach a caller who told us before it gives up; at most a tenth of its time.
const MARGIN: Duration = Duration::from_millis(50);
/// An SDK ends the wait by itself, with the error that its user expects of a timeout, and the provider's call ends with
/// it. Its clock starts when ours does; so much later it has hung up also on a busy machine, and no 504 overtakes it.
const GRACE: Duration = Duration::from_millis(500);

/// When an answer must have begun; none where the caller does not say.
///
/// # Errors
/// `X-Signet-Timeout-Ms` is no whole number of milliseconds from 1 to a day. What SDKs send unasked is not the caller's
/// fault: it is ignored where it cannot be read.
pub(crate) fn deadline(head: &Head) -> Result<Option<Instant>, Fault> {
    Ok(patience(&head.headers)?.map(|patience| Instant::from_std(head.received) + patience))
}

/// How long may pass until then.
///
/// # Errors
/// As [`deadline`].
pub(crate) fn patience(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    let ours = text(OURS).map(|text| {
        let patience = text.parse().ok().map(Duration::from_millis);
        let patience = patience.filter(|patience| !patience.is_zero() && *patience <= LONGEST);
        let message = "X-Signet-Timeout-Ms must be a whole number of milliseconds from 1 to 86400000.";
        let told = patience.map(|patience| patience.saturating_sub(MARGIN.min(patience / 10)));
        told.ok_or_else(|| Fault::invalid(message.to_owned(), Some("X-Signet-Timeout-Ms")))
    });
    let theirs = THEIRS.iter().filter_map(|name| {
        let patience = Duration::try_from_secs_f64(text(name)?.parse().ok()?).ok()?;
        (!patience.is_zero()).then(|| patience.min(LONGEST) + GRACE)
    });
    Ok(ours.transpose()?.into_iter().chain(theirs).min())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderName, HeaderValue};

    fn of(headers: &[(&'static str, &'static str)]) -> Result<Option<u128>, Fault> {
        let headers = headers.iter().map(|&(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect();
        Ok(patience(&headers)?.map(|patience| patience.as_millis()))
    }

    #[test]
    fn an_sdk_gives_up_before_it_is_told_to_and_who_asked_us_is_told_before() {
        let waits = |header, text| of(&[(header, text)]).expect("readable").expect("it is said");
        assert!(waits("x-signet-timeout-ms", "500") < 500);
        for theirs in THEIRS {
            assert!(waits(theirs, "0.5") >= 750, "{theirs}");
        }
    }

    #[test]
    fn the_shortest_of_what_the_caller_says_counts() {
        for (headers, expected) in [
            (&[][..], None),
            (&[("x-signet-timeout-ms", "1500")], Some(1450)),
            (&[("x-stainless-timeout", "600")], Some(600_500)),
            (&[("x-stainless-read-timeout", "2.5")], Some(3000)),
            (&[("x-stainless-read-timeout", "600.0"), ("x-signet-timeout-ms", "90")], Some(81)),
            (&[("x-stainless-timeout", "3"), ("x-stainless-read-timeout", "2")], Some(2500)),
            (&[("x-stainless-timeout", "1e30")], None),
            (&[("x-stainless-timeout", "9e9")], Some(86_400_500)),
        ] {
            assert_eq!(of(headers).expect("readable"), expected, "{headers:?}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_a_fault_in_our_header_and_nothing_in_an_sdks() {
        for nonsense in ["", "0", "-1", "1.5", "soon", "86400001", "99999999999999999999"] {
            let fault = of(&[("x-signet-timeout-ms", nonsense)]).expect_err("it was meant for us");
            assert!(matches!(fault, Fault::Invalid { param: Some(param), .. } if param == "X-Signet-Timeout-Ms"));
        }
        for nonsense in ["", "0", "-1", "soon", "NaN", "inf", "NOT_GIVEN"] {
            assert_eq!(of(&[("x-stainless-read-timeout", nonsense)]).expect("ignored"), None, "{nonsense}");
        }
    }
}
