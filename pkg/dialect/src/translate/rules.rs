//! What is mapped, left out or refused where one API's request is said in another: one list, from which the refusals, the
//! documentation's tables and their tests take their words.

use crate::Api;
use signet_openai::BadRequest;

/// What becomes of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Said as this.
    Mapped(&'static str),
    /// Left out, since it changes no answer; the text tells for which values.
    Hint(&'static str),
    /// HTTP 400; the text tells why, or for which values.
    Refused(&'static str),
}

/// One line of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// The caller's API.
    pub from: Api,
    /// The provider's API.
    pub to: Api,
    /// The field as the caller writes it, `[]` for any place in an array.
    pub field: &'static str,
    /// What becomes of it.
    pub fate: Fate,
}

/// The list. A field of a request that is in no line is refused too.
pub const RULES: &[Rule] = &[];

/// The refusal of the field at `path`.
pub(crate) fn refused(from: Api, to: Api, path: &str) -> BadRequest {
    let why = RULES.iter().find_map(|rule| match rule.fate {
        Fate::Refused(why) if rule.from == from && rule.to == to && rule.field == general(path) => Some(why),
        _ => None,
    });
    let why = why.unwrap_or("the field is not known");
    let message =
        format!("Unsupported value: '{path}' cannot be said in the {} API that serves this model ({why}).", to.name());
    BadRequest { message, param: Some(path.to_owned()), code: Some("unsupported_value") }
}

/// `path` without the places in its arrays.
fn general(path: &str) -> String {
    let mut pieces = path.split('[');
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        out.extend(["[]", piece.split_once(']').map_or(piece, |(_, behind)| behind)]);
    }
    out
}
