//! Compact features: what stays of a question in memory.

use super::eligible::Ineligible;
use super::lexicon::{CLASSES, Class};
use super::marks;
use super::spelling;
use super::token::Token;
use sha2::{Digest, Sha256};
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

/// Keyed per process, so that nobody can look for words that collide.
static KEYS: LazyLock<ahash::RandomState> = LazyLock::new(ahash::RandomState::new);

/// One canonical term: 58 bits of a keyed hash, its class, and whether it was written like a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Term(u64);

impl Term {
    const PROPER: u64 = 1;

    fn new(class: Class, canon: &str, proper: bool) -> Self {
        let mut hash = KEYS.build_hasher();
        hash.write(canon.as_bytes());
        Self((hash.finish() << 6) | ((class as u64) << 1) | u64::from(proper))
    }

    /// What is compared: hash and class.
    pub(crate) const fn id(self) -> u64 {
        self.0 & !Self::PROPER
    }

    /// Whether it is of `class`.
    pub(crate) const fn is(self, class: Class) -> bool {
        (self.0 >> 1) & 31 == class as u64
    }

    /// Written like a name.
    pub(crate) const fn is_proper(self) -> bool {
        self.0 & Self::PROPER != 0
    }
}

/// Most terms of a question; a token makes three at most, save for odd ones with hyphens and breaks.
pub(crate) const MAX_TERMS: usize = 192;

/// See [`super::Question`].
#[derive(Debug, Clone)]
pub(super) struct Features {
    pub(super) terms: Box<[Term]>,
    pub(super) sums: [u64; CLASSES],
    pub(super) same_words: [u8; 32],
    pub(super) bucket: u64,
}

impl PartialEq for Features {
    fn eq(&self, other: &Self) -> bool {
        self.same_words == other.same_words
    }
}

impl Eq for Features {}

/// Collects terms.
struct Collector {
    terms: Vec<Term>,
    sums: [u64; CLASSES],
    bucket: u64,
    exact: Vec<u8>,
    /// Asked about words themselves, see [`about_words`].
    about_words: bool,
}

impl Features {
    /// The features of tokens in canonical order.
    ///
    /// # Errors
    /// [`Ineligible::Empty`] if nothing is asked about.
    pub(super) fn of(tokens: &[Token<'_>], about_words: bool, volatile: bool) -> Result<Self, Ineligible> {
        let mut all = Collector {
            terms: Vec::with_capacity(tokens.len() + 2),
            sums: [0; CLASSES],
            bucket: 0,
            exact: Vec::with_capacity(160),
            about_words,
        };
        for (at, token) in tokens.iter().enumerate() {
            all.take(token);
            if token.ends && at + 1 < tokens.len() {
                let mark = if token.colon { ":" } else { "," };
                all.push(Class::Connective, mark, false);
            }
        }
        if all.terms.len() > MAX_TERMS {
            return Err(Ineligible::TooLong);
        }
        let content = |term: &Term| {
            [Class::Word, Class::Polar, Class::Literal, Class::Language].into_iter().any(|class| term.is(class))
        };
        let valued = |term: &Term| {
            [Class::Form, Class::Unit, Class::Date, Class::Number].into_iter().any(|class| term.is(class))
        };
        if !all.terms.iter().any(|term| content(term) || valued(term)) {
            return Err(Ineligible::Empty);
        }
        if volatile {
            // Kept for a short time, so it never answers from what is kept longer.
            all.digest(Class::Tense, "now");
        }
        Ok(Self {
            same_words: Sha256::digest(&all.exact).into(),
            terms: all.terms.into_boxed_slice(),
            sums: all.sums,
            bucket: all.bucket,
        })
    }

    /// The features of a text that is compared as a whole.
    pub(super) fn verbatim(text: &str) -> Self {
        let same_words: [u8; 32] = Sha256::new_with_prefix("verbatim ").chain_update(text).finalize().into();
        Self { terms: Box::default(), sums: [0; CLASSES], same_words, bucket: fnv(1, &same_words) }
    }
}

impl Collector {
    /// Adds a token's terms.
    fn take(&mut self, token: &Token<'_>) {
        if token.joined {
            self.push(Class::Connective, "-", false); // a man-eating shark is no man eating shark
        }
        let class = token.class();
        let text = token.written();
        let folded = !self.about_words && token.cased.is_none();
        let near = token.slot.and_then(|slot| slot.near).filter(|_| folded && token.class.is_none());
        match (token.class, token.sense()) {
            (Some(_), _) => self.push(class, text, token.proper || class == Class::Literal),
            (None, Some(sense)) => {
                if let Some(degree) = sense.degree {
                    self.push(Class::Degree, degree, false);
                }
                // A word that measures and may be another counts behind a number only, and then it is a value.
                let folded = folded && (class != Class::Unit || token.has(marks::MEASURE));
                let canon = if folded { sense.canon } else { text };
                match near {
                    Some(near) => self.push_near(canon, near),
                    None => self.push(grammar(class), canon, token.proper),
                }
            }
            (None, None) => {
                self.negative_prefix(text);
                match near {
                    Some(near) => self.push_near(text, near),
                    None if folded && !token.proper => self.push(class, &spelling::folded(text), false),
                    None => self.push(class, text, token.proper),
                }
            }
        }
        // "The students' union" is as often written without the mark.
        if token.owner && (!text.ends_with('s') || text.ends_with("ss")) {
            self.push(Class::Preposition, "'s", false);
        }
    }

