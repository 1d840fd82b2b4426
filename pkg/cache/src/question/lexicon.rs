//! What the rules know of English: the class of a word, the word it is compared as, and phrases that say the same.
//!
//! Built once from the tables, which are data. Everything not in here is an ordinary content word. Each word of a question
//! is looked up once; what the rules ask of it later is a bit.

use super::marks::{self, Mark};
use super::{antonyms, phrases, spelling, synonyms, tables};
use std::collections::HashMap;
use std::sync::LazyLock;

/// What kind of difference a token makes. Each class is compared by one gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Class {
    /// Numbers and ordinals.
    Number,
    /// Calendar dates.
    Date,
    /// Times of day.
    Time,
    /// Units and money.
    Unit,
    /// Ids, code, flags, versions, addresses, quoted text.
    Literal,
    /// not, no, without, un-.
    Negation,
    /// A word with an opposite.
    Polar,
    /// more, most, less, least, -er, -est.
    Degree,
    /// and, or, only, all, some.
    Connective,
    /// he, she, my.
    Pronoun,
    /// from, to, in.
    Preposition,
    /// who, when, how many.
    Intent,
    /// The shape of the answer that is wanted.
    Form,
    /// Names of languages, natural and programming.
    Language,
    /// Whom the model shall play.
    Persona,
    /// was, will, still.
    Tense,
    /// can, should, must.
    Modal,
    /// if, generally, for example.
    Scope,
    /// Everything else.
    Word,
    /// Grammar: articles, the copula, "do".
    Filler,
}

impl Class {
    /// Words of grammar, as opposed to those that name something.
    pub(super) const fn is_grammar(self) -> bool {
        use Class::{Connective, Degree, Filler, Intent, Modal, Negation, Preposition, Pronoun, Scope, Tense};
        matches!(self, Connective | Degree | Filler | Intent | Modal | Negation | Preposition | Pronoun | Scope | Tense)
    }
}

/// Number of classes that are compared.
pub(crate) const CLASSES: usize = Class::Filler as usize;

/// What is known of one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sense {
    /// Its class.
    pub(crate) class: Class,
    /// The word it is compared as.
    pub(crate) canon: &'static str,
    /// `more` or `most` that an ending adds.
    pub(crate) degree: Option<&'static str>,
}

/// A phrase and the words that replace it.
#[derive(Debug)]
pub(super) struct Rewrite {
    /// The words after the first.
    pub(super) rest: Box<[&'static str]>,
    /// What stands there instead.
    pub(super) with: Box<[&'static str]>,
    /// What must stand behind it.
    pub(super) next: Next,
    /// Only where a clause begins.
    pub(super) first: bool,
    /// Only behind "how to", "to", "I" or "you".
    pub(super) done: bool,
    /// Also where words themselves are asked about.
    pub(super) of_words: bool,
}

impl Rewrite {
    fn new(with: &'static str) -> Self {
        let with = with.split_whitespace().collect();
        Self { rest: Box::default(), with, next: Next::Any, first: false, done: false, of_words: false }
    }
}

/// What must stand behind a phrase for it to be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Anything.
    Any,
    /// Something that one does; not "be" or "look".
    Does,
    /// A known verb in its base form.
    Verb,
    /// The -ing form of a known verb, which becomes the verb.
    Gerund,
    /// A known verb, and an article behind it.
    Object,
}

/// What starts at one word.
#[derive(Debug, Default)]
pub(super) struct Slot {
    /// The word by itself.
    pub(super) sense: Option<Sense>,
    /// Phrases that begin with it, longest first.
    pub(super) rewrites: Vec<Rewrite>,
    /// The parts it can play, see [`marks`].
    pub(super) marks: Mark,
    /// The verb of an -ing form.
    pub(super) verb: Option<&'static str>,
    /// The usual spelling of it.
    pub(super) spelled: Option<&'static str>,
    /// The word that the gates take it for, see [`synonyms::NEAR`].
    pub(super) near: Option<&'static str>,
    /// An adjective that forms -er and -est, in its base form.
    pub(super) degrees: bool,
}

impl Slot {
    /// Whether the word is known as English: one that only other languages use, or that only a list of verbs names, is not.
    pub(super) fn is_known(&self) -> bool {
        self.sense.is_some() || !self.rewrites.is_empty()
    }
}

type Words = HashMap<&'static str, Slot, ahash::RandomState>;

static WORDS: LazyLock<Words> = LazyLock::new(build);
static UNITS: LazyLock<HashMap<&'static str, &'static str, ahash::RandomState>> = LazyLock::new(|| {
    rows(tables::UNITS).chain(rows(tables::UNITS_AFTER_NUMBERS)).map(|(canon, word)| (word, canon)).collect()
});

/// The slot of a word in lower case.
pub(super) fn slot(word: &str) -> Option<&'static Slot> {
    WORDS.get(word)
}

