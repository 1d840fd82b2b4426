//! The APIs that callers may speak to the gateway, and that it speaks to providers.

/// One API, by its vendor's documentation: a way to ask, a form of answers, of event streams and of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Api {
    /// OpenAI's `POST /v1/chat/completions`.
    Chat,
    /// OpenAI's legacy `POST /v1/completions`.
    Completions,
    /// OpenAI's `POST /v1/responses`.
    Responses,
    /// OpenAI's `POST /v1/embeddings`.
    Embeddings,
    /// OpenAI's `GET /v1/models`.
    Models,
    /// Anthropic's `POST /v1/messages`.
    Messages,
    /// Anthropic's `POST /v1/messages/count_tokens`.
    CountTokens,
}

impl Api {
    /// Every API.
    pub const ALL: [Self; 7] = [
        Self::Chat,
        Self::Completions,
        Self::Responses,
        Self::Embeddings,
        Self::Models,
        Self::Messages,
        Self::CountTokens,
    ];

    /// The name in records, metrics, partitions and configuration. Part of cache keys: never changed.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Completions => "completions",
            Self::Responses => "responses",
            Self::Embeddings => "embeddings",
            Self::Models => "models",
            Self::Messages => "messages",
            Self::CountTokens => "count_tokens",
        }
    }

    /// The path at which callers reach it here.
    pub const fn route(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Completions => "/v1/completions",
            Self::Responses => "/v1/responses",
            Self::Embeddings => "/v1/embeddings",
            Self::Models => "/v1/models",
            Self::Messages => "/v1/messages",
            Self::CountTokens => "/v1/messages/count_tokens",
        }
    }

    /// The other APIs in which what is asked here can be asked, the closest first.
    pub const fn stand_ins(self) -> &'static [Self] {
        match self {
            Self::Chat => &[Self::Messages],
            Self::Messages => &[Self::Chat],
            Self::Completions | Self::Responses => &[Self::Chat, Self::Messages],
            Self::Embeddings | Self::Models | Self::CountTokens => &[],
        }
    }

    /// The API that callers reach at `path`.
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|api| api.route() == path)
    }

    /// The event that ends a whole stream where the provider left it out; empty where a stream without its last event is a
    /// cut one.
    pub const fn last_event(self) -> &'static [u8] {
        match self {
            Self::Chat | Self::Completions => signet_openai::sse::DONE,
            Self::Messages => crate::messages::STOP,
            Self::Responses | Self::Embeddings | Self::Models | Self::CountTokens => b"",
        }
    }

    /// Whether errors are said in Anthropic's shape.
    pub const fn is_anthropic(self) -> bool {
        matches!(self, Self::Messages | Self::CountTokens)
    }
}
