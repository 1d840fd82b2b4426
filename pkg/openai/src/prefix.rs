//! What stays the same while a conversation grows: what a provider's prompt cache knows it by.
//!
//! Works on the body of every API whose prompt stands in these fields, so that one reader serves all. Used to choose
//! between equal providers only: a wrong prefix costs a provider's cache hit and nothing else.

use crate::canon;
use crate::json::{Json, Member};
use bytes::Bytes;

/// Fields before the first turn: chat completions, Anthropic's messages, responses.
const HEAD: [&str; 4] = ["tools", "functions", "system", "instructions"];
/// Where the turns are.
const TURNS: [&str; 3] = ["messages", "input", "prompt"];
/// A prompt that is one text counts up to here: its end grows.
const TEXT_MAX: usize = 1024;

/// SHA-256 of the prefix: `prompt_cache_key`, which says which requests belong together, or else tools, system prompt and
/// everything up to the first user turn. None where the body cannot be read.
///
/// Reads the body once more, so call it only where there is a choice.
pub fn prefix(body: &Bytes) -> Option<[u8; 32]> {
    let Json::Object(members) = Json::parse(body).ok()? else { return None };
    let key = members.iter().find(|member| member.key == "prompt_cache_key" && member.value.as_str().is_some());
    if let Some(key) = key {
        return Some(canon::digest(b"signet/prefix/v1", std::iter::once(key)));
    }
    let head = |member: &Member<'_>| HEAD.contains(&&*member.key) || TURNS.contains(&&*member.key);
    let kept: Vec<_> = members.into_iter().filter(head).map(beginning).collect();
    Some(canon::digest(b"signet/prefix/v1", kept.iter()))
}

fn beginning(mut member: Member<'_>) -> Member<'_> {
    if TURNS.contains(&&*member.key) {
        match &mut member.value {
            Json::Array(turns) => {
                let first = turns.iter().position(|turn| turn.get("role").and_then(Json::as_str) == Some("user"));
                turns.truncate(first.map_or(turns.len(), |at| at + 1));
            }
            Json::String(text) => {
                let end = text.floor_char_boundary(TEXT_MAX);
                text.to_mut().truncate(end);
            }
            _ => {}
        }
    }
    unmark(&mut member.value);
    member
}

/// Takes out `cache_control`: clients move these marks to the newest turn.
fn unmark(value: &mut Json<'_>) {
    match value {
        Json::Array(items) => items.iter_mut().for_each(unmark),
        Json::Object(members) => {
            members.retain(|member| member.key != "cache_control");
            for member in members {
                unmark(&mut member.value);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(body: &'static str) -> [u8; 32] {
        prefix(&Bytes::from_static(body.as_bytes())).expect("readable")
    }

    const FIRST: &str = r#"{"model":"m","tools":[{"name":"f"}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}"#;

    #[test]
    fn a_conversation_keeps_its_prefix_while_it_grows_and_its_settings_change() {
        let grown = r#"{"model":"n","temperature":0,"tools":[{"name":"f"}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello"},{"role":"user","content":"And?"}]}"#;
        assert_eq!(of(FIRST), of(grown));
    }

    #[test]
    fn tools_system_prompt_and_first_turn_each_make_another_prefix() {
        for other in [
            r#"{"tools":[{"name":"g"}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}"#,
            r#"{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"Be long."},{"role":"user","content":"Hi"}]}"#,
            r#"{"tools":[{"name":"f"}],"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Ho"}]}"#,
        ] {
            assert_ne!(of(FIRST), of(other), "{other}");
        }
    }

    #[test]
    fn the_callers_own_key_wins_over_what_is_said() {
        let one = of(r#"{"prompt_cache_key":"k","messages":[{"role":"user","content":"a"}]}"#);
        assert_eq!(one, of(r#"{"prompt_cache_key":"k","messages":[{"role":"user","content":"b"}]}"#));
        assert_ne!(one, of(r#"{"prompt_cache_key":"l","messages":[{"role":"user","content":"a"}]}"#));
    }

    #[test]
    fn marks_for_a_providers_cache_may_move() {
        let marked = r#"{"system":[{"type":"text","text":"s"}],"messages":[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]}]}"#;
        let moved = r#"{"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},{"role":"assistant","content":"b"}]}"#;
        assert_eq!(of(marked), of(moved));
    }

    #[test]
    fn a_prompt_of_one_text_counts_by_its_beginning() {
        let long = |end: &str| Bytes::from(format!(r#"{{"instructions":"i","input":"{}{end}"}}"#, "é".repeat(600)));
        assert_eq!(prefix(&long("a")), prefix(&long("b")));
        assert_ne!(of(r#"{"prompt":"a"}"#), of(r#"{"prompt":"b"}"#));
        assert_eq!(prefix(&Bytes::from_static(b"[]")), None);
    }
}
