//! Identifiers. Each is a type of its own, so that a wrong call does not compile.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use uuid::{NoContext, Timestamp, Uuid};

/// A name that is empty, too long or holds a character that cannot stand in a header or a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameError {
    /// What was named, for the message: "model name", "provider name", ...
    pub what: &'static str,
}

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} has 1 to {MAX_NAME} printable characters", self.what)
    }
}

impl std::error::Error for NameError {}

const MAX_NAME: usize = 256;

fn checked(text: &str, what: &'static str) -> Result<Arc<str>, NameError> {
    let good = !text.is_empty() && text.len() <= MAX_NAME && !text.chars().any(char::is_control);
    good.then(|| Arc::from(text)).ok_or(NameError { what })
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $type(Arc<str>);

        impl $type {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                checked(text, $what).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name!(
    /// A model as callers or providers name it.
    ModelName,
    "model name"
);
name!(
    /// A configured provider.
    ProviderName,
    "provider name"
);

/// The id of one HTTP exchange as operators see it: the caller's `X-Request-Id` where it is usable, else our own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RequestId(Arc<str>);

impl RequestId {
    /// The caller's own id if it is 1 to 128 visible ASCII characters, else none.
    pub fn from_caller(text: &str) -> Option<Self> {
        let good = !text.is_empty() && text.len() <= 128 && text.bytes().all(|b| b.is_ascii_graphic());
        good.then(|| Self(Arc::from(text)))
    }

    /// An id of our own, equal to the answer's Lineage-Id.
    pub fn from_lineage(id: LineageId) -> Self {
        Self(Arc::from(id.to_string().as_str()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $type(Uuid);

        impl $type {
            /// A new UUIDv7 (RFC 9562 §5.7) whose time part is `now_ms`, milliseconds since the Unix epoch.
            pub fn generate(now_ms: u64) -> Self {
                let nanos = u32::try_from(now_ms % 1000).expect("below 1000") * 1_000_000;
                Self(Uuid::new_v7(Timestamp::from_unix(NoContext, now_ms / 1000, nanos)))
            }

            /// The id with these 16 bytes.
            pub const fn from_bytes(bytes: [u8; 16]) -> Self {
                Self(Uuid::from_bytes(bytes))
            }

            /// The 16 bytes, big endian.
            pub const fn as_bytes(&self) -> &[u8; 16] {
                self.0.as_bytes()
            }

            /// The id as the `uuid` crate's type.
            pub const fn as_uuid(&self) -> Uuid {
                self.0
            }

            /// The id's time part: milliseconds since the Unix epoch; meaningful for version 7 only.
            pub fn unix_ms(&self) -> u64 {
                let b = self.0.as_bytes();
                u64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
            }
        }

        impl FromStr for $type {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, NameError> {
                Uuid::try_parse(text).map(Self).map_err(|_| NameError { what: "UUID" })
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }
    };
}

uuid_id!(
    /// The id of one answer's lineage record, sent as `Lineage-Id`.
    LineageId
);
uuid_id!(
    /// The id of one writer log.
    LogId
);
uuid_id!(
    /// The id of one cached answer.
    EntryId
);

/// Who a caller is to the cache and the log: a keyed hash, so that no credential is ever stored or logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantId([u8; 16]);

impl TenantId {
    /// The tenant with this keyed hash.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// Text that is not a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TenantIdError;

impl fmt::Display for TenantIdError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a tenant is 32 hexadecimal digits")
    }
}

impl std::error::Error for TenantIdError {}

impl FromStr for TenantId {
    type Err = TenantIdError;

    fn from_str(text: &str) -> Result<Self, TenantIdError> {
        let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| digits).ok_or(TenantIdError)?;
        Ok(Self(number.to_be_bytes()))
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_a_header_cannot_carry() {
        assert!("".parse::<ModelName>().is_err());
        assert!("a\nb".parse::<ModelName>().is_err());
        assert!("x".repeat(257).parse::<ModelName>().is_err());
        assert_eq!("gpt-4o-mini".parse::<ModelName>().expect("a good name").as_str(), "gpt-4o-mini");
    }

    #[test]
    fn a_generated_id_is_version_7_and_carries_its_time() {
        let id = LineageId::generate(1_764_460_800_123);
        assert_eq!(id.as_uuid().get_version_num(), 7);
        assert_eq!(id.unix_ms(), 1_764_460_800_123);
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn a_caller_cannot_smuggle_a_header_in_its_request_id() {
        assert!(RequestId::from_caller("abc\r\nx: y").is_none());
        assert!(RequestId::from_caller("").is_none());
        assert!(RequestId::from_caller("req-1").is_some());
    }
}
