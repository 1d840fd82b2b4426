//! Values in canonical form: numbers and number words, dates, times of day, units and money.
//!
//! "two" is 2, "5 November 2024" is 2024-11-05, "2pm" is 14:00, "km" is kilometre. A writing that can be read in two ways
//! (03/04/2024) stays a literal: it matches only itself.

use super::lexicon::{self, Class};
use super::token::Token;
use std::borrow::Cow;

/// Adds the tokens of a run that holds a digit.
pub(super) fn push_digits<'a>(core: &'a str, out: &mut Vec<Token<'a>>) {
    if let Some(number) = number(core) {
        out.push(Token::value(Class::Number, number));
    } else if let Some((amount, unit)) = with_unit(core) {
        out.push(Token::value(Class::Number, amount));
        out.push(Token::value(Class::Unit, unit));
    } else if let Some(ordinal) = ordinal(core) {
        out.push(Token::value(Class::Number, ordinal));
    } else if let Some(time) = clock(core) {
        out.push(Token::value(Class::Time, time));
    } else if let Some(date) = numeric_date(core) {
        out.push(Token::value(Class::Date, date));
    } else if let Some(&(_, word)) = NUMERONYMS.iter().find(|(short, _)| core.eq_ignore_ascii_case(short)) {
        out.push(Token::known(word));
    } else {
        out.push(Token::value(Class::Literal, core));
    }
}

/// Abbreviations with a digit, and what they stand for.
const NUMERONYMS: &[(&str, &str)] = &[
    ("2fa", "two-factor-authentication"),
    ("k8s", "kubernetes"),
    ("i18n", "internationalization"),
    ("l10n", "localization"),
    ("a11y", "accessibility"),
    ("e2e", "end-to-end"),
    ("p2p", "peer-to-peer"),
];

/// `1,000` → `1000`, `-3`. Leading zeros make an id, not a number; a zero at the end stays, since 3.10 may be a version.
fn number(core: &str) -> Option<Cow<'_, str>> {
    let digits = core.strip_prefix(['-', '+']).unwrap_or(core);
    let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(whole, rest)| (whole, Some(rest)));
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let grouped = plain(first) && groups.clone().all(|group| group.len() == 3 && plain(group));
    if !grouped || (whole.contains(',') && first.len() > 3) || (first.len() > 1 && first.starts_with('0')) {
        return None;
    }
    match fraction {
        Some(rest) if !plain(rest) => None,
        _ if !whole.contains(',') => Some(Cow::Borrowed(core)),
        _ => Some(Cow::Owned(core.replace(',', ""))),
    }
}

/// `$5`, `10%`, `5km`, `72°F`.
fn with_unit(core: &str) -> Option<(Cow<'_, str>, &'static str)> {
    let money = [('$', "dollar"), ('€', "euro"), ('£', "pound sterling"), ('¥', "yen")];
    if let Some((symbol, unit)) = money.into_iter().find(|&(symbol, _)| core.starts_with(symbol)) {
        return Some((number(&core[symbol.len_utf8()..])?, unit));
    }
    let at = core.find(|c: char| c.is_alphabetic() || "%°€£".contains(c))?;
    let amount = core[..at].strip_suffix('-').unwrap_or(&core[..at]); // a 3-day ticket
    Some((number(amount)?, lexicon::unit(&core[at..])?))
}

/// `1st`, `22nd`.
fn ordinal(core: &str) -> Option<String> {
    let at = core.len().checked_sub(2).filter(|&at| core.is_char_boundary(at))?;
    let suffix = ["st", "nd", "rd", "th"].into_iter().any(|suffix| core[at..].eq_ignore_ascii_case(suffix));
    let digits = &core[..at];
    (suffix && !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())).then(|| format!("{digits}."))
}