/// The sense of a word in lower case.
#[cfg(test)]
pub(super) fn sense(word: &str) -> Option<Sense> {
    slot(word).and_then(|slot| slot.sense)
}

/// The unit that a word or suffix behind a number names.
pub(super) fn unit(word: &str) -> Option<&'static str> {
    UNITS.get(word).copied()
}

/// `(canonical, variant)` of a table of `(canonical, "variant, variant")`; the canonical word is a variant of itself.
fn rows(table: &'static [(&'static str, &'static str)]) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.iter().flat_map(|&(canon, variants)| {
        std::iter::once(canon)
            .chain(variants.split(", ").filter(|word| !word.is_empty()))
            .map(move |word| (canon, word))
    })
}

/// Puts all tables together. What is said first about a word stays.
fn build() -> Words {
    let mut words = Words::default();
    add_words(&mut words);
    add_variants(&mut words);
    add_phrases(&mut words);
    add_phrases_of_nouns(&mut words);
    for slot in words.values_mut() {
        slot.rewrites.sort_by_key(|rewrite| std::cmp::Reverse(rewrite.rest.len()));
    }
    words
}

/// The words that have a sense of their own, in their forms.
fn add_words(words: &mut Words) {
    for &(class, table) in tables::CLASSES {
        for (canon, word) in rows(table) {
            let canon = if folds(class) { canon } else { word };
            add(words, word, Sense { class, canon, degree: None });
        }
    }
    for &(one, other) in antonyms::ANTONYMS {
        add_forms(words, one);
        add_forms(words, other);
    }
    for word in synonyms::VERBS.split_whitespace() {
        add_verb(words, word);
    }
    for word in synonyms::ADJECTIVES.split_whitespace() {
        add_degrees(words, word);
    }
}

/// The words that are said of others: spellings, synonyms, neighbours, and the lists of marked ones.
fn add_variants(words: &mut Words) {
    for (canon, word) in [spelling::SPELLINGS, spelling::MISSPELLINGS, synonyms::SYNONYMS].into_iter().flat_map(rows) {
        let sense = words.get(canon).and_then(|slot| slot.sense);
        let sense = sense.unwrap_or(Sense { class: Class::Word, canon, degree: None });
        let marks = words.get(canon).map_or(0, |slot| slot.marks);
        let slot = words.entry(word).or_default();
        slot.sense = Some(sense);
        slot.marks |= marks;
    }
    for (canon, word) in [spelling::SPELLINGS, spelling::MISSPELLINGS].into_iter().flat_map(rows) {
        words.entry(word).or_default().spelled = (canon != word).then_some(canon);
    }
    for (near, word) in rows(synonyms::NEAR) {
        words.entry(word).or_default().near = Some(near);
    }
    for &(mark, list) in marks::LISTS {
        for word in list.split_whitespace() {
            words.entry(word).or_default().marks |= mark;
        }
    }
}

fn add_phrases(words: &mut Words) {
    for (list, of_words) in [(phrases::COMPOUNDS, true), (phrases::REWRITES, false)] {
        for &(phrase, with) in list {
            add_phrase(words, phrase, Rewrite { of_words, ..Rewrite::new(with) });
        }
    }
    for &(next, first, list) in phrases::HOW_TO {
        for phrase in list {
            add_phrase(words, phrase, Rewrite { next, first, of_words: true, ..Rewrite::new("how-to") });
        }
    }
}

