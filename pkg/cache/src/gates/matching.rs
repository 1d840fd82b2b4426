//! Which terms of one question have a counterpart in the other.

use crate::question::{MAX_TERMS, Question, Term};

/// Terms of `a` without a counterpart in `b`, each of `b` serving once.
pub(super) fn unmatched<'a>(a: &'a Question, b: &Question) -> impl Iterator<Item = Term> + 'a {
    let matched = matched(a, b);
    a.terms().iter().enumerate().filter(move |&(at, _)| !matched[at]).map(|(_, &term)| term)
}

/// For each term of `a`, whether it has a counterpart in `b`.
pub(super) fn matched(a: &Question, b: &Question) -> [bool; MAX_TERMS] {
    let mut found = [false; MAX_TERMS];
    let mut used = [false; MAX_TERMS];
    for (at, term) in a.terms().iter().enumerate() {
        let partner =
            b.terms().iter().enumerate().find(|&(other, candidate)| !used[other] && candidate.id() == term.id());
        if let Some((other, _)) = partner {
            used[other] = true;
            found[at] = true;
        }
    }
    found
}