    /// "unsafe", "non", "illegible": a prefix that may negate counts as a negation of its own kind.
    fn negative_prefix(&mut self, text: &str) {
        const PREFIXES: [&str; 7] = ["un", "non", "dis", "in", "im", "ir", "il"];
        let prefix = PREFIXES.into_iter().find(|prefix| text.len() >= prefix.len() + 4 && text.starts_with(prefix));
        if prefix.is_some() || text == "non" {
            self.push(Class::Negation, "un-", false);
        }
    }

    fn push(&mut self, class: Class, canon: &str, proper: bool) {
        self.compare(class, canon, proper);
        self.digest(class, canon);
    }

    /// A word that the gates take for another: only the digest tells them apart.
    fn push_near(&mut self, canon: &str, near: &str) {
        self.compare(Class::Word, near, false);
        self.digest(Class::Word, canon);
    }

    /// Adds what the gates compare.
    fn compare(&mut self, class: Class, canon: &str, proper: bool) {
        let term = Term::new(class, canon, proper);
        self.sums[class as usize] = self.sums[class as usize].wrapping_add(mixed(term.id()));
        if in_bucket(class) {
            self.bucket = self.bucket.wrapping_add(mixed(fnv(class as u64, canon.as_bytes())));
        }
        self.terms.push(term);
    }

    /// Adds to what is the same words.
    fn digest(&mut self, class: Class, canon: &str) {
        let length = u16::try_from(canon.len()).expect("a token is shorter than the longest text that is judged");
        self.exact.push(class as u8);
        self.exact.extend_from_slice(&length.to_be_bytes());
        self.exact.extend_from_slice(canon.as_bytes());
    }
}

/// Whether words themselves are asked about: their spelling, forms, meaning or difference. Then no word stands for another:
/// "synonyms of quick" is not "synonyms of fast", and "movie and film" are two.
pub(super) fn about_words(tokens: &[Token<'_>]) -> bool {
    let letter = |token: &Token<'_>| token.owner && token.text.len() == 1; // "how many r's"
    // "The autumn term" is no word.
    let term = |at: usize| {
        tokens[at].is("term")
            && at > 0
            && tokens[at - 1].is_any(&[
                "autumn",
                "spring",
                "summer",
                "winter",
                "fall",
                "school",
                "academic",
                "university",
            ])
    };
    let named = |at: usize| tokens[at].has(marks::ABOUT_WORDS) && !term(at) || letter(&tokens[at]);
    (0..tokens.len()).any(named) || judged(tokens) || used(tokens)
}

/// "Is whilst formal", "which is right, enrol or enroll": words are judged.
fn judged(tokens: &[Token<'_>]) -> bool {
    let [is, word, judgement, ..] = tokens else { return false };
    let article = judgement.is("a") && tokens.get(3).is_some_and(|next| next.has(marks::JUDGES));
    let one = is.is("is") && !word.is_any(&["the", "a", "an", "it"]) && (judgement.has(marks::JUDGES) || article);
    one || is.is("which") && word.is("is") && judgement.has(marks::JUDGES) && judgement.ends
}

/// "Use whilst in a sentence", "write okay in an email", "when do I use amongst".
fn used(tokens: &[Token<'_>]) -> bool {
    tokens.windows(2).enumerate().any(|(at, pair)| {
        let text = || {
            tokens[at..].iter().any(|token| {
                token.is_any(&["sentence", "essay", "email", "writing", "contract", "contracts", "speech"])
            })
        };
        let grammar = || pair[1].class().is_grammar() && pair[1].class() != Class::Filler;
        let bare = || tokens.get(at + 2).is_none_or(|next| next.class() == Class::Preposition);
        pair[0].is_any(&["use", "using", "used", "write", "type"])
            && (bare() && text() || grammar() && (bare() || pair[1].ends) && pair[1].class() != Class::Pronoun)
    })
}

/// A word that names a piece of code is as it is written: "the normalise function".
pub(super) fn identifiers(tokens: &mut [Token<'_>]) {
    for at in 1..tokens.len() {
        let css = || {
            at > 1
                && tokens[at - 2].is_any(&["use", "using", "does"])
                && tokens[at].is("in")
                && tokens.get(at + 1).is_some_and(|next| next.class() == Class::Language)
        };
        let piece = tokens[at].has(marks::CODE) || css();
        let before = &mut tokens[at - 1];
        if piece && !before.ends && before.class.is_none() && before.cased.is_none() && !before.class().is_grammar() {
            before.cased = Some(before.text.clone());
        }
    }
}

/// Articles, the copula and "do" are compared as tense is.
const fn grammar(class: Class) -> Class {
    match class {
        Class::Filler => Class::Tense,
        class => class,
    }
}

/// The classes that must agree as multisets and are cheap to bucket by.
const fn in_bucket(class: Class) -> bool {
    use Class::{Date, Form, Language, Literal, Number, Time, Unit};
    matches!(class, Number | Date | Time | Unit | Literal | Form | Language)
}

/// FNV-1a (64 bit), stable across processes: a bucket may be stored. A collision costs a scan, since gates still judge.
fn fnv(seed: u64, bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The finaliser of `SplitMix64`: makes a sum of terms a digest of their multiset.
const fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
