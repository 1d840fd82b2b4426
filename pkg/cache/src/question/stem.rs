//! Regular English inflection, just as much as the rules need.

/// Whether the word ends in consonant, vowel, consonant, so that endings double its last letter.
fn doubles(word: &str) -> bool {
    let vowel = |c: u8| b"aeiou".contains(&c);
    match word.as_bytes() {
        [head @ .., a, b, c] => {
            let short = !head.iter().any(|&c| vowel(c)) && !word.contains('y');
            short && !vowel(*a) && vowel(*b) && !vowel(*c) && !b"wxy".contains(c)
        }
        _ => false,
    }
}

/// The word without a final y behind a consonant.
fn without_y(word: &str) -> Option<&str> {
    let head = word.strip_suffix('y')?;
    (!head.ends_with(['a', 'e', 'i', 'o', 'u'])).then_some(head)
}

/// Plural of a noun, third person of a verb.
pub(super) fn plural(word: &str) -> String {
    match without_y(word) {
        Some(head) => format!("{head}ies"),
        None if word.ends_with("ch") || word.ends_with("sh") || word.ends_with(['s', 'x', 'z']) => format!("{word}es"),
        None => format!("{word}s"),
    }
}

/// `word` with an ending that begins with a vowel.
fn extended(word: &str, ending: &str) -> String {
    match word.strip_suffix('e') {
        Some(head) => format!("{head}{ending}"),
        None if doubles(word) => format!("{word}{}{ending}", &word[word.len() - 1..]),
        None => format!("{word}{ending}"),
    }
}

/// The regular past.
pub(super) fn past(word: &str) -> String {
    without_y(word).map_or_else(|| extended(word, "ed"), |head| format!("{head}ied"))
}

/// The -ing form.
pub(super) fn gerund(word: &str) -> String {
    if word.ends_with("ee") { format!("{word}ing") } else { extended(word, "ing") }
}

/// Comparative and superlative in -er and -est.
pub(super) fn degrees(word: &str) -> (String, String) {
    match without_y(word) {
        Some(head) => (format!("{head}ier"), format!("{head}iest")),
        None => (extended(word, "er"), extended(word, "est")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regular_forms_follow_the_spelling_rules() {
        assert_eq!([plural("carry"), plural("match"), plural("key")], ["carries", "matches", "keys"]);
        assert_eq!([past("stop"), past("enable"), past("carry")], ["stopped", "enabled", "carried"]);
        assert_eq!([gerund("make"), gerund("run"), gerund("show")], ["making", "running", "showing"]);
        assert_eq!(degrees("big"), ("bigger".to_owned(), "biggest".to_owned()));
    }
}
