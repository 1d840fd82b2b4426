//! Texts that are the same as themselves only.
//!
//! White space is content in code and in lists; a letter, a mark or a writing is content where it is what is asked about, or
//! what a fault may lie in. Whoever folds those answers another question. So such a text is compared as it was written.

use super::lexicon::Class;
use super::marks;
use super::token::Token;

/// Works on what follows it letter by letter.
const WORKS: &[&str] = &[
    "fix",
    "find",
    "check",
    "correct",
    "proofread",
    "rewrite",
    "count",
    "encode",
    "decode",
    "hash",
    "spell",
    "punctuate",
    "edit",
    "wrong",
    "format",
    "convert",
    "reverse",
    "sort",
    "capitalize",
    "capitalise",
    "parse",
    "validate",
    "escape",
    "translate",
];

/// Stands beside what is called, in code.
const CALLS: &[&str] = &[
    "use", "call", "calls", "run", "declare", "invoke", "write", "method", "macro", "function", "operator", "command",
    "vim",
];

/// Whether `text`, whose question is `tokens`, is compared as it was written.
pub(super) fn holds(text: &str, tokens: &[Token<'_>]) -> bool {
    let text = text.trim();
    laid_out(text) || coded(text) || encoded(text) || about_writing(tokens)
}

/// White space that says something: lines, indentation, columns.
fn laid_out(text: &str) -> bool {
    text.contains("  ") || text.contains(|c: char| c.is_whitespace() && c != ' ')
}

/// Bytes are asked about.
fn encoded(text: &str) -> bool {
    const NAMES: [&str; 6] = ["md5", "sha1", "sha256", "base64", "utf-8", "utf8"];
    if !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return false; // all of them have one, and few questions do
    }
    let text = text.to_ascii_lowercase();
    NAMES.iter().any(|name| text.contains(name))
}

/// Punctuation that is part of a name or an expression, or is itself what is asked about.
fn coded(text: &str) -> bool {
    let chunks: Vec<&str> = text.split(' ').filter(|chunk| !chunk.is_empty()).collect();
    let last = chunks.len().saturating_sub(1);
    let calls = chunks.iter().any(|chunk| CALLS.iter().any(|word| word.eq_ignore_ascii_case(chunk)));
    chunks.iter().enumerate().any(|(at, chunk)| {
        let named = chunk.contains(char::is_alphanumeric);
        let asks = |c: char| matches!(c, '?' | '!' | '.' | '…');
        // "When do I use –?", "git add ."; but "how do I book ??" and "I wonder …" ask.
        let mark =
            !named && (at == last && !chunk.chars().all(asks) || matches!(chunk.trim_end_matches('?'), "." | ".."));
        // "What does save! do?"; a greeting ends so, too.
        let banged =
            at > 1 && at < last && chunk.ends_with(['!', '?']) && chunks[at + 1].starts_with(char::is_lowercase);
        let rest = chunk.trim_end_matches(asks);
        let ends_open = at == last && rest.ends_with([',', ';']);
        // "How do I use save!"; whoever is only loud asks the same, and whoever asks loudly "?!", too.
        let exclaims = at == last && calls && named && chunk[rest.len()..].starts_with('!');
        mark || banged
            || ends_open
            || exclaims
            || named && (chunk.starts_with(':') || chunk.contains(",)") || chunk.contains("?:"))
    })
}

/// Whether letters, marks or writings are what is asked about.
fn about_writing(tokens: &[Token<'_>]) -> bool {
    let is = |at: usize, words: &[&str]| tokens.get(at).is_some_and(|token: &Token<'_>| token.is_any(words));
    let pair = |one: &[&str], other: &[&str]| (1..tokens.len()).any(|at| is(at - 1, one) && is(at, other));
    let any = |words: &[&str]| tokens.iter().any(|token| token.is_any(words));
    let operand = tokens.iter().take_while(|token| !token.colon).count();
    let worked = operand < tokens.len() && tokens[..=operand].iter().any(|token| token.is_any(WORKS));
    let point = pair(&["code"], &["point", "points"]);
    let expands = pair(&["stand", "stands", "stood", "short", "full"], &["for", "form"]);
    let tongue = (1..tokens.len()).any(|at| tokens[at - 1].class() == Class::Language && is(at, &["for"]));
    let judged =
        is(0, &["is", "are"]) && is(tokens.len().wrapping_sub(1), &["correct", "right", "wrong", "ok", "okay"]);
    let usage = is(0, &["why", "when", "should"])
        && any(&["write", "writes", "written", "use", "type", "capitalize", "underline", "underlined"]);
    let typed =
        (1..tokens.len()).any(|at| is(at - 1, &["write", "type"]) && !is(at, &["a", "an", "the", "my", "me", "of"]));
    let named = is(tokens.len().wrapping_sub(1), &["word", "words", "called"]);
    typed
        || named
        || tokens.iter().any(|token| token.has(marks::WRITING))
        || worked
        || point
        || expands
        || tongue
        || judged
        || usage
}

/// Whether a spelling may be a fault's cause, or a title's own: "why is my variable lenght undefined", "who sang someone".
pub(super) fn spelt(tokens: &[Token<'_>]) -> bool {
    tokens.iter().any(|token| token.has(marks::SPELT))
}

#[cfg(test)]
mod tests {
    use super::super::Question;

    fn same(one: &str, other: &str) -> bool {
        let read = |text| Question::read(text).expect("eligible").same_words();
        read(one) == read(other)
    }

    #[test]
    fn white_space_inside_a_text_is_content_and_around_it_is_not() {
        for (one, other) in [
            ("What does this print?\nif a:\n  b()\n  c()", "What does this print?\nif a:\n  b()\nc()"),
            ("What does print('a  b') print?", "What does print('a b') print?"),
            ("Write a haiku:\nold pond", "Write a haiku: old pond"),
            ("What is a\ttab?", "What is a tab?"),
        ] {
            assert!(!same(one, other), "{one:?}");
        }
        assert!(same("  What is a watershed?\n", "What is a watershed?"));
    }

    #[test]
    fn marks_are_content_where_code_or_a_mark_is_asked_about() {
        for (one, other) in [
            ("What does (a) mean in Python?", "What does (a,) mean in Python?"),
            ("How do I use save!", "How do I use save?"),
            ("What does git add . do?", "What does git add do?"),
            ("When do I use –?", "When do I use —?"),
            ("What does :q! do in vim?", "What does :q do in vim?"),
            ("What does Int! mean in Swift?", "What does Int? mean in Swift?"),
        ] {
            assert!(!same(one, other), "{one:?}");
        }
        assert!(same("How do I book a table?!", "How do I book a table?"));
        assert!(same("Hi! How do I book a table?", "How do I book a table?"));
    }

    #[test]
    fn a_spelling_is_content_where_it_may_be_the_fault_or_a_name() {
        assert!(!same("Why is my variable lenght undefined?", "Why is my variable length undefined?"));
        assert!(!same("Who sang someone like you?", "Who sang somebody like you?"));
        assert!(!same("Find the errors: teh cat sat", "Find the errors: the cat sat"));
        assert!(same("What is the lenght of a marathon?", "What is the length of a marathon?"));
    }
}
