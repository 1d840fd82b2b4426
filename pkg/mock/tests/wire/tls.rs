//! TLS, ALPN and HTTP/2.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use signet_mock::{Config, MockUpstream, StartError, chat_body};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::support::{PROMPT, chat};

async fn connect(mock: &MockUpstream, alpn: &[&[u8]]) -> TlsStream<TcpStream> {
    let pem = mock.ca_pem().expect("a mock with TLS has a certificate");
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")).expect("a certificate");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|protocol| protocol.to_vec()).collect();
    let tcp = TcpStream::connect(mock.addr()).await.expect("the mock listens");
    let name = ServerName::try_from("127.0.0.1").expect("an address");
    TlsConnector::from(Arc::new(config)).connect(name, tcp).await.expect("the certificate is trusted")
}

fn tls(h2: bool) -> MockUpstream {
    MockUpstream::start(Config { tls: true, h2, ..Config::default() }).expect("a free port")
}

#[tokio::test]
async fn alpn_offers_h2_only_when_asked_to() {
    let both: [&[u8]; 2] = [b"h2", b"http/1.1"];
    for (h2, chosen) in [(true, b"h2".as_slice()), (false, b"http/1.1".as_slice())] {
        let stream = connect(&tls(h2), &both).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(chosen));
    }
    let refused = MockUpstream::start(Config { h2: true, ..Config::default() });
    assert!(matches!(refused, Err(StartError::H2WithoutTls)));
}

#[tokio::test]
async fn an_answer_over_h2_is_the_same_and_leaving_one_stream_cancels_one_request() {
    let mock = tls(true);
    let io = TokioIo::new(connect(&mock, &[b"h2"]).await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
    tokio::spawn(connection);
    let ask = |fault: Option<&str>| {
        let request = http::Request::post(format!("{}/chat/completions", mock.base_url()));
        let request = fault.into_iter().fold(request, |request, fault| request.header("x-mock-fault", fault));
        sender.clone().send_request(request.body(Full::new(Bytes::from(chat("")))).expect("a request"))
    };
    let left = tokio::spawn(ask(Some("hang")));
    let wait = Duration::from_secs(20);
    tokio::time::timeout(wait, mock.counts_when(|c| c.requests == 1)).await.expect("it arrives");
    left.abort();
    tokio::time::timeout(wait, mock.counts_when(|c| c.cancelled == 1)).await.expect("it is noticed");
    let answer = ask(None).await.expect("the connection lives on");
    assert_eq!(answer.into_body().collect().await.expect("a body").to_bytes(), chat_body("m", PROMPT));
    let cut = ask(Some("cut-after=5")).await.expect("a head").into_body().collect().await;
    cut.expect_err("the stream is reset");
    assert_eq!(mock.counts().connections, 1);
}

#[tokio::test]
async fn goaway_answers_the_first_request_in_flight_and_disowns_the_others() {
    let mock = MockUpstream::start(Config { tls: true, h2: true, goaway_at: Some(3), ..Config::default() })
        .expect("a free port");
    let ask = |sender: &http2::SendRequest<Full<Bytes>>| {
        let request = http::Request::post(format!("{}/chat/completions", mock.base_url()));
        sender.clone().send_request(request.body(Full::new(Bytes::from(chat("")))).expect("a request"))
    };
    let mut told = Vec::new();
    for requests in [3, 1] {
        let io = TokioIo::new(connect(&mock, &[b"h2"]).await);
        let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.expect("HTTP/2");
        tokio::spawn(connection);
        let asked: Vec<_> = (0..requests).map(|_| tokio::spawn(ask(&sender))).collect();
        for answer in asked {
            told.push(match answer.await.expect("no panic") {
                Ok(answer) => answer.into_body().collect().await.expect("a body").to_bytes() == chat_body("m", PROMPT),
                Err(_) => false,
            });
        }
    }
    assert_eq!(told, [true, false, false, true], "the first of the first connection, and the second connection");
    assert_eq!((mock.counts().requests, mock.counts().finished, mock.counts().connections), (4, 2, 2));
}

#[tokio::test]
async fn what_still_comes_behind_a_goaway_is_disowned_too() {
    let mock = MockUpstream::start(Config { tls: true, h2: true, goaway_at: Some(2), ..Config::default() })
        .expect("a free port");
    let mut io = connect(&mock, &[b"h2"]).await;
    // Preface, SETTINGS, then four requests whose HPACK block says `:method: POST` alone, all before a look at the answers.
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    for stream in [1, 3, 5, 7] {
        sent.extend_from_slice(&[0, 0, 1, 1, 5, 0, 0, 0, stream, 0x83]);
    }
    io.write_all(&sent).await.expect("the mock reads");
    tokio::time::timeout(Duration::from_secs(20), mock.counts_when(|c| c.requests == 4)).await.expect("all arrive");
    io.shutdown().await.expect("open");
    let mut heard = Vec::new();
    io.read_to_end(&mut heard).await.ok();
    let (mut frames, mut rest) = (Vec::new(), &heard[..]);
    while let [a, b, c, kind, _, _, _, _, stream, ..] = *rest {
        frames.push((kind, stream));
        rest = &rest[9 + usize::from(a) * 65536 + usize::from(b) * 256 + usize::from(c)..];
    }
    // SETTINGS and its ACK come in either order with the rest: GOAWAY, then the answer to the first alone.
    frames.retain(|(kind, _)| *kind != 4);
    assert_eq!(frames, [(7, 0), (1, 1), (0, 1)]);
    assert_eq!((mock.counts().finished, mock.counts().cancelled), (1, 0));
}
