//! What a request and an event say, whatever the API: the typed form between two APIs that differ.
//!
//! It is built only where a caller's API is not the provider's. Readers fill it from one API, writers say it in another.
//! Nothing is lost on the way: what a reader does not understand is named in [`Ask::rest`], and what a writer cannot say
//! it refuses. Texts of events stay in their escaped form ([`RawStr`]): they are JSON strings on both sides, so they are
//! copied, never unescaped.

use crate::Api;
use signet_openai::wire::{Json, write_str};
use std::borrow::Cow;

/// A question to a model.
#[derive(Debug)]
pub struct Ask<'a> {
    /// The API in which the caller asked: fields are named as they are there.
    pub from: Api,
    /// The model as asked.
    pub model: Cow<'a, str>,
    /// Instructions before the first turn, texts only.
    pub system: Vec<Part<'a>>,
    /// The conversation, oldest first.
    pub turns: Vec<Turn<'a>>,
    /// What the model may call; tool `i` was `tools[i]`.
    pub tools: Vec<Tool<'a>>,
    /// Whether and what it must call.
    pub choice: Choice<'a>,
    /// How tokens are chosen and when to stop.
    pub sampling: Sampling<'a>,
    /// How much to think before answering.
    pub thinking: Thinking<'a>,
    /// The form of the answer's text.
    pub format: Format<'a>,
    /// Whether an event stream is wanted.
    pub stream: bool,
    /// Whether usage is wanted in it; true where the API always tells.
    pub usage: bool,
    /// Who asks, for the provider's eyes.
    pub end_user: Option<Cow<'a, str>>,
    /// Every field that was not understood, by its path in the caller's body. A writer refuses if there is one.
    pub rest: Vec<String>,
}

impl Ask<'_> {
    /// An empty question of `from`, for a reader to fill.
    pub fn new(from: Api) -> Self {
        Self {
            from,
            model: Cow::Borrowed(""),
            system: Vec::new(),
            turns: Vec::new(),
            tools: Vec::new(),
            choice: Choice::default(),
            sampling: Sampling::default(),
            thinking: Thinking::default(),
            format: Format::Text,
            stream: false,
            usage: true,
            end_user: None,
            rest: Vec::new(),
        }
    }
}

/// Who speaks in a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The caller, and the results of tools.
    User,
    /// The model.
    Assistant,
}

/// One message of the conversation.
#[derive(Debug)]
pub struct Turn<'a> {
    /// Who speaks.
    pub role: Role,
    /// Where it stood, such as `messages[2]`.
    pub path: String,
    /// What is said, in order.
    pub parts: Vec<Part<'a>>,
}

/// A piece of a message.
#[derive(Debug)]
pub struct Part<'a> {
    /// Where it stood, such as `messages[2].content[0]`.
    pub path: String,
    /// What it is.
    pub what: Content<'a>,
}

