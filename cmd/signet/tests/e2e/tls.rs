//! The callers' listener over TLS, and a certificate that is renewed under it.

use crate::client::{Conn, request};
use crate::gateway::{CHAT, Gateway, Setup, chat, eventually, mock};
use rcgen::CertifiedKey;
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// Writes a new certificate and its key to a folder.
fn renew(folder: &Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let CertifiedKey { cert, signing_key } = made;
    fs::write(folder.join("cert.pem"), cert.pem()).expect("written");
    fs::write(folder.join("key.pem"), signing_key.serialize_pem()).expect("written");
    cert.der().clone()
}

/// One request of a caller that trusts `root`, and all that comes back.
fn asked(gateway: &Gateway, root: &CertificateDer<'static>, path: &str, body: &str) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(root.clone()).expect("a root");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = builder.expect("versions").with_root_certificates(roots).with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), "localhost".try_into().expect("a name"));
    let mut caller = StreamOwned::new(session.expect("a session"), TcpStream::connect(gateway.addr)?);
    let headers = [("Content-Type", "application/json"), ("Connection", "close")];
    let method = if body.is_empty() { "GET" } else { "POST" };
    caller.write_all(&request(method, path, &headers, body.as_bytes()))?;
    let mut answer = String::new();
    caller.read_to_string(&mut answer)?;
    Ok(answer)
}

#[test]
fn a_renewed_certificate_is_shown_without_a_restart_and_half_of_one_is_told_and_not_shown() {
    let (mock, folder) = (mock(), TempDir::new().expect("a folder"));
    let first = renew(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let setup =
        Setup::on(&mock).set("server.tls_cert_file", &file("cert.pem")).set("server.tls_key_file", &file("key.pem"));
    let gateway = setup.spawn();
    eventually("ready", || asked(&gateway, &first, "/readyz", "").ok().filter(|answer| answer.contains(" 200 ")));
    let answer = asked(&gateway, &first, CHAT, &chat("What is a seal?").to_string()).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("lineage-receipt"), "{answer}");

    let second = renew(folder.path());
    eventually("the second certificate", || asked(&gateway, &second, "/healthz", "").ok());
    assert!(asked(&gateway, &first, "/healthz", "").is_err());

    let before = fs::read(folder.path().join("key.pem")).expect("a key");
    fs::write(folder.path().join("key.pem"), "half").expect("written");
    eventually("a fault", || {
        let ready = asked(&gateway, &second, "/readyz", "").expect("it is served still");
        (ready.contains(" 200 ") && ready.contains("\"tls\":\"the certificate before is in use: ")).then_some(())
    });
    fs::write(folder.path().join("key.pem"), before).expect("written");
    eventually("no fault", || {
        let ready = asked(&gateway, &second, "/readyz", "").expect("it is served");
        (!ready.contains("\"tls\"")).then_some(())
    });
    let mut plain = Conn::open(gateway.addr);
    plain.send("GET", "/healthz", &[], b"");
    assert!(plain.head().is_err(), "plain HTTP is no way in");
}

#[test]
fn a_start_with_a_pair_that_cannot_be_used_is_refused_and_says_so() {
    let (mock, folder) = (mock(), TempDir::new().expect("a folder"));
    renew(folder.path());
    let file = |name: &str| folder.path().join(name).display().to_string();
    let setup = |key: &str| {
        Setup::on(&mock).set("server.tls_cert_file", &file("cert.pem")).set("server.tls_key_file", &file(key))
    };
    for (key, told) in [("cert.pem", "there is no private key in PEM"), ("none.pem", "server.tls_key_file")] {
        let output = setup(key).run(folder.path());
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(78) && text.contains(told), "{:?}: {text}", output.status);
    }
}
