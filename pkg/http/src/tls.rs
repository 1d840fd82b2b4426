//! TLS towards callers, with a certificate that can be replaced while connections are open.
//!
//! HTTP/1.1 is the only protocol that is offered (ALPN): callers are SDKs with a pool of connections, and an answer costs
//! less there. Resumption stays within one certificate's time in use.

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use std::sync::Arc;
use tokio_rustls::TlsAcceptor;

/// What callers are shown.
#[derive(Debug)]
pub struct Tls(ArcSwap<ServerConfig>);

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFault {
    /// Not PEM, or nothing in it.
    #[error("there is no certificate in PEM: {0}")]
    Certificate(#[source] pem::Error),
    /// Not PEM, or no key in it.
    #[error("there is no private key in PEM: {0}")]
    Key(#[source] pem::Error),
    /// They do not go together, or their kind is not supported.
    #[error("certificate and key cannot be used: {0}")]
    Unusable(#[source] rustls::Error),
}

impl Tls {
    /// The leaf certificate first, then those between it and the root; and the leaf's key (PKCS #8, PKCS #1 or SEC 1).
    ///
    /// # Errors
    /// They cannot be used.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Self, TlsFault> {
        Ok(Self(ArcSwap::from_pointee(config(chain, key)?)))
    }

    /// Shows these to callers who connect from now on.
    ///
    /// # Errors
    /// They cannot be used; those before stay in use.
    pub fn replace(&self, chain: &[u8], key: &[u8]) -> Result<(), TlsFault> {
        self.0.store(Arc::new(config(chain, key)?));
        Ok(())
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.0.load_full().into()
    }
}

fn config(chain: &[u8], key: &[u8]) -> Result<ServerConfig, TlsFault> {
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(chain).collect::<Result<_, _>>().map_err(TlsFault::Certificate)?;
    if chain.is_empty() {
        return Err(TlsFault::Certificate(pem::Error::NoItemsFound));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(TlsFault::Key)?;
    let built = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key));
    let mut config = built.map_err(TlsFault::Unusable)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}
