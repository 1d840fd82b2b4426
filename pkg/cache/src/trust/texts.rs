//! Whether two answers say the same, as far as their texts alone can tell.
//!
//! Only differences that change no answer are looked through: how characters are composed, forms of quotation marks, white
//! space (outside of code), and a full stop at the end. Case, digits, signs and markup stay: each can carry the answer. So
//! most right answers count as different, and are a matter for a judge.

use unicode_normalization::UnicodeNormalization;

/// Whether two answers are equal after normalisation. Symmetric. Empty answers are equal to nothing.
pub fn same_text(one: &str, other: &str) -> bool {
    let (one, other) = (normal(one), normal(other));
    !one.is_empty() && one == other
}

fn normal(text: &str) -> String {
    let composed: String = text.nfc().map(plain_quote).collect();
    // In code, white space means something; only the line ends' own is looked through.
    let spaced: String = if composed.contains("```") {
        composed.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim().to_owned()
    } else {
        composed.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    spaced.strip_suffix('.').filter(|rest| !rest.ends_with('.')).unwrap_or(&spaced).to_owned()
}

const fn plain_quote(c: char) -> char {
    match c {
        '\u{2018}' | '\u{2019}' => '\'',
        '\u{201C}' | '\u{201D}' => '"',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Answers to one question each, and whether one serves as well as the other.
    const PAIRS: [(&str, &str, bool); 40] = [
        ("Paris", "Paris.", true),
        ("Paris is the capital of France.", "Paris  is the capital of France", true),
        ("The answer is 42.\n", "The answer is 42.", true),
        ("It\u{2019}s in the menu.", "It's in the menu.", true),
        ("Use the \u{201C}Save\u{201D} button.", "Use the \"Save\" button.", true),
        ("Cafe\u{301} au lait", "Caf\u{e9} au lait", true),
        ("One\n\nTwo", "One\nTwo", true),
        ("```\nls -l  \n```", "```\nls -l\n```", true),
        ("Yes.", "Yes", true),
        ("Water boils at 100 \u{b0}C.\r\n", "Water boils at 100 \u{b0}C.", true),
        ("The capital of France is Paris.", "Paris is the capital of France.", true),
        ("Yes", "Yes, it is.", true),
        ("17 %", "17 percent", true),
        ("**Paris**", "Paris", true),
        ("PARIS", "Paris", true),
        ("About 8 billion people.", "Roughly eight billion people live on Earth.", true),
        ("Call 112.", "Dial 112.", true),
        ("1,000 metres", "1000 metres", true),
        ("Monday to Friday, 9 to 5", "9 to 5 from Monday to Friday", true),
        ("It is safe.", "It's safe.", true),
        ("17 %", "71 %", false),
        ("Yes.", "No.", false),
        ("Turn it on in Settings.", "Turn it off in Settings.", false),
        ("It is safe for children.", "It is not safe for children.", false),
        ("2*3", "23", false),
        ("-5 degrees", "5 degrees", false),
        ("The fee is 5.00 EUR", "The fee is 500 EUR", false),
        ("a_b", "ab", false),
        ("Use IT", "Use it", false),
        ("Set x to 1.", "Set X to 1.", false),
        ("```\nif a:\n    b()\nc()\n```", "```\nif a:\n    b()\n    c()\n```", false),
        ("rm -r x", "rm -R x", false),
        ("10^3", "103", false),
        ("From Oslo to Bergen.", "From Bergen to Oslo.", false),
        ("Loading..", "Loading", false),
        ("before 5 pm", "before 5 am", false),
        ("x < 3", "x <= 3", false),
        ("Section 1.2", "Section 12", false),
        ("", "", false),
        ("resume", "r\u{e9}sum\u{e9}", false),
    ];

    #[test]
    fn no_answer_that_differs_is_called_the_same() {
        let called = |right: bool| PAIRS.iter().filter(|(a, b, label)| *label == right && same_text(a, b)).count();
        assert_eq!((called(true), called(false)), (10, 0), "of 20 that serve as well, and of 20 that do not");
    }

    proptest! {
        #[test]
        fn it_is_symmetric_and_every_answer_is_the_same_as_itself(one in ".{0,40}", other in ".{0,40}") {
            prop_assert_eq!(same_text(&one, &other), same_text(&other, &one));
            prop_assert_eq!(same_text(&one, &one), !one.trim().is_empty() && one.trim() != ".");
        }
    }
}
