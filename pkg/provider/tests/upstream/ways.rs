//! The way to a provider: names that move, proxies, certificates.

use crate::peer::{Peer, Wire, call, client, exchange, text, within};
use async_trait::async_trait;
use parking_lot::Mutex;
use signet_provider::{
    ClientAuth, ConnectCause, HttpProvider, Provider, ProviderConfig, ProviderConfigError, Proxy, Resolve,
    UpstreamError,
};
use signet_types::Secret;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::join;

/// One name, which moves or is lost.
#[derive(Debug, Default)]
struct Name(Mutex<Option<u16>>);

#[async_trait]
impl Resolve for Name {
    async fn resolve(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        assert_eq!(host, "provider.test");
        let port = self.0.lock().ok_or_else(|| io::Error::other("nobody answers"))?;
        Ok(vec![SocketAddr::from(([127, 0, 0, 1], port))])
    }
}

fn named(peer: &Peer, resolver: &Arc<Name>) -> ProviderConfig {
    *resolver.0.lock() = Some(peer.port());
    ProviderConfig {
        base_url: "http://provider.test/v1".parse().expect("a URL"),
        pool_idle_timeout: Duration::from_hours(24),
        resolver: Arc::clone(resolver) as Arc<dyn Resolve>,
        ..peer.config()
    }
}

async fn serve(wire: &mut Wire, body: &str) {
    assert!(!wire.request().await.is_empty());
    wire.answer(body).await;
}

