//! The listener over TLS.

use crate::fixture::{Edge, PATIENCE};
use crate::slow::{connect, eventually, limited, until_the_end};
use rcgen::CertifiedKey;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use signet_http::{Patience, Tls, TlsFault};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate that is its own root, in PEM with its key.
struct Made {
    chain: String,
    key: String,
    root: CertificateDer<'static>,
}

impl Made {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let CertifiedKey { cert, signing_key } = made;
        Self { chain: cert.pem(), key: signing_key.serialize_pem(), root: cert.der().clone() }
    }

    fn tls(&self) -> Arc<Tls> {
        Arc::new(Tls::new(self.chain.as_bytes(), self.key.as_bytes()).expect("a good pair"))
    }

    /// A connection of a caller that trusts this one and would rather speak HTTP/2.
    async fn connect(&self, to: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        self.connect_with(to, &[b"h2", b"http/1.1"]).await
    }

    async fn connect_with(&self, to: SocketAddr, alpn: &[&[u8]]) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root.clone()).expect("a root");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let mut config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let name = "localhost".try_into().expect("a name");
        TlsConnector::from(Arc::new(config)).connect(name, connect(to).await).await
    }
}

/// The answer's first line and the rest.
async fn healthy(caller: &mut TlsStream<TcpStream>) {
    caller.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.expect("it reads");
    let mut answer = vec![0; 4096];
    let n = caller.read(&mut answer).await.expect("an answer");
    assert!(answer[..n].starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer[..n]));
}

#[tokio::test]
async fn callers_speak_http_1_over_tls_and_a_new_certificate_is_shown_to_those_who_come_then() {
    let (edge, old, new) = (Edge::new(), Made::new(), Made::new());
    let tls = old.tls();
    let address = edge.listen_on(&Handle::current(), PATIENCE, Some(tls.clone()));
    let mut before = old.connect(address).await.expect("a handshake");
    let (_, session) = before.get_ref();
    assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
    assert_eq!(session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    healthy(&mut before).await;
    assert!(new.connect(address).await.is_err(), "it is not shown yet");

    tls.replace(new.chain.as_bytes(), new.key.as_bytes()).expect("a good pair");
    healthy(&mut new.connect(address).await.expect("a handshake")).await;
    assert!(old.connect(address).await.is_err());
    healthy(&mut before).await;

    for (chain, key) in [(&old.chain, &new.key), (&String::new(), &new.key), (&new.chain, &"nothing".to_owned())] {
        assert!(tls.replace(chain.as_bytes(), key.as_bytes()).is_err());
        healthy(&mut new.connect(address).await.expect("the one before stays")).await;
    }
}

#[test]
fn a_fault_says_which_of_both_files_it_is_in() {
    let (one, other) = (Made::new(), Made::new());
    let fault = |chain: &str, key: &str| Tls::new(chain.as_bytes(), key.as_bytes()).expect_err("a fault");
    assert!(matches!(fault("", &one.key), TlsFault::Certificate(_)));
    assert!(matches!(fault(&one.key, &one.key), TlsFault::Certificate(_)));
    assert!(matches!(fault(&one.chain, &one.chain), TlsFault::Key(_)));
    assert!(matches!(fault(&one.chain, &other.key), TlsFault::Unusable(_)));
}

#[tokio::test]
async fn a_caller_that_does_not_shake_hands_is_left_and_plain_http_gets_no_answer() {
    let (edge, made) = (Edge::new(), Made::new());
    let patience = Patience { head: Duration::from_millis(200), ..PATIENCE };
    let address = edge.listen_on(&Handle::current(), patience, Some(made.tls()));
    let mut silent = connect(address).await;
    assert_eq!(until_the_end(&mut silent).await, "");
    assert_eq!(limited(&edge, "slow_handshake"), Some(1));
    let mut plain = connect(address).await;
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("it reads");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.ok();
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    let mut begun = made.connect(address).await.expect("a handshake");
    begun.write_all(b"GET /heal").await.expect("it reads");
    let ended = tokio::time::timeout(Duration::from_secs(30), begun.read(&mut [0; 64])).await.expect("it ends");
    assert!(!matches!(ended, Ok(1..)), "a slow head is cut over TLS too");
    assert_eq!(limited(&edge, "slow_head"), Some(1));
}

#[tokio::test]
async fn handshakes_that_stall_by_the_hundred_hold_up_nobody_and_all_end() {
    let (edge, made) = (Edge::new(), Made::new());
    let patience = Patience { head: Duration::from_secs(2), ..PATIENCE };
    let address = edge.listen_on(&Handle::current(), patience, Some(made.tls()));
    let mut stalled = Vec::new();
    for number in 0..300 {
        let mut caller = connect(address).await;
        // Nothing, or a record that does not end.
        let begun: &[u8] = if number % 2 == 0 { b"" } else { b"\x16\x03\x01\x02\0\x01" };
        caller.write_all(begun).await.expect("it reads");
        stalled.push(caller);
    }
    eventually("all are in", || edge.app.metrics.connections().get() == 300).await;
    for _ in 0..3 {
        healthy(&mut made.connect(address).await.expect("a handshake beside them")).await;
    }
    eventually("none is in", || edge.app.metrics.connections().get() == 0).await;
    assert_eq!(limited(&edge, "slow_handshake"), Some(300));
    drop(stalled);
}

#[tokio::test]
async fn a_caller_that_speaks_nothing_but_http_2_gets_no_session() {
    let (edge, made) = (Edge::new(), Made::new());
    let address = edge.listen_on(&Handle::current(), PATIENCE, Some(made.tls()));
    assert!(made.connect_with(address, &[b"h2"]).await.is_err());
    healthy(&mut made.connect(address).await.expect("a handshake")).await;
}
