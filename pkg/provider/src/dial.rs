//! Makes connections: name lookup, TCP, TLS with ALPN, all within one time limit.

use crate::error::{ConnectCause, UpstreamError};
use crate::provider::ProviderConfigError;
use crate::socket::Tcp;
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls_platform_verifier::Verifier;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

/// A fresh connection.
pub(crate) enum Dialed {
    Plain(Tcp),
    Tls { stream: Box<TlsStream<Tcp>>, h2: bool },
}

/// Where a provider lives and how to get there.
pub(crate) struct Dialer {
    host: Host<String>,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

impl Dialer {
    pub(crate) fn new(base: &Url, extra_ca_pem: Option<&[u8]>) -> Result<Self, ProviderConfigError> {
        let host = base.host().ok_or(ProviderConfigError::BaseUrl)?.to_owned();
        let port = base.port_or_known_default().ok_or(ProviderConfigError::BaseUrl)?;
        let tls = match base.scheme() {
            "http" => None,
            "https" => Some((connector(extra_ca_pem)?, server_name(&host)?)),
            _ => return Err(ProviderConfigError::BaseUrl),
        };
        Ok(Self { host, port, tls })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Connects, at the latest by `by`.
    pub(crate) async fn dial(&self, by: Instant) -> Result<Dialed, UpstreamError> {
        let connect = async {
            let tcp = self.tcp(by).await?;
            let Some((connector, name)) = &self.tls else { return Ok(Dialed::Plain(tcp)) };
            let stream = connector.connect(name.clone(), tcp).await;
            let stream = stream.map_err(|error| UpstreamError::connect(ConnectCause::Tls, error))?;
            let h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            Ok(Dialed::Tls { stream: Box::new(stream), h2 })
        };
        timeout_at(by, connect).await.unwrap_or_else(|_| Err(timed_out()))
    }

    /// Tries the addresses in the resolver's order, each for an equal share of what time is left, so that one dead
    /// address (often the IPv6 one) does not use up the time of the others.
    async fn tcp(&self, by: Instant) -> Result<Tcp, UpstreamError> {
        let addresses = self.addresses().await?;
        let mut last = None;
        for (index, address) in addresses.iter().enumerate() {
            let left = u32::try_from(addresses.len() - index).unwrap_or(u32::MAX);
            let share = by.saturating_duration_since(Instant::now()) / left;
            last = Some(match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => return Tcp::new(stream).map_err(UpstreamError::connect_io),
                Ok(Err(error)) => UpstreamError::connect_io(error),
                Err(_) => timed_out(),
            });
        }
        Err(last.unwrap_or(UpstreamError::Connect { cause: ConnectCause::Dns, source: None }))
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, UpstreamError> {
        let name = match &self.host {
            Host::Ipv4(ip) => return Ok(vec![SocketAddr::new(IpAddr::V4(*ip), self.port)]),
            Host::Ipv6(ip) => return Ok(vec![SocketAddr::new(IpAddr::V6(*ip), self.port)]),
            Host::Domain(name) => name.as_str(),
        };
        let found = tokio::net::lookup_host((name, self.port)).await;
        Ok(found.map_err(|error| UpstreamError::connect(ConnectCause::Dns, error))?.collect())
    }
}

pub(crate) fn timed_out() -> UpstreamError {
    UpstreamError::Connect { cause: ConnectCause::Timeout, source: None }
}

fn server_name(host: &Host<String>) -> Result<ServerName<'static>, ProviderConfigError> {
    match host {
        Host::Domain(name) => ServerName::try_from(name.clone()).map_err(|_| ProviderConfigError::BaseUrl),
        Host::Ipv4(ip) => Ok(ServerName::from(IpAddr::V4(*ip))),
        Host::Ipv6(ip) => Ok(ServerName::from(IpAddr::V6(*ip))),
    }
}

/// TLS 1.2 and 1.3 with aws-lc-rs, the system's trust store and, if given, further roots.
///
/// The crypto provider is named here: two in one binary would make rustls' process default ambiguous.
fn connector(extra_ca_pem: Option<&[u8]>) -> Result<TlsConnector, ProviderConfigError> {
    let crypto = Arc::new(aws_lc_rs::default_provider());
    let extra = CertificateDer::pem_slice_iter(extra_ca_pem.unwrap_or_default()).collect::<Result<Vec<_>, _>>();
    let extra = extra.map_err(|_| ProviderConfigError::ExtraCa)?;
    let verifier = Verifier::new_with_extra_roots(extra, Arc::clone(&crypto))?;
    let mut config = ClientConfig::builder_with_provider(crypto)
        .with_safe_default_protocol_versions()?
        .dangerous() // rustls' name for any verifier that is not its own; this one is the platform's
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