/// `2pm`, `2:30pm`, `14:30`, as 24-hour time. A bare hour is a number.
fn clock(core: &str) -> Option<String> {
    let lower = core.to_ascii_lowercase();
    let (digits, half) = ["am", "pm"]
        .into_iter()
        .find_map(|half| lower.strip_suffix(half).map(|digits| (digits, Some(half))))
        .unwrap_or((&lower, None));
    let (hour, minute) = digits.split_once(':').unwrap_or((digits, "00"));
    let well_formed = minute.len() == 2 && hour.len() <= 2 && (half.is_some() || digits.contains(':'));
    // "7:30" alone may be a time of day or minutes and seconds, until "am" or "pm" follows; "14:00" is a time.
    let open = half.is_none() && hour.parse::<u8>().is_ok_and(|hour| (1..=12).contains(&hour));
    match day_time(hour.parse().ok()?, minute.parse().ok()?, half).filter(|_| well_formed) {
        Some(_) if open => Some(format!("{digits}?")),
        time => time,
    }
}

/// `2` or `02:30` with the half of the day behind it.
fn half_day(time: &str, half: &str) -> Option<String> {
    let time = time.trim_end_matches('?');
    let (hour, minute) = time.split_once(':').unwrap_or((time, "0"));
    day_time(hour.parse().ok()?, minute.parse().ok()?, Some(half))
}

/// Canonical `hh:mm`.
fn day_time(hour: u8, minute: u8, half: Option<&str>) -> Option<String> {
    let hour = match half {
        None if hour < 24 => hour,
        Some("am") if (1..=12).contains(&hour) => hour % 12,
        Some("pm") if (1..=12).contains(&hour) => hour % 12 + 12,
        _ => return None,
    };
    (minute < 60).then(|| format!("{hour:02}:{minute:02}"))
}

/// `2024-11-05`, `2024/11/05`, and day/month/year where only one order is possible.
fn numeric_date(core: &str) -> Option<String> {
    let mut parts = core.split(['-', '/']);
    let (first, second, third) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() {
        return None;
    }
    if first.len() == 4 {
        return date(Some(first.parse().ok()?), second.parse().ok()?, Some(third.parse().ok()?));
    }
    let year = Some(third.parse().ok()?).filter(|_| third.len() == 4)?;
    let (one, two): (u8, u8) = (first.parse().ok()?, second.parse().ok()?);
    match (one > 12, two > 12) {
        (true, false) => date(Some(year), two, Some(one)),
        (false, true) => date(Some(year), one, Some(two)),
        _ if one == two => date(Some(year), one, Some(two)),
        _ => None,
    }
}

/// Canonical text; a missing part is left open.
fn date(year: Option<u16>, month: u8, day: Option<u8>) -> Option<String> {
    let valid = (1..=12).contains(&month) && day.is_none_or(|day| (1..=31).contains(&day));
    valid.then(|| match (year, day) {
        (Some(year), Some(day)) => format!("{year:04}-{month:02}-{day:02}"),
        (Some(year), None) => format!("{year:04}-{month:02}"),
        (None, Some(day)) => format!("--{month:02}-{day:02}"),
        (None, None) => format!("--{month:02}"),
    })
}

/// Joins what is written in several words: "twenty five", "5 November 2024", "2 pm", "5 km". Senses are already set.
pub(super) fn merge(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    let spelled = |token: &Token<'_>| matches!(token.class(), Class::Number | Class::Time) || month(token).is_some();
    if !tokens.iter().any(spelled) {
        return tokens;
    }
    let mut numbers = if tokens.iter().any(spells) { merge_numbers(&tokens) } else { tokens };
    let mut out: Vec<Token<'_>> = Vec::with_capacity(numbers.len());
    let mut at = 0;
    while at < numbers.len() {
        if let Some((date, used)) = written_date(&numbers[at..]) {
            let ends = numbers[at + used - 1].ends;
            if numbers[at].text.ends_with('.') && out.last().is_some_and(|last| last.is("the") && !last.ends) {
                out.pop(); // the 3rd of March
            }
            out.push(Token { ends, ..Token::value(Class::Date, date) });
            at += used;
            continue;
        }
        let token = std::mem::replace(&mut numbers[at], Token::gone());
        let token = after_number(token, &mut out);
        out.push(token);
        at += 1;
    }
    out
}