/// What a piece of a message is.
#[derive(Debug)]
pub enum Content<'a> {
    /// Text.
    Text(Cow<'a, str>),
    /// A picture.
    Image(Source<'a>),
    /// A PDF document with its name, if it has one.
    File {
        /// The document.
        source: Source<'a>,
        /// Its file name or title.
        name: Option<Cow<'a, str>>,
    },
    /// The model calls a tool.
    Call {
        /// By which the result refers to it.
        id: Cow<'a, str>,
        /// The tool.
        name: Cow<'a, str>,
        /// JSON text; an object, if the model did as told. Empty for none.
        arguments: Cow<'a, str>,
    },
    /// What a tool returned.
    Result {
        /// The call's id.
        of: Cow<'a, str>,
        /// Texts, and images where the API allows them.
        parts: Vec<Part<'a>>,
        /// Whether the tool said that it failed.
        failed: bool,
    },
    /// What the model thought, with the provider's seal (signature) if it has one.
    Thinking {
        /// The text.
        text: Cow<'a, str>,
        /// The provider's signature over it.
        seal: Option<Cow<'a, str>>,
    },
    /// Thoughts that only the provider can read.
    Sealed(Cow<'a, str>),
    /// The model's words for not answering.
    Refusal(Cow<'a, str>),
}

/// Where bytes come from.
#[derive(Debug)]
pub enum Source<'a> {
    /// To be fetched by the provider.
    Url(Cow<'a, str>),
    /// Base64, with its media type.
    Base64 {
        /// Such as `image/png`.
        media: Cow<'a, str>,
        /// Base64 text.
        data: Cow<'a, str>,
    },
}

impl<'a> Source<'a> {
    /// Reads a URL; `data:` URLs with base64 hold the bytes themselves.
    pub fn of_url(url: Cow<'a, str>) -> Self {
        let inline = |url: &str| {
            let (head, _) = url.strip_prefix("data:")?.split_once(',')?;
            head.strip_suffix(";base64").map(|media| (5..5 + media.len(), head.len() + 6))
        };
        let Some((media, data)) = inline(&url) else { return Self::Url(url) };
        match url {
            Cow::Borrowed(url) => Self::Base64 { media: url[media].into(), data: url[data..].into() },
            Cow::Owned(url) => {
                Self::Base64 { media: url[media].to_owned().into(), data: url[data..].to_owned().into() }
            }
        }
    }

    /// As a URL, inline bytes as a `data:` URL.
    pub fn to_url(&self) -> Cow<'_, str> {
        match self {
            Self::Url(url) => Cow::Borrowed(url),
            Self::Base64 { media, data } => Cow::Owned(format!("data:{media};base64,{data}")),
        }
    }
}

/// A function that the caller runs for the model.
#[derive(Debug)]
pub struct Tool<'a> {
    /// By which it is called.
    pub name: Cow<'a, str>,
    /// For the model.
    pub description: Option<Cow<'a, str>>,
    /// JSON schema of its arguments; none means no arguments.
    pub schema: Option<Json<'a>>,
    /// Whether arguments must follow the schema.
    pub strict: bool,
}

/// Whether and what the model must call.
#[derive(Debug, Default)]
pub struct Choice<'a> {
    /// Which; none if the caller did not say.
    pub mode: Option<Mode<'a>>,
    /// Whether several calls at once are allowed; none if the caller did not say, which allows them.
    pub parallel: Option<bool>,
}

/// Which tool the model must call.
#[derive(Debug, PartialEq, Eq)]
pub enum Mode<'a> {
    /// As it likes.
    Auto,
    /// None.
    None,
    /// At least one.
    Any,
    /// This one.
    Named(Cow<'a, str>),
}

/// A number as it was written.
pub type Number<'a> = Cow<'a, str>;

/// How tokens are chosen and when to stop. None where the caller did not say.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the fields have the names of the APIs' own parameters")]
pub struct Sampling<'a> {
    pub max_tokens: Option<Number<'a>>,
    pub temperature: Option<Number<'a>>,
    pub top_p: Option<Number<'a>>,
    pub top_k: Option<Number<'a>>,
    pub stop: Vec<Cow<'a, str>>,
    pub n: Option<Number<'a>>,
    pub seed: Option<Number<'a>>,
    pub frequency_penalty: Option<Number<'a>>,
    pub presence_penalty: Option<Number<'a>>,
    pub logit_bias: Option<Json<'a>>,
    pub logprobs: Option<Json<'a>>,
    pub top_logprobs: Option<Number<'a>>,
}

/// How much to think before answering.
#[derive(Debug, Default)]
pub struct Thinking<'a> {
    /// Whether at all; none if the caller did not say.
    pub mode: Option<ThinkingMode<'a>>,
    /// `low`, `medium`, `high`, ..: the APIs use the same words.
    pub effort: Option<Cow<'a, str>>,
}