/// Phrases that are the same around each noun of a list.
fn add_phrases_of_nouns(words: &mut Words) {
    for &(canon, other, nouns) in synonyms::BEFORE {
        for noun in nouns.split_whitespace() {
            let with = Rewrite::new(leaked(format!("{canon} {noun}")));
            add_phrase(words, leaked(format!("{other} {noun}")), with);
        }
    }
    for noun in phrases::STATES.split_whitespace() {
        let with = Rewrite::new(leaked(format!("an earlier {noun}")));
        add_phrase(words, leaked(format!("a previous {noun}")), with);
    }
    for &(canon, verbs, nouns) in phrases::LIGHT_VERBS {
        for noun in nouns.split_whitespace() {
            let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
            let with = leaked(format!("{canon} {article} {noun}"));
            for verb in verbs.split_whitespace() {
                add_phrase(
                    words,
                    leaked(format!("{verb} {article} {noun}")),
                    Rewrite { done: true, ..Rewrite::new(with) },
                );
            }
        }
    }
}

/// Gives `word` a sense unless it has one.
fn add(words: &mut Words, word: &'static str, sense: Sense) {
    words.entry(word).or_default().sense.get_or_insert(sense);
}

/// A phrase and what replaces it.
fn add_phrase(words: &mut Words, phrase: &'static str, rewrite: Rewrite) {
    let mut parts = phrase.split(' ');
    let start = parts.next().expect("split yields at least one part");
    let rewrite = Rewrite { rest: parts.collect(), ..rewrite };
    words.entry(start).or_default().rewrites.push(rewrite);
}

/// A verb and its -ing form, which is known by its verb.
fn add_verb(words: &mut Words, word: &'static str) {
    add(words, word, Sense { class: Class::Word, canon: word, degree: None });
    let form = leaked(super::stem::gerund(word));
    add(words, form, Sense { class: Class::Word, canon: form, degree: None });
    words.entry(word).or_default().marks |= marks::VERB;
    let slot = words.entry(form).or_default();
    slot.marks |= marks::GERUND;
    slot.verb.get_or_insert(word);
}

/// `word` and its forms in -s, -ed and -ing, each a word of its own: "sold" is not "sell".
fn add_forms(words: &mut Words, word: &'static str) {
    add(words, word, Sense { class: Class::Polar, canon: word, degree: None });
    if word.len() > 2 {
        for form in [super::stem::plural(word), super::stem::past(word), super::stem::gerund(word)] {
            let form = leaked(form);
            add(words, form, Sense { class: Class::Polar, canon: form, degree: None });
        }
    }
}

/// The -er and -est forms of an adjective, with their degree.
fn add_degrees(words: &mut Words, word: &'static str) {
    let class = words.get(word).and_then(|slot| slot.sense).map_or(Class::Word, |sense| sense.class);
    add(words, word, Sense { class, canon: word, degree: None });
    words.entry(word).or_default().degrees = true;
    let (more, most) = super::stem::degrees(word);
    for (form, degree) in [(leaked(more), "more"), (leaked(most), "most")] {
        add(words, form, Sense { class, canon: form, degree: Some(degree) });
    }
}

/// Whether the words of a row are one word: "a" and "an", "do" and "does", "two" and 2. Elsewhere a row only says their
/// class, and each stands for itself.
const fn folds(class: Class) -> bool {
    matches!(class, Class::Filler | Class::Number | Class::Unit)
}

/// The table lives as long as the process, so its generated forms may as well.
fn leaked(form: String) -> &'static str {
    Box::leak(form.into_boxed_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spellings_are_opposites() {
        for &(one, other) in antonyms::ANTONYMS {
            let (one, other) = (sense(one).expect("in the table"), sense(other).expect("in the table"));
            assert_ne!(one.canon, other.canon);
        }
    }

    #[test]
    fn inflected_opposites_stay_opposites() {
        for (one, other) in
            [("enables", "disables"), ("included", "excluded"), ("encrypting", "decrypting"), ("cheaper", "cheap")]
        {
            let (one, other) = (sense(one).expect("generated"), sense(other).expect("generated"));
            assert_eq!((one.class, other.class), (Class::Polar, Class::Polar));
            assert_ne!((one.canon, one.degree), (other.canon, other.degree));
        }
    }
}
