//! Active and passive name the same roles: who did it stands before the verb or behind "by".

use super::super::lexicon::Class;
use super::super::stem;
use super::super::token::Token;
use std::borrow::Cow;

/// Verbs whose past and passive participle are not formed with -ed, as (base, past, participle).
const IRREGULAR: &[(&str, &str, &str)] = &[
    ("write", "wrote", "written"),
    ("draw", "drew", "drawn"),
    ("take", "took", "taken"),
    ("give", "gave", "given"),
    ("sing", "sang", "sung"),
    ("drive", "drove", "driven"),
    ("steal", "stole", "stolen"),
    ("eat", "ate", "eaten"),
    ("see", "saw", "seen"),
    ("choose", "chose", "chosen"),
    ("break", "broke", "broken"),
    ("know", "knew", "known"),
    ("beat", "beat", "beaten"),
    ("throw", "threw", "thrown"),
    ("grow", "grew", "grown"),
    ("wear", "wore", "worn"),
    ("hide", "hid", "hidden"),
    ("forget", "forgot", "forgotten"),
    ("forgive", "forgave", "forgiven"),
    ("shake", "shook", "shaken"),
    ("begin", "began", "begun"),
    ("bite", "bit", "bitten"),
    ("build", "built", "built"),
    ("make", "made", "made"),
    ("sell", "sold", "sold"),
    ("buy", "bought", "bought"),
    ("lead", "led", "led"),
    ("win", "won", "won"),
    ("hold", "held", "held"),
    ("tell", "told", "told"),
    ("teach", "taught", "taught"),
    ("catch", "caught", "caught"),
    ("send", "sent", "sent"),
    ("keep", "kept", "kept"),
    ("shoot", "shot", "shot"),
    ("find", "found", "found"),
    ("hear", "heard", "heard"),
    ("fight", "fought", "fought"),
    ("feed", "fed", "fed"),
    ("pay", "paid", "paid"),
    ("lose", "lost", "lost"),
];

/// Verbs whose passive has another sense: who stands by a grave or a seat is beside it, and a bishop marries others.
const BESIDE: [&str; 8] = ["bury", "buried", "seat", "seated", "park", "parked", "marry", "married"];

/// The past of a passive participle; of a regular one it is itself.
fn past_of(participle: &Token<'_>) -> Option<Cow<'static, str>> {
    let text = participle.text.as_ref();
    if participle.class.is_some() || participle.cased.is_some() || BESIDE.contains(&text) {
        return None;
    }
    let irregular = IRREGULAR.iter().find(|(_, _, form)| *form == text).map(|&(_, past, _)| Cow::Borrowed(past));
    irregular.or_else(|| (text.len() > 4 && text.ends_with("ed")).then(|| Cow::Owned(text.to_owned())))
}

/// "who was X written by", "by whom was X written" → "who wrote X".
pub(super) fn agent(tokens: &mut Vec<Token<'_>>) {
    if tokens.len() < 5 || !super::one_clause(tokens) {
        return;
    }
    let was = |token: &Token<'_>| token.is_any(&["was", "were"]);
    let last = tokens.len() - 1;
    let (copula, participle) = if tokens[0].is("by") && tokens[1].is_any(&["whom", "who"]) {
        (2, last)
    } else if tokens[0].is_any(&["who", "whom"]) && tokens[last].is("by") {
        (1, last - 1)
    } else if tokens[last - 1].is("by") && tokens[last].is_any(&["whom", "who"]) {
        let Some(copula) = tokens.iter().position(was) else { return };
        (copula, last - 2)
    } else {
        return;
    };
    if !was(&tokens[copula]) {
        return;
    }
    let subject = if tokens[last].is_any(&["whom", "who"]) { 0..copula } else { copula + 1..participle };
    let stated = subject.start == 0 && copula + 1 != participle;
    let plain =
        |token: &Token<'_>| super::noun(token) || token.class() == Class::Filler || token.class() == Class::Preposition;
    let Some(past) = past_of(&tokens[participle]).filter(|_| !stated) else { return };
    if subject.is_empty() || !tokens[subject.clone()].iter().all(plain) {
        return;
    }
    let mut active = vec![Token::known("who"), Token::word(past)];
    active.extend(tokens[subject].iter().cloned());
    *tokens = active;
}

/// "did A hire B" → "was B hired by A", "does A love B" → "is B loved by A". A and B are one word or name each, so that it
/// is plain which word is the verb.
pub(super) fn active(tokens: &mut Vec<Token<'_>>) {
    let [helper, rest @ ..] = tokens.as_slice() else { return };
    let copula = match helper.text.as_ref() {
        "did" => "was",
        "does" => "is",
        _ => return,
    };
    if helper.class.is_some() || helper.ends || rest.len() < 3 || !super::one_clause(tokens) {
        return;
    }
    let named = |token: &&Token<'_>| token.proper && super::noun(token) && !token.owner;
    let subject = rest.iter().take_while(named).count();
    let (Some(verb), objects) = (rest.get(subject), &rest[rest.len().min(subject + 1)..]) else { return };
    let article = usize::from(objects.first().is_some_and(|token| token.is("the")));
    let named_object =
        objects.len() == 1 || objects[article..].iter().all(|token| token.proper) || objects.len() == 1 + article;
    let whole = subject > 0
        && objects.len() > article
        && named_object
        && objects[article..].iter().all(|token| super::noun(token) && !token.owner && !token.joined);
    if !whole
        || verb.class() != Class::Word && verb.class() != Class::Polar
        || verb.proper
        || verb.cased.is_some()
        || verb.joined
        || verb.is_any(&BESIDE)
    {
        return;
    }
    let irregular = IRREGULAR.iter().find(|(base, _, _)| verb.is(base)).map(|&(_, _, form)| Cow::Borrowed(form));
    let participle = irregular.unwrap_or_else(|| Cow::Owned(stem::past(&verb.text)));
    let mut passive = vec![Token::known(copula)];
    passive.extend(objects.iter().cloned());
    passive.push(Token::word(participle));
    passive.push(Token::known("by"));
    passive.extend(rest[..subject].iter().cloned());
    let ends = tokens.last().is_some_and(|last| last.ends);
    for token in &mut passive {
        token.ends = false;
    }
    if let Some(last) = passive.last_mut() {
        last.ends = ends;
    }
    *tokens = passive;
}