/// Whether to think.
#[derive(Debug, PartialEq, Eq)]
pub enum ThinkingMode<'a> {
    /// Not at all.
    Off,
    /// As much as the model finds right.
    Adaptive,
    /// At most so many tokens.
    Budget(Number<'a>),
}

/// The form of the answer's text.
#[derive(Debug)]
pub enum Format<'a> {
    /// Free.
    Text,
    /// Any JSON object.
    Json,
    /// JSON that follows a schema.
    Schema {
        /// A label of the caller's.
        name: Option<Cow<'a, str>>,
        /// For the model.
        description: Option<Cow<'a, str>>,
        /// JSON schema.
        schema: Json<'a>,
        /// Whether it must follow it; none if the caller did not say.
        strict: Option<bool>,
    },
}

/// A JSON string's text as it stands between its quotes, escapes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawStr<'d>(&'d str);

impl<'d> RawStr<'d> {
    /// The empty text.
    pub const EMPTY: Self = Self("");

    /// An object without members.
    pub const NO_ARGUMENTS: Self = Self("{}");

    /// Takes what stands between the quotes of one JSON string, if it is that: UTF-8, no bare quote or control character,
    /// known escapes. A lone surrogate escape passes, since a stream may cut a pair in two.
    pub fn between_quotes(bytes: &'d [u8]) -> Option<Self> {
        let (end, quote) = end_of(bytes)?;
        if quote { None } else { std::str::from_utf8(&bytes[..end]).ok().map(Self) }
    }

    /// Takes what stands before the next bare quote, under the same conditions, and gives what is behind it.
    pub fn before_quote(bytes: &'d [u8]) -> Option<(Self, &'d [u8])> {
        let (end, quote) = end_of(bytes)?;
        let text = std::str::from_utf8(&bytes[..end]).ok().filter(|_| quote)?;
        Some((Self(text), &bytes[end + 1..]))
    }

    /// The escaped text.
    pub const fn as_str(self) -> &'d str {
        self.0
    }

    /// Whether there is no text.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// Without its escapes; none if a surrogate stands alone.
    pub fn unescaped(self) -> Option<Cow<'d, str>> {
        if !self.0.contains('\\') {
            return Some(Cow::Borrowed(self.0));
        }
        let quoted = format!("\"{}\"", self.0);
        Json::parse(quoted.as_bytes()).ok()?.as_str().map(|text| Cow::Owned(text.to_owned()))
    }

    /// Appends `text` in escaped form to `out`; the other way round.
    pub fn escape(text: &str, out: &mut Vec<u8>) {
        let start = out.len();
        write_str(text, out);
        out.remove(start);
        out.pop();
    }
}

