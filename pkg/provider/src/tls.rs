//! TLS towards a provider: whom it trusts, and who it says it is.

use crate::provider::ProviderConfigError;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls_platform_verifier::Verifier;
use signet_types::Secret;
use std::sync::Arc;
use tokio_rustls::TlsConnector;

/// The certificate by which a provider knows its customer (mutual TLS).
#[derive(Debug, Clone)]
pub struct ClientAuth {
    /// The chain, the own certificate first, PEM.
    pub cert_pem: Vec<u8>,
    /// Its key, PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key_pem: Secret<Vec<u8>>,
}

/// TLS 1.2 and 1.3 with aws-lc-rs, the system's trust store and, if given, further roots.
///
/// The crypto provider is named here: two in one binary would make rustls' process default ambiguous.
pub(crate) fn connector(
    extra_ca_pem: Option<&[u8]>,
    client: Option<&ClientAuth>,
) -> Result<TlsConnector, ProviderConfigError> {
    let crypto = Arc::new(aws_lc_rs::default_provider());
    let extra = match extra_ca_pem {
        Some(pem) => certificates(pem).ok_or(ProviderConfigError::ExtraCa)?,
        None => Vec::new(),
    };
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&crypto))?;
    let config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()?
        .dangerous() // rustls' name for any verifier that is not its own; this one is the platform's
        .with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = match client {
        None => config.with_no_client_auth(),
        Some(client) => {
            let chain = certificates(&client.cert_pem).ok_or(ProviderConfigError::ClientAuth)?;
            let key = PrivateKeyDer::from_pem_slice(client.key_pem.expose());
            let key = key.map_err(|_| ProviderConfigError::ClientAuth)?;
            config.with_client_auth_cert(chain, key).map_err(|_| ProviderConfigError::ClientAuth)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}

/// All certificates of a file; none if there is none, or one cannot be read.
fn certificates(pem: &[u8]) -> Option<Vec<CertificateDer<'static>>> {
    let found = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().ok()?;
    (!found.is_empty()).then_some(found)
}
