//! Connections that cannot be made.

use crate::peer::{Peer, call, client};
use signet_provider::{ConnectCause, HttpProvider, Provider, ProviderConfig, ProviderConfigError, UpstreamError};
use signet_types::Secret;
use std::time::Duration;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::Instant;

fn config(url: &str) -> ProviderConfig {
    ProviderConfig::new("p".parse().expect("a name"), url.parse().expect("a URL"))
}

async fn cause(config: ProviderConfig) -> ConnectCause {
    let error = client(config).send(call("{}")).await.expect_err("no connection");
    assert!(error.is_unbilled());
    match error {
        UpstreamError::Connect { cause, .. } => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_port_where_nobody_listens_is_refused() {
    let port = Peer::plain().await.port();
    assert_eq!(cause(config(&format!("http://127.0.0.1:{port}"))).await, ConnectCause::Refused);
}

#[tokio::test]
async fn a_name_without_an_address_is_told_apart() {
    let label = "a".repeat(64); // one more than DNS allows: fails without asking a server
    assert_eq!(cause(config(&format!("http://{label}.invalid"))).await, ConnectCause::Dns);
}

#[tokio::test(start_paused = true)]
async fn a_port_that_swallows_everything_ends_at_the_connect_timeout() {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind("127.0.0.1:0".parse().expect("an address")).expect("a free port");
    let listener = socket.listen(1).expect("a listener");
    let address = listener.local_addr().expect("bound");
    // Linux drops further SYNs once the backlog is full, like a firewall.
    let mut backlog = Vec::new();
    while let Ok(stream) = tokio::time::timeout(Duration::from_millis(50), TcpStream::connect(address)).await {
        backlog.push(stream);
        assert!(backlog.len() < 100, "the backlog has no end");
    }
    let started = Instant::now();
    assert_eq!(cause(config(&format!("http://{address}"))).await, ConnectCause::Timeout);
    assert_eq!(started.elapsed().as_secs(), 5);
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let peer = Peer::tls(&["h2"]).await;
    let other = Peer::tls(&["h2"]).await;
    let untrusting = ProviderConfig { extra_ca_pem: other.config().extra_ca_pem, ..peer.config() };
    let serve = tokio::spawn(async move { peer.accept().await });
    assert_eq!(cause(untrusting).await, ConnectCause::Tls);
    assert!(serve.await.is_err(), "the handshake must fail on both sides");
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let fault = |config| HttpProvider::new(config).expect_err("must be refused");
    for url in ["ftp://host/v1", "http://user:pw@host/v1", "unix:/socket"] {
        assert!(matches!(fault(config(url)), ProviderConfigError::BaseUrl), "{url}");
    }
    let key = Some(Secret::new("a\nb".to_owned()));
    assert!(matches!(fault(ProviderConfig { api_key: key, ..config("http://h") }), ProviderConfigError::ApiKey));
    let pem = Some(b"-----BEGIN CERTIFICATE-----\n!!\n-----END CERTIFICATE-----\n".to_vec());
    assert!(matches!(fault(ProviderConfig { extra_ca_pem: pem, ..config("https://h") }), ProviderConfigError::ExtraCa));
}
