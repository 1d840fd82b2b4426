//! `x-signet-attempts`: how many requests went upstream for an answer, and why more than one.
//!
//! A structured field (RFC 9651): a whole number, and where it was not one good attempt a parameter `why`:
//! `2;why="first/gpt-4o connect_refused, second/gpt-4o 200"`. A pause before an attempt stands behind it: `+1500ms`.

use http::HeaderValue;
use signet_provider::Attempt;
use std::fmt::Write as _;

/// The header's value; none where nobody was asked.
pub(crate) fn header(attempts: &[Attempt]) -> Option<HeaderValue> {
    match attempts {
        [] => None,
        [Attempt { outcome: Ok(_), .. }] => Some(HeaderValue::from_static("1")),
        attempts => HeaderValue::from_str(&text(attempts)).ok(),
    }
}

fn text(attempts: &[Attempt]) -> String {
    let mut text = format!("{};why=\"", attempts.len());
    for (at, attempt) in attempts.iter().enumerate() {
        let comma = if at == 0 { "" } else { ", " };
        let (provider, model) = (plain(attempt.provider.as_str()), plain(attempt.model.as_str()));
        let wrote = match attempt.outcome {
            Ok(status) => write!(text, "{comma}{provider}/{model} {}", status.as_u16()),
            Err(class) => write!(text, "{comma}{provider}/{model} {class}"),
        };
        wrote.expect("writing to a String does not fail");
        if !attempt.waited.is_zero() {
            write!(text, " +{}ms", attempt.waited.as_millis()).expect("writing to a String does not fail");
        }
    }
    text.push('"');
    text
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
    fn a_name_cannot_break_the_header() {
        let odd = [attempt("a\"b\\c é", Err("reset"), 0)];
        assert_eq!(told(&odd).as_deref(), Some("1;why=\"a?b?c ?/m reset\""));
    }
}