async fn advance(seconds: u64) {
    tokio::time::advance(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_name_that_moves_is_followed_once_its_connections_are_too_old() {
    let (old, new, resolver) = (Peer::plain().await, Peer::plain().await, Arc::new(Name::default()));
    let client = client(named(&old, &resolver));
    let (answer, mut wire) = join!(exchange(&client, "{}"), async {
        let mut wire = old.accept().await;
        serve(&mut wire, "old").await;
        wire
    });
    assert_eq!(answer.expect("complete"), "old");
    *resolver.0.lock() = Some(new.port());
    advance(479).await;
    let (answer, ()) = join!(exchange(&client, "{}"), serve(&mut wire, "still old"));
    assert_eq!(answer.expect("complete"), "still old");
    advance(242).await;
    let (answer, mut fresh) = join!(exchange(&client, "{}"), async {
        let mut wire = new.accept().await;
        serve(&mut wire, "new").await;
        wire
    });
    assert_eq!(answer.expect("complete"), "new");
    let (answer, ()) = join!(exchange(&client, "{}"), serve(&mut fresh, "and again"));
    assert_eq!(answer.expect("complete"), "and again");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_lost_is_no_outage_while_an_old_connection_is_open() {
    let (peer, resolver) = (Peer::plain().await, Arc::new(Name::default()));
    let client = client(named(&peer, &resolver));
    let serve_first = async {
        let mut wire = peer.accept().await;
        serve(&mut wire, "first").await;
        wire
    };
    let (answer, mut wire) = join!(exchange(&client, "{}"), serve_first);
    answer.expect("complete");
    *resolver.0.lock() = None;
    for round in ["second", "third"] {
        advance(721).await;
        let (answer, ()) = join!(exchange(&client, "{}"), serve(&mut wire, round));
        assert_eq!(answer.expect("complete"), round);
    }
    drop(wire);
    let error = exchange(&client, "{}").await.expect_err("nothing is left");
    assert_eq!(error.class(), "connect_dns");
}

fn proxy(peer: &Peer, credentials: &str) -> Proxy {
    let url = Secret::new(format!("http://{credentials}127.0.0.1:{}", peer.port()));
    Proxy::new(&url).expect("a good URL")
}

#[tokio::test]
async fn a_provider_over_tls_is_reached_through_a_tunnel() {
    let (front, peer) = (Peer::plain().await, Peer::tls(&["http/1.1"]).await);
    // Nobody listens at the provider's own address as far as this client knows: only the proxy can reach it.
    let base_url = "https://localhost:1/v1".parse().expect("a URL");
    let client = client(ProviderConfig { base_url, proxy: Some(proxy(&front, "ann:p%40ss@")), ..peer.config() });
    let serve = async {
        let mut tcp = front.accept_tcp().await;
        let mut asked = vec![0; 512];
        let read = tcp.read(&mut asked).await.expect("a request");
        asked.truncate(read);
        tokio::io::AsyncWriteExt::write_all(&mut tcp, b"HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\n")
            .await
            .expect("open");
        let mut wire = peer.serve(tcp).await;
        let request = wire.request().await;
        wire.answer("through").await;
        (String::from_utf8(asked).expect("text"), request, wire)
    };
    let (answer, (asked, request, _wire)) = within(async { join!(exchange(&client, "{}"), serve) }).await;
    assert_eq!(answer.expect("complete"), "through");
    let expected =
        "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\nProxy-Authorization: Basic YW5uOnBAc3M=\r\n\r\n";
    assert_eq!(asked, expected);
    assert!(request.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(
        !request.to_ascii_lowercase().contains("proxy-"),
        "the proxy's credentials are not for the provider: {request}"
    );
}

#[tokio::test]
async fn a_proxy_that_opens_no_tunnel_is_told_apart_and_costs_nothing() {
    let endless = format!("HTTP/1.1 200 OK\r\nx: {}", "y".repeat(20_000));
    let rows = [
        "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        "HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\n\r\nearly words",
        "SSH-2.0-x\r\n\r\n",
        "HTTP/1.1 200 OK\r\n",
        endless.as_str(),
    ];
    for answer in rows {
        let (front, peer) = (Peer::plain().await, Peer::tls(&["http/1.1"]).await);
        let client = client(ProviderConfig { proxy: Some(proxy(&front, "")), ..peer.config() });
        let serve = async {
            let mut wire = front.accept().await;
            wire.request().await;
            let _ = tokio::io::AsyncWriteExt::write_all(&mut wire.stream, answer.as_bytes()).await;
        };
        let (sent, ()) = within(async { join!(client.send(call("{}")), serve) }).await;
        let error = sent.expect_err("no tunnel");
        assert!(matches!(error, UpstreamError::Connect { cause: ConnectCause::Proxy, .. }), "{answer:?} {error:?}");
        assert!(error.is_unbilled() && error.class() == "connect_proxy");
        assert!(peer.is_left_alone().await);
    }
}

#[tokio::test]
async fn a_provider_without_tls_is_asked_by_its_whole_url_and_the_connection_stays() {
    let front = Peer::plain().await;
    let base_url = "http://provider.test:81/v1".parse().expect("a URL");
    let client = client(ProviderConfig { base_url, proxy: Some(proxy(&front, "ann:pw@")), ..front.config() });
    let serve = async {
        let mut wire = front.accept().await;
        let request = wire.request().await;
        wire.answer("one").await;
        serve(&mut wire, "two").await;
        (request, wire)
    };
    let ask = async { [exchange(&client, "{}").await, exchange(&client, "{}").await] };
    let (answers, (request, _wire)) = within(async { join!(ask, serve) }).await;
    assert_eq!(answers.map(|answer| answer.expect("complete")), ["one", "two"]);
    assert!(request.starts_with("POST http://provider.test:81/v1/chat/completions HTTP/1.1\r\n"), "{request}");
    assert!(request.contains("host: provider.test:81\r\n"), "{request}");
    assert!(request.contains("proxy-authorization: Basic YW5uOnB3\r\n"), "{request}");
}

#[test]
fn a_proxys_url_that_cannot_work_is_refused_and_its_password_is_never_shown() {
    for url in ["https://p", "socks5://p", "http://", "p:1"] {
        let made = Proxy::new(&Secret::new(url.to_owned()));
        assert!(matches!(made, Err(ProviderConfigError::Proxy)), "{url}");
    }
    let made = Proxy::new(&Secret::new("http://u:hunter2@p".to_owned())).expect("good");
    assert_eq!(format!("{made:?}"), "Proxy(p:80)");
}

#[tokio::test]
async fn a_provider_that_asks_for_a_certificate_sees_ours_and_nobody_elses() {
    let made = || rcgen::generate_simple_self_signed(vec!["client".to_owned()]).expect("a certificate");
    let auth = |made: &rcgen::CertifiedKey<rcgen::KeyPair>| ClientAuth {
        cert_pem: made.cert.pem().into_bytes(),
        key_pem: Secret::new(made.signing_key.serialize_pem().into_bytes()),
    };
    let (ours, others) = (made(), made());
    let peer = Peer::tls_for(&["http/1.1"], Some(ours.cert.der())).await;
    let good = client(ProviderConfig { client_auth: Some(auth(&ours)), ..peer.config() });
    let serve_one = async {
        let mut wire = peer.accept().await;
        serve(&mut wire, "known").await;
        wire
    };
    let (answer, _wire) = within(async { join!(exchange(&good, "{}"), serve_one) }).await;
    assert_eq!(answer.expect("complete"), "known");
    for client_auth in [None, Some(auth(&others))] {
        let peer = Peer::tls_for(&["http/1.1"], Some(ours.cert.der())).await;
        let stranger = client(ProviderConfig { client_auth, ..peer.config() });
        let serve = tokio::spawn(async move { peer.accept().await });
        stranger.send(call("{}")).await.expect_err("not known there");
        assert!(serve.await.is_err(), "the handshake fails");
    }
    let mixed = ClientAuth { key_pem: auth(&others).key_pem, ..auth(&ours) };
    for client_auth in [mixed, ClientAuth { cert_pem: b"no PEM".to_vec(), ..auth(&ours) }] {
        let config = ProviderConfig { client_auth: Some(client_auth), ..peer.config() };
        assert!(matches!(HttpProvider::new(config), Err(ProviderConfigError::ClientAuth)));
    }
}

#[tokio::test]
async fn a_file_of_roots_without_any_is_a_fault_and_not_a_default() {
    for pem in ["", "no PEM"] {
        let config = ProviderConfig { extra_ca_pem: Some(pem.into()), ..Peer::tls(&["h2"]).await.config() };
        assert!(matches!(HttpProvider::new(config), Err(ProviderConfigError::ExtraCa)), "{pem:?}");
    }
}

#[tokio::test]
async fn a_proxy_that_listens_nowhere_is_a_refused_connection() {
    let (front, peer) = (Peer::plain().await, Peer::plain().await);
    let config = ProviderConfig { proxy: Some(proxy(&front, "")), ..peer.config() };
    drop(front);
    let error = client(config).send(call("{}")).await.map(text).map(drop).expect_err("nobody is there");
    assert_eq!(error.class(), "connect_refused");
    assert!(peer.is_left_alone().await, "a proxy is never gone around");
}
