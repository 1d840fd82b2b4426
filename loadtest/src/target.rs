//! Where requests go and what they carry besides their body.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::wire::line;

/// One server under load.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Arc<ClientConfig>>,
    /// Path of the chat endpoint.
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl Target {
    /// `url` is a server or its `/v1` base; https needs the certificate to trust.
    pub(crate) fn new(url: &str, ca: Option<&Path>) -> anyhow::Result<Self> {
        let uri: http::Uri = url.parse().with_context(|| format!("`{url}` is not a URL"))?;
        let secure = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            _ => bail!("`{url}` has to begin with http:// or https://"),
        };
        let host = uri.host().with_context(|| format!("`{url}` names no host"))?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let base = uri.path().trim_end_matches('/').trim_end_matches("/v1");
        let tls = if secure { Some(trusting(ca.context("an https URL needs --ca FILE")?)?) } else { None };
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        Ok(Self { host, port, tls, path: format!("{base}/v1/chat/completions"), headers })
    }

    pub(crate) fn with_header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with_key(self, key: Option<&str>) -> Self {
        match key {
            Some(key) => self.with_header("authorization", &format!("Bearer {key}")),
            None => self,
        }
    }

    pub(crate) fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn origin(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.authority())
    }

    /// The head of an HTTP/1.1 request with a body of this length.
    pub(crate) fn head(&self, content_length: usize) -> Vec<u8> {
        let mut out = format!("POST {} HTTP/1.1\r\n", self.path).into_bytes();
        line(&mut out, "host", self.authority().as_bytes());
        for (name, value) in &self.headers {
            line(&mut out, name, value.as_bytes());
        }
        line(&mut out, "content-length", content_length.to_string().as_bytes());
        out.extend_from_slice(b"\r\n");
        out
    }
}

fn trusting(ca: &Path) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    let pem = std::fs::read(ca).with_context(|| format!("cannot read {}", ca.display()))?;
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate.with_context(|| format!("{} is not PEM", ca.display()))?)?;
    }
    ensure!(!roots.is_empty(), "{} holds no certificate", ca.display());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_and_its_v1_base_are_the_same_target() {
        for url in
            ["http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://127.0.0.1:8080/v1", "http://127.0.0.1:8080/v1/"]
        {
            let target = Target::new(url, None).expect("a URL");
            assert_eq!((target.path.as_str(), target.port), ("/v1/chat/completions", 8080));
        }
        assert_eq!(Target::new("http://[::1]:9/x/v1", None).expect("a URL").path, "/x/v1/chat/completions");
        assert_eq!(Target::new("http://[::1]:9", None).expect("a URL").authority(), "[::1]:9");
    }

    #[test]
    fn what_cannot_be_reached_is_refused_at_once() {
        assert!(Target::new("127.0.0.1:8080", None).is_err());
        assert!(Target::new("https://127.0.0.1:8080", None).is_err());
    }
}
