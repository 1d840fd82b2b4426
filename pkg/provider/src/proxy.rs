//! HTTP proxies (RFC 9110 §9.3.6, RFC 9112 §3.2.2): a tunnel to providers over TLS, the whole URL for those without.

use crate::error::{ConnectCause, UpstreamError};
use crate::provider::ProviderConfigError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use signet_types::Secret;
use std::fmt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use url::{Host, Url};

/// The longest head of an answer to CONNECT that is read.
const HEAD_MAX: usize = 16 * 1024;

/// An HTTP proxy.
#[derive(Clone)]
pub struct Proxy {
    pub(crate) host: Host<String>,
    pub(crate) port: u16,
    authorization: Option<HeaderValue>,
}

impl Proxy {
    /// Reads `http://user:password@host:port`; credentials and port may be left out, the port is then 80.
    ///
    /// # Errors
    /// [`ProviderConfigError::Proxy`]: another scheme (a proxy is spoken to in plain), or no host.
    pub fn new(url: &Secret<String>) -> Result<Self, ProviderConfigError> {
        let url = Url::parse(url.expose()).map_err(|_| ProviderConfigError::Proxy)?;
        let host = url.host().filter(|_| url.scheme() == "http").ok_or(ProviderConfigError::Proxy)?.to_owned();
        let plain = |text| percent_decode_str(text).collect::<Vec<u8>>();
        let named = !url.username().is_empty() || url.password().is_some();
        let authorization = named.then(|| {
            let pair = [plain(url.username()), b":".to_vec(), plain(url.password().unwrap_or_default())].concat();
            let mut value = HeaderValue::from_str(&format!("Basic {}", STANDARD.encode(pair))).expect("base64 is text");
            value.set_sensitive(true);
            value
        });
        Ok(Self { host, port: url.port().unwrap_or(80), authorization })
    }

    /// What every request through the proxy, or the one that opens a tunnel, has to show.
    pub(crate) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// Asks for a tunnel to `authority` on a fresh connection.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, authority: &str) -> Result<(), UpstreamError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let refused = |why: String| UpstreamError::connect(ConnectCause::Proxy, why);
        let mut ask = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n").into_bytes();
        if let Some(value) = &self.authorization {
            ask = [&ask[..], b"Proxy-Authorization: ", value.as_bytes(), b"\r\n"].concat();
        }
        ask.extend_from_slice(b"\r\n");
        stream.write_all(&ask).await.map_err(|error| refused(error.to_string()))?;
        let mut head = Vec::new();
        while !head.windows(4).any(|end| end == b"\r\n\r\n") {
            let read = stream.read_buf(&mut head).await.map_err(|error| refused(error.to_string()))?;
            if read == 0 || head.len() > HEAD_MAX {
                return Err(refused("the answer to CONNECT has no end".to_owned()));
            }
        }
        // Whoever is behind the tunnel waits for our first word, so nothing can stand behind the head.
        let opened = head.starts_with(b"HTTP/1.") && head.get(8..10) == Some(b" 2") && head.ends_with(b"\r\n\r\n");
        let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
        if opened { Ok(()) } else { Err(refused(String::from_utf8_lossy(line).into_owned())) }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}
