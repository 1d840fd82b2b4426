//! Makes connections: name lookup, TCP, perhaps a tunnel through a proxy, TLS with ALPN, all within one time limit.

use crate::error::{ConnectCause, UpstreamError};
use crate::provider::{ProviderConfig, ProviderConfigError};
use crate::proxy::Proxy;
use crate::socket::Tcp;
use crate::tls::connector;
use async_trait::async_trait;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::Host;

/// Finds the addresses of names.
#[async_trait]
pub trait Resolve: fmt::Debug + Send + Sync {
    /// The addresses of `host`, in the order in which they are tried.
    ///
    /// # Errors
    /// It has none, or nobody answers.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// Asks the operating system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

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
    proxy: Option<Proxy>,
    resolver: Arc<dyn Resolve>,
}

impl Dialer {
    pub(crate) fn new(config: &ProviderConfig) -> Result<Self, ProviderConfigError> {
        let base = &config.base_url;
        let host = base.host().ok_or(ProviderConfigError::BaseUrl)?.to_owned();
        let port = base.port_or_known_default().ok_or(ProviderConfigError::BaseUrl)?;
        let tls = match base.scheme() {
            "http" => None,
            "https" => {
                let connector = connector(config.extra_ca_pem.as_deref(), config.client_auth.as_ref())?;
                Some((connector, server_name(&host)?))
            }
            _ => return Err(ProviderConfigError::BaseUrl),
        };
        Ok(Self { host, port, tls, proxy: config.proxy.clone(), resolver: Arc::clone(&config.resolver) })
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The proxy that is sent requests as they are, since there is no tunnel without TLS.
    pub(crate) fn forwarder(&self) -> Option<&Proxy> {
        self.proxy.as_ref().filter(|_| self.tls.is_none())
    }

    /// Connects, at the latest by `by`.
    pub(crate) async fn dial(&self, by: Instant) -> Result<Dialed, UpstreamError> {
        let connect = async {
            let mut tcp = self.tcp(by).await?;
            let Some((connector, name)) = &self.tls else { return Ok(Dialed::Plain(tcp)) };
            if let Some(proxy) = &self.proxy {
                proxy.tunnel(&mut tcp, &format!("{}:{}", self.host, self.port)).await?;
            }
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
        let (host, port) = self.proxy.as_ref().map_or((&self.host, self.port), |proxy| (&proxy.host, proxy.port));
        match host {
            Host::Ipv4(ip) => Ok(vec![SocketAddr::new(IpAddr::V4(*ip), port)]),
            Host::Ipv6(ip) => Ok(vec![SocketAddr::new(IpAddr::V6(*ip), port)]),
            Host::Domain(name) => {
                let found = self.resolver.resolve(name, port).await;
                found.map_err(|error| UpstreamError::connect(ConnectCause::Dns, error))
            }
        }
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