/// Whether the token is a number in words.
fn spells(token: &Token<'_>) -> bool {
    token.class.is_none() && token.class() == Class::Number
}

/// A token that a number before it turns into a unit or, together with it, into a time.
fn after_number<'a>(token: Token<'a>, out: &mut Vec<Token<'a>>) -> Token<'a> {
    let counted = out.last().filter(|last| matches!(last.class, Some(Class::Number | Class::Time)) && !last.ends);
    let (Some(last), None) = (counted, token.class) else { return token };
    if token.is_any(&["am", "pm"])
        && let Some(time) = half_day(&last.text, &token.text)
    {
        out.pop();
        return Token { ends: token.ends, ..Token::value(Class::Time, time) };
    }
    let counts = last.class == Some(Class::Number);
    match lexicon::unit(token.written()).filter(|_| counts) {
        Some(unit) => Token { ends: token.ends, ..Token::value(Class::Unit, unit) },
        None => token,
    }
}

/// The month (1–12) a token names; it counts only beside a number, which the caller sees to.
fn month(token: &Token<'_>) -> Option<u8> {
    const MONTHS: [&str; 12] = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    const FULL: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    if token.class.is_some() || !(3..=9).contains(&token.text.len()) {
        return None;
    }
    let text = token.text.as_ref();
    if matches!(text, "may" | "march") && token.cased.is_none() {
        return None; // "how do 5 march"
    }
    let at = FULL.iter().position(|name| *name == text).or_else(|| MONTHS.iter().position(|name| *name == text));
    at.or((text == "sept").then_some(8)).and_then(|at| u8::try_from(at + 1).ok())
}

/// A date in words at the start of `tokens`, and how many tokens it takes.
fn written_date(tokens: &[Token<'_>]) -> Option<(String, usize)> {
    let day = |token: &Token<'_>| -> Option<u8> {
        let digits = (token.class == Some(Class::Number)).then(|| token.text.trim_end_matches('.'))?;
        digits.parse().ok().filter(|day| (1..=31).contains(day))
    };
    let year = |at: usize| -> Option<u16> {
        let token = tokens.get(at).filter(|token| token.class == Some(Class::Number))?;
        token.text.parse().ok().filter(|year| (1000..3000).contains(year))
    };
    let first = tokens.first()?;
    let of = usize::from(tokens.get(1).is_some_and(|token| token.is("of")));
    let (month, day, used) = if let Some(day) = day(first) {
        (month(tokens.get(1 + of)?)?, Some(day), 2 + of)
    } else {
        let month = month(first)?;
        match tokens.get(1).and_then(day) {
            Some(day) => (month, Some(day), 2),
            None => (month, None, 1),
        }
    };
    match year(used) {
        Some(year) => Some((date(Some(year), month, day)?, used + 1)),
        None if day.is_none() => None, // "an august body", "who is June"
        None => Some((date(None, month, day)?, used)),
    }
}

/// Folds runs of number words into one number: "two hundred and five" is 205, "5 million" is 5000000.
fn merge_numbers<'a>(tokens: &[Token<'a>]) -> Vec<Token<'a>> {
    let mut out = Vec::with_capacity(tokens.len());
    let mut at = 0;
    while at < tokens.len() {
        if let Some((value, used)) = spelled_number(&tokens[at..]) {
            let ends = tokens[at + used - 1].ends;
            let joined = tokens[at].joined;
            out.push(Token { ends, joined, ..Token::value(Class::Number, value) });
            at += used;
        } else {
            out.push(tokens[at].clone());
            at += 1;
        }
    }
    out
}

