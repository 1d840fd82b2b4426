//! `x-signet-attempts`: how many requests went upstream for an answer, and why more than one.
//!
//! A structured field (RFC 9651): a whole number, and where it was not one good attempt a parameter `why`:
//! `2;why="first/gpt-4o connect_refused, second/gpt-4o 200"`. A pause before an attempt stands behind it: `+1500ms`.
//! A target that was passed over for one of a worse tier stands there too, but was sent nothing and is not counted:
//! `1;why="first/gpt-4o circuit_open, second/gpt-4o 200"`.

use http::HeaderValue;
use signet_provider::{Attempt, PassedOver};
use signet_types::{ModelName, ProviderName};
use std::fmt::Write as _;

/// The header's value; none where nobody was asked.
pub(crate) fn header(attempts: &[Attempt]) -> Option<HeaderValue> {
    match attempts {
        [] => None,
        [Attempt { outcome: Ok(_), passed_over, .. }] if passed_over.is_empty() => Some(HeaderValue::from_static("1")),
        attempts => HeaderValue::from_str(&text(attempts)).ok(),
    }
}

fn text(attempts: &[Attempt]) -> String {
    let mut lines = Vec::with_capacity(attempts.len());
    let name =
        |provider: &ProviderName, model: &ModelName| format!("{}/{}", plain(provider.as_str()), plain(model.as_str()));
    for attempt in attempts {
        let skipped = |it: &PassedOver| format!("{} {}", name(&it.provider, &it.model), it.why);
        lines.extend(attempt.passed_over.iter().map(skipped));
        let mut line = name(&attempt.provider, &attempt.model);
        let wrote = match attempt.outcome {
            Ok(status) => write!(line, " {}", status.as_u16()),
            Err(class) => write!(line, " {class}"),
        };
        wrote.expect("writing to a String does not fail");
        if !attempt.waited.is_zero() {
            write!(line, " +{}ms", attempt.waited.as_millis()).expect("writing to a String does not fail");
        }
        lines.push(line);
    }
    format!("{};why=\"{}\"", attempts.len(), lines.join(", "))
}

/// What may stand in a structured field's string without an escape; anything else becomes a question mark.
fn plain(name: &str) -> String {
    let plain = |c: char| if matches!(c, ' '..='~') && !matches!(c, '"' | '\\') { c } else { '?' };
    name.chars().map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::StatusCode;
    use std::time::Duration;

    fn attempt(provider: &str, outcome: Result<u16, &'static str>, waited_ms: u64) -> Attempt {
        Attempt {
            provider: provider.parse().expect("a name"),
            model: "m".parse().expect("a name"),
            outcome: outcome.map(|status| StatusCode::from_u16(status).expect("a status")),
            elapsed: Duration::ZERO,
            waited: Duration::from_millis(waited_ms),
            passed_over: Vec::new(),
        }
    }

    fn told(attempts: &[Attempt]) -> Option<String> {
        header(attempts).map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn one_good_attempt_is_a_number_and_everything_else_says_why() {
        assert_eq!(told(&[]), None);
        assert_eq!(told(&[attempt("a", Ok(200), 0)]).as_deref(), Some("1"));
        assert_eq!(told(&[attempt("a", Err("reset"), 0)]).as_deref(), Some("1;why=\"a/m reset\""));
        let two = [attempt("a", Ok(429), 0), attempt("a", Ok(200), 1500)];
        assert_eq!(told(&two).as_deref(), Some("2;why=\"a/m 429, a/m 200 +1500ms\""));
    }

    #[test]
    fn who_was_passed_over_is_told_and_not_counted() {
        let (provider, model) = ("a".parse().expect("a name"), "m".parse().expect("a name"));
        let passed_over = vec![PassedOver { provider, model, why: "circuit_open" }];
        let told = told(&[Attempt { passed_over, ..attempt("b", Ok(200), 0) }]);
        assert_eq!(told.as_deref(), Some("1;why=\"a/m circuit_open, b/m 200\""));
    }

    #[test]
    fn a_name_cannot_break_the_header() {
        let odd = [attempt("a\"b\\c é", Err("reset"), 0)];
        assert_eq!(told(&odd).as_deref(), Some("1;why=\"a?b?c ?/m reset\""));
    }
}
