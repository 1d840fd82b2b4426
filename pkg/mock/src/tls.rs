//! A self-signed certificate for the loopback names.

use std::sync::Arc;

use rcgen::CertifiedKey;
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;

use crate::server::StartError;

/// The server side of TLS and the certificate, in PEM, that a client must trust.
pub(crate) fn acceptor(h2: bool) -> Result<(tokio_rustls::TlsAcceptor, String), StartError> {
    let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)?;
    config.alpn_protocols = if h2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
    Ok((Arc::new(config).into(), cert.pem()))
}