/// Where a JSON string's text ends, and whether a quote ends it; none if it holds what a string must not.
fn end_of(bytes: &[u8]) -> Option<(usize, bool)> {
    let mut from = 0;
    while let Some(at) = bytes[from..].iter().position(|byte| matches!(byte, b'\\' | b'"' | 0..=0x1F)) {
        let escape = &bytes[from + at..];
        from += at
            + match escape {
                [b'"', ..] => return Some((from + at, true)),
                [b'\\', b'u', digits @ ..] if digits.get(..4)?.iter().all(u8::is_ascii_hexdigit) => 6,
                [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
                _ => return None,
            };
    }
    Some((bytes.len(), false))
}

/// What an event of a stream, or a part of one, says.
///
/// Order: `Start`, then for each block `Open`, its texts, `Close`, then one `Stop` for each choice, `Usage`, `End`. Blocks
/// are numbered by `at` across choices and do not overlap within one choice. `Usage` may also come earlier and more than
/// once: each replaces the one before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Delta<'d> {
    /// The answer begins.
    Start {
        /// The answer's id at the provider.
        id: RawStr<'d>,
        /// The model that answers.
        model: RawStr<'d>,
    },
    /// A block begins.
    Open {
        /// Its number.
        at: u32,
        /// The choice that it belongs to.
        choice: u32,
        /// What it is.
        what: Opening<'d>,
    },
    /// More of a text or a refusal.
    Text {
        /// Which block.
        at: u32,
        /// What is added.
        text: RawStr<'d>,
    },
    /// More of a call's arguments: an escaped piece of JSON text.
    Arguments {
        /// Which block.
        at: u32,
        /// What is added.
        json: RawStr<'d>,
    },
    /// More thoughts.
    Thinking {
        /// Which block.
        at: u32,
        /// What is added.
        text: RawStr<'d>,
    },
    /// More of the seal (signature) over thoughts.
    Seal {
        /// Which block.
        at: u32,
        /// What is added.
        seal: RawStr<'d>,
    },
    /// A block is complete.
    Close {
        /// Which.
        at: u32,
    },
    /// A choice is complete.
    Stop {
        /// Which.
        choice: u32,
        /// Why it ended.
        why: Stop,
    },
    /// What was counted so far.
    Usage(Tokens),
    /// The provider failed inside the stream. Nothing follows.
    Failed {
        /// Whose fault.
        kind: Trouble,
        /// For people.
        message: RawStr<'d>,
    },
    /// A sign of life.
    Idle,
    /// The answer is complete.
    End,
}

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening<'d> {
    /// Text.
    Text,
    /// The model's words for not answering.
    Refusal,
    /// Thoughts.
    Thinking,
    /// Thoughts that only the provider can read, whole.
    Sealed(RawStr<'d>),
    /// A call of a tool.
    Call {
        /// By which the result refers to it.
        id: RawStr<'d>,
        /// The tool.
        name: RawStr<'d>,
    },
}

/// Why an answer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// The model had said all, or came to a stop sequence.
    End,
    /// The limit of tokens.
    Length,
    /// It calls tools.
    Calls,
    /// It, or a filter, would not answer.
    Refusal,
}

/// Token counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    /// All of the input, cached or not.
    pub input: u64,
    /// All of the output, thoughts included.
    pub output: u64,
    /// Of the input: read from the provider's cache.
    pub cache_read: u64,
    /// Of the input: written to the provider's cache.
    pub cache_written: u64,
    /// Of the output: thoughts, if the provider tells.
    pub thinking: Option<u64>,
}

/// Whose fault a failure is, in the classes that every API knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// The request.
    Invalid,
    /// The key.
    Authentication,
    /// What the key may do.
    Permission,
    /// There is no such thing.
    NotFound,
    /// Too many bytes.
    TooLarge,
    /// Too many requests.
    RateLimit,
    /// The provider has too much to do.
    Overloaded,
    /// The provider waited too long.
    Timeout,
    /// The provider.
    Server,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_raw_text_is_just_what_may_stand_between_the_quotes_of_one_string() {
        for good in ["", "plain ü", r#"a \"b\" \\ \/ \n \u00e9"#, r"\ud83d", r"\\"] {
            assert_eq!(RawStr::between_quotes(good.as_bytes()).map(RawStr::as_str), Some(good));
        }
        for bad in [&b"a\"b"[..], b"a\nb", b"\\", b"\\x", b"\\u12", b"\\u12g4", b"\xFF"] {
            assert_eq!(RawStr::between_quotes(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn half_a_character_passes_but_has_no_text() {
        let half = RawStr::between_quotes(br"\ud83d").expect("an escape");
        assert_eq!(half.unescaped(), None);
        let whole = RawStr::between_quotes(br"\ud83d\ude00").expect("two escapes");
        assert_eq!(whole.unescaped().as_deref(), Some("\u{1f600}"));
    }

    #[test]
    fn a_data_url_holds_its_bytes_and_any_other_url_is_one() {
        for (url, inline) in [("data:image/png;base64,iVBO", true), ("https://e.test/a.png", false), ("data:,x", false)]
        {
            let source = Source::of_url(url.into());
            assert_eq!(matches!(source, Source::Base64 { .. }), inline, "{url}");
            assert_eq!(source.to_url(), url);
        }
    }
}