/// The number that starts `tokens`, and how many tokens it takes; digits alone are left as they are.
fn spelled_number(tokens: &[Token<'_>]) -> Option<(String, usize)> {
    let value = |token: &Token<'_>| -> Option<u64> {
        match (token.class, token.sense()) {
            (Some(Class::Number), _) => token.text.parse().ok(),
            (None, Some(sense)) if sense.class == Class::Number && token.cased.is_none() => sense.canon.parse().ok(),
            _ => None,
        }
    };
    let (mut total, mut current, mut used) = (0_u64, value(tokens.first()?)?, 1);
    if current >= 100 && tokens[0].class.is_none() {
        (total, current) = if current == 100 { (0, 100) } else { (current, 0) };
    }
    while let Some(token) = tokens.get(used).filter(|_| !tokens[used - 1].ends) {
        let joined = token.is("and")
            && current >= 100
            && tokens[0].class.is_none()
            && tokens.get(used + 1).is_some_and(|next| next.class.is_none());
        let step = used + usize::from(joined);
        let Some(next) = tokens.get(step).filter(|token| token.class.is_none()).and_then(value) else { break };
        if tokens[step].joined && next >= 10 {
            break; // "three-hundred-year-old trees" are not "three hundred-year-old trees"
        }
        current = match next {
            100 if (1..10).contains(&current) => current * 100,
            1_000.. if current > 0 => {
                total = total.checked_add(current.checked_mul(next)?)?;
                0
            }
            1..100 if current == 0 && total > 0 => next,
            1..100 if current > 0 && current % 100 == 0 => current + next,
            1..10 if current % 100 >= 20 && current % 10 == 0 => current + next,
            _ => break,
        };
        used = step + 1;
    }
    let sum = total.checked_add(current)?;
    // "twenty second ad": an ordinal, or an ad of twenty seconds.
    if tokens.get(used).is_some_and(|last| last.is("second") && !last.joined) && sum % 100 >= 20 && sum % 10 == 0 {
        return None;
    }
    if sum % 100 >= 20
        && sum % 10 == 0
        && let Some(last) = tokens.get(used).filter(|last| last.class.is_none() && !tokens[used - 1].ends)
        && let Some(digit) = last.sense().filter(|sense| sense.class == Class::Number && sense.canon.len() == 2)
        && let Some(digit) = digit.canon.strip_suffix('.').and_then(|digit| digit.parse::<u64>().ok())
    {
        return Some((format!("{}.", sum + digit), used + 1)); // twenty-first
    }
    let plain = used == 1 && tokens[0].class.is_some();
    (!plain).then(|| (sum.to_string(), used))
}

#[cfg(test)]
mod tests {
    use super::super::rewrite;
    use super::super::token::tokens;
    use super::*;

    /// The values of a text, in canonical form.
    fn values(text: &str) -> Vec<String> {
        let merged = merge(rewrite::phrases(tokens(text), false));
        merged
            .iter()
            .filter(|token| token.class.is_some())
            .map(|token| format!("{:?} {}", token.class(), token.text))
            .collect()
    }

    #[test]
    fn writings_of_one_value_have_one_form() {
        let rows: [(&[&str], &[&str]); 8] = [
            (
                &[
                    "5 November 2024",
                    "November 5, 2024",
                    "the 5th of November 2024",
                    "2024-11-05",
                    "Nov 5 2024",
                    "2024/11/05",
                ],
                &["Date 2024-11-05"],
            ),
            (&["13/11/2024", "11/13/2024", "13 november 2024"], &["Date 2024-11-13"]),
            (&["November 2024", "nov 2024"], &["Date 2024-11"]),
            (&["2pm", "2 PM", "2 p.m.", "14:00", "2:00pm", "2:00 pm"], &["Time 14:00"]),
            (&["12am", "12 a.m.", "0:00"], &["Time 00:00"]),
            (&["two hundred and five", "205"], &["Number 205"]),
            (&["5 million", "5,000,000", "five million"], &["Number 5000000"]),
            (&["5km", "5 km", "five kilometers", "5 kilometres"], &["Number 5", "Unit kilometre"]),
        ];
        for (writings, canonical) in rows {
            for text in writings {
                assert_eq!(values(text), canonical, "{text}");
            }
        }
    }

    #[test]
    fn what_can_be_read_in_two_ways_stays_as_written() {
        for text in ["03/04/2024", "007", "1,00", "1.2.3", "31/31/2024", "25:00", "2:75", "0x1f"] {
            assert_eq!(values(text), [format!("Literal {text}")]);
        }
    }
}
