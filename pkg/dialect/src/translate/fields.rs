//! The fields of an object that is being read: each is taken once, and what is left over was not understood.

use signet_openai::BadRequest;
use signet_openai::wire::{Json, Member, Members, duplicate};
use std::borrow::Cow;

/// The fields of one object of a request that have not been taken yet.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    path: String,
    members: Members<'a>,
}

impl<'a> Fields<'a> {
    /// Of the object at `path`, empty for the body itself.
    pub(crate) fn new(path: impl Into<String>, members: Members<'a>) -> Result<Self, BadRequest> {
        let path = path.into();
        match duplicate(&members) {
            Some(key) => Err(BadRequest::duplicate(&path, key)),
            None => Ok(Self { path, members }),
        }
    }

    /// Of a value that has to be an object.
    pub(crate) fn of(path: impl Into<String>, value: Json<'a>) -> Result<Self, BadRequest> {
        match value {
            Json::Object(members) => Self::new(path, members),
            _ => Err(BadRequest::wrong_type(&path.into(), "an object")),
        }
    }

    /// Where field `key` stands.
    pub(crate) fn path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A field; none if it is absent or null.
    pub(crate) fn take(&mut self, key: &str) -> Option<Member<'a>> {
        let at = self.members.iter().position(|member| member.key == key)?;
        Some(self.members.remove(at)).filter(|member| !member.value.is_null())
    }

    pub(crate) fn value(&mut self, key: &str) -> Option<Json<'a>> {
        self.take(key).map(|member| member.value)
    }

    pub(crate) fn text(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, BadRequest> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::String(text)) => Ok(Some(text)),
            Some(_) => Err(BadRequest::wrong_type(&self.path(key), "a string")),
        }
    }

    /// A text that has to be there.
    pub(crate) fn needed(&mut self, key: &str) -> Result<Cow<'a, str>, BadRequest> {
        self.text(key)?.ok_or_else(|| BadRequest::missing(&self.path(key)))
    }

    /// A number, as it was written.
    pub(crate) fn number(&mut self, key: &str) -> Result<Option<Cow<'a, str>>, BadRequest> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Number(text)) => Ok(Some(text)),
            Some(_) => Err(BadRequest::wrong_type(&self.path(key), "a number")),
        }
    }

    pub(crate) fn flag(&mut self, key: &str) -> Result<Option<bool>, BadRequest> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Bool(on)) => Ok(Some(on)),
            Some(_) => Err(BadRequest::wrong_type(&self.path(key), "a boolean")),
        }
    }

    pub(crate) fn array(&mut self, key: &str) -> Result<Option<Vec<Json<'a>>>, BadRequest> {
        match self.value(key) {
            None => Ok(None),
            Some(Json::Array(items)) => Ok(Some(items)),
            Some(_) => Err(BadRequest::wrong_type(&self.path(key), "an array")),
        }
    }

    /// The fields of an object inside.
    pub(crate) fn object(&mut self, key: &str) -> Result<Option<Fields<'a>>, BadRequest> {
        self.value(key).map(|value| Self::of(self.path(key), value)).transpose()
    }

    /// Leaves out a hint, if it has the value at which it is one.
    pub(crate) fn skip(&mut self, key: &str, is_hint: impl FnOnce(&Json<'a>) -> bool) {
        if let Some(at) = self.members.iter().position(|member| member.key == key)
            && (self.members[at].value.is_null() || is_hint(&self.members[at].value))
        {
            self.members.remove(at);
        }
    }

    /// Adds the paths of what was not taken.
    pub(crate) fn left_over(self, rest: &mut Vec<String>) {
        let path = |member: &Member<'_>| self.path(&member.key.chars().take(64).collect::<String>());
        rest.extend(self.members.iter().map(path));
    }
}
