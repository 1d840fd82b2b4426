//! Where a capital tells nothing.
//!
//! Many write names in lower case: "what is the capital of france". But hardly any list can hold the names that are another
//! word ("Wine", "Scratch", "the Police", "COBRA"), so a capital is dropped only from the names of places that are no other
//! word, which a list can hold.

use super::lexicon::{Class, Slot};
use super::marks;
use super::token::Token;
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

/// Whether `part`, in lower case `word`, is the same word without its capitals; `flat` if all words of the text have them.
pub(super) fn folds(part: &str, word: &str, slot: Option<&Slot>, flat: bool) -> bool {
    let marked = |mark| slot.is_some_and(|slot| slot.marks & mark != 0);
    if marked(marks::AMBIGUOUS_NAME) {
        return false;
    }
    if marked(marks::ACRONYM) {
        return true;
    }
    let length = part.chars().count();
    match slot.filter(|slot| slot.is_known()).map(|slot| slot.sense.map(|sense| sense.class)) {
        Some(Some(Class::Language)) => length > 3,
        // Days; but a Volt and Noon are products.
        Some(Some(Class::Unit)) => flat || marked(marks::MEASURE) || word.ends_with("day") || word.ends_with("days"),
        Some(_) => flat,
        None => PLACE_SET.contains(word) && !part.chars().skip(1).any(char::is_uppercase),
    }
}

/// Places whose names are no other word: not Turkey, Chad, Chile, China, Jordan, Georgia, Nice, Cologne.
const PLACES: &str = "afghanistan albania algeria andorra angola argentina armenia australia austria azerbaijan bahrain \
    bangladesh belarus belgium belize benin bhutan bolivia botswana brazil bulgaria burundi cambodia cameroon canada \
    colombia croatia cuba cyprus denmark ecuador egypt england eritrea estonia ethiopia finland france gabon gambia germany \
    ghana greece greenland guatemala guyana haiti honduras hungary iceland india indonesia iran iraq ireland israel italy \
    jamaica kazakhstan kenya kosovo kuwait laos latvia lebanon lesotho liberia libya liechtenstein lithuania luxembourg \
    madagascar malawi malaysia maldives malta mauritius mexico moldova monaco mongolia montenegro mozambique \
    namibia nepal netherlands nicaragua nigeria norway oman pakistan panama paraguay peru philippines poland portugal qatar \
    romania russia rwanda scotland senegal serbia singapore slovakia slovenia somalia spain sudan suriname sweden \
    switzerland syria taiwan tajikistan tanzania thailand tunisia turkmenistan uganda ukraine uruguay uzbekistan venezuela \
    vietnam yemen zambia zimbabwe africa asia europe california texas florida alaska hawaii \
    london paris berlin munich madrid barcelona lisbon oslo stockholm copenhagen helsinki vienna prague warsaw budapest \
    athens dublin edinburgh brussels amsterdam zurich geneva moscow tokyo kyoto beijing shanghai seoul bangkok hanoi delhi \
    mumbai cairo nairobi sydney melbourne toronto montreal vancouver seattle houston istanbul jakarta";

static PLACE_SET: LazyLock<HashSet<&str, ahash::RandomState>> = LazyLock::new(|| PLACES.split_whitespace().collect());

/// Whether it is the name of a place that is no other word.
pub(super) fn is_place(token: &Token<'_>) -> bool {
    token.class.is_none() && PLACE_SET.contains(token.text.as_ref())
}

/// A name that is all that is asked about keeps a capital: nothing beside "Meta" tells it from "meta".
pub(super) fn alone(tokens: &mut [Token<'_>]) {
    let says = |token: &Token<'_>| {
        let frame = token.class().is_grammar() || token.has(marks::ASKING | marks::ABOUT_WORDS);
        token.class.is_some() || !frame
    };
    let mut content = tokens.iter_mut().filter(|token| says(token));
    if let (Some(name), None) = (content.next(), content.next())
        && name.proper
        && name.class.is_none()
        && name.cased.is_none()
        && !name.slot.is_some_and(|slot| slot.is_known() || slot.marks & marks::ACRONYM != 0)
    {
        let mut letters = name.text.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        name.cased = Some(Cow::Owned(first.chain(letters).collect()));
    }
}
