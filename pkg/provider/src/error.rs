//! What can go wrong with an upstream, by what it means for the caller and the bill.

use signet_dialect::Api;
use std::error::Error as StdError;
use std::io;
use std::time::Duration;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// Why no connection could be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectCause {
    /// The provider's name has no address.
    Dns,
    /// Nothing listens there.
    Refused,
    /// No connection within the connect timeout.
    Timeout,
    /// The TLS handshake failed: certificate, name or protocol.
    Tls,
    /// The proxy before the provider opened no tunnel.
    Proxy,
    /// Unreachable, reset or another fault of the network.
    Network,
}

/// How far an exchange was when the provider closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClosedWhen {
    /// Before the request was processed, provably: no byte of it was written, or none had reached the provider when it
    /// closed (TCP acknowledged none), or the provider said so (HTTP/2 GOAWAY below the stream, or REFUSED_STREAM; RFC 9113
    /// §6.8, §8.7).
    Unprocessed,
    /// After the request was (partly) written, before a response head. The provider may have done the work.
    BeforeHead,
    /// Inside the body: it is cut.
    MidBody,
}

/// A failed exchange with a provider. Always the provider's or the network's fault, never the caller's.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// No connection.
    #[error("no connection to the provider ({cause:?})")]
    Connect {
        /// What kind of failure.
        cause: ConnectCause,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },
    /// No response head within the first-byte timeout.
    #[error("no answer from the provider within {waited:?}")]
    FirstByteTimeout {
        /// The limit.
        waited: Duration,
    },
    /// Nothing came between two chunks for too long.
    #[error("the provider sent nothing for {waited:?} inside its answer")]
    IdleTimeout {
        /// The limit.
        waited: Duration,
    },
    /// The total timeout or the caller's own deadline passed.
    #[error("the exchange was not over after {waited:?}")]
    DeadlineExceeded {
        /// Time from the start of the exchange to its deadline.
        waited: Duration,
    },
    /// The provider closed.
    #[error("the provider closed the connection ({when:?})")]
    Closed {
        /// How far the exchange was.
        when: ClosedWhen,
        /// The underlying error, if there is one.
        #[source]
        source: Option<BoxError>,
    },
    /// What the provider sent is not HTTP.
    #[error("the provider broke the protocol")]
    Protocol(#[source] BoxError),
    /// The answer is larger than the caller of [`crate::UpstreamBody::collect`] can take.
    #[error("the answer is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The provider encoded its answer, although it was asked not to, in a way that is not read here.
    #[error("the provider answered in the encoding {encoding:?}, which was not accepted")]
    UnsupportedEncoding {
        /// The value of its Content-Encoding.
        encoding: String,
    },
    /// The answer is not in the encoding that it names.
    #[error("the provider's answer cannot be decoded")]
    Undecodable(#[source] BoxError),
    /// The provider does not have the API that was asked for.
    #[error("the provider has no {} API", api.name())]
    NotSpoken {
        /// The API.
        api: Api,
    },
    /// The caller's own credentials may go to the first provider only, and this model is not served there.
    #[error("the caller's credentials are not for a provider of this model")]
    NoCredentials,
}

impl UpstreamError {
    /// Whether nothing can have been processed, so that another attempt cannot bill twice.
    pub fn is_unbilled(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::NotSpoken { .. } | Self::NoCredentials => true,
            Self::Closed { when, .. } => *when == ClosedWhen::Unprocessed,
            _ => false,
        }
    }

    /// A short stable name, for metric labels and logs.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Connect { cause: ConnectCause::Dns, .. } => "connect_dns",
            Self::Connect { cause: ConnectCause::Refused, .. } => "connect_refused",
            Self::Connect { cause: ConnectCause::Timeout, .. } => "connect_timeout",
            Self::Connect { cause: ConnectCause::Tls, .. } => "connect_tls",
            Self::Connect { cause: ConnectCause::Proxy, .. } => "connect_proxy",
            Self::Connect { cause: ConnectCause::Network, .. } => "connect_network",
            Self::FirstByteTimeout { .. } => "first_byte_timeout",
            Self::IdleTimeout { .. } => "idle_timeout",
            Self::DeadlineExceeded { .. } => "deadline_exceeded",
            Self::Closed { when: ClosedWhen::Unprocessed, .. } => "closed_unprocessed",
            Self::Closed { when: ClosedWhen::BeforeHead, .. } => "closed_before_head",
            Self::Closed { when: ClosedWhen::MidBody, .. } => "closed_mid_body",
            Self::Protocol(_) => "protocol",
            Self::TooLarge { .. } => "too_large",
            Self::UnsupportedEncoding { .. } => "unsupported_encoding",
            Self::Undecodable(_) => "undecodable",
            Self::NotSpoken { .. } => "not_spoken",
            Self::NoCredentials => "no_credentials",
        }
    }

    pub(crate) fn connect(cause: ConnectCause, source: impl Into<BoxError>) -> Self {
        Self::Connect { cause, source: Some(source.into()) }
    }

    pub(crate) fn connect_io(error: io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => ConnectCause::Refused,
            io::ErrorKind::TimedOut => ConnectCause::Timeout,
            _ => ConnectCause::Network,
        };
        Self::connect(cause, error)
    }

    pub(crate) fn closed(when: ClosedWhen, source: impl Into<BoxError>) -> Self {
        Self::Closed { when, source: Some(source.into()) }
    }

    /// Sorts what a socket says: not TLS at all, or a connection that ended.
    pub(crate) fn from_io(error: io::Error, when: ClosedWhen) -> Self {
        let malformed = matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        if malformed { Self::Protocol(error.into()) } else { Self::closed(when, error) }
    }

    /// Sorts an error of the HTTP/2 layer; `when` is how far the exchange was.
    ///
    /// Only a GOAWAY or REFUSED_STREAM *of the peer* proves that a stream was not processed: the h2 crate gives the
    /// GOAWAY error to streams above the peer's last stream id alone, all others end with an I/O error.
    pub(crate) fn from_h2(error: h2::Error, when: ClosedWhen) -> Self {
        let refused = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
        if when == ClosedWhen::BeforeHead && error.is_remote() && refused {
            return Self::closed(ClosedWhen::Unprocessed, error);
        }
        if error.is_library() && error.reason() != Some(h2::Reason::NO_ERROR) {
            return Self::Protocol(error.into());
        }
        Self::closed(when, error)
    }
}
