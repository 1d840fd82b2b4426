//! The race between a request and the end of the connection it is sent on.
//!
//! A connection that the peer closed is found by the probe when it is taken, so these tests take it first and close it then.
//! The peer is a blocking socket, and nothing lets the runtime look at its sockets in between: to the client the connection
//! looks open until the request is written.

use super::*;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

struct Setup {
    provider: Arc<HttpProvider>,
    listener: TcpListener,
}

fn setup() -> Setup {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/v1", address(&listener)).parse().expect("a URL");
    let mut config = ProviderConfig::new("p".parse().expect("a name"), url);
    config.timeouts.first_byte = Duration::from_secs(10); // whoever is sent a request too many does not hold up the test
    Setup { provider: Arc::new(HttpProvider::new(config).expect("a good configuration")), listener }
}

fn address(listener: &TcpListener) -> SocketAddr {
    listener.local_addr().expect("bound")
}

/// Reads one request, whose body ends with a full stop.
fn request(stream: &mut TcpStream) -> String {
    let mut raw = Vec::new();
    let mut buffer = [0; 8 << 10];
    while !raw.ends_with(b".") {
        let read = stream.read(&mut buffer).expect("open");
        assert!(read > 0, "closed inside a request");
        raw.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8(raw).expect("text")
}

fn answer(stream: &mut TcpStream, body: &str) {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).expect("open");
}

fn outgoing(body: String, trail: Option<&Trail>) -> Outgoing<'_> {
    Outgoing {
        method: Method::POST,
        tail: "/x".to_owned(),
        query: None,
        headers: HeaderMap::new(),
        body: body.into(),
        deadline: None,
        trail,
    }
}

async fn ask(provider: &HttpProvider, opened: Opened, call: &Outgoing<'_>) -> Result<Bytes, UpstreamError> {
    let limits = Limits::new(provider.timeouts, None);
    provider.exchange_on(opened, call, limits).await?.body.collect(usize::MAX).await
}

impl Setup {
    /// A connection that has carried a request, taken for another, and the peer's end of it.
    async fn taken(&self) -> (Opened, TcpStream) {
        let listener = self.listener.try_clone().expect("a socket");
        let serve = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            request(&mut stream);
            answer(&mut stream, "first");
            stream
        });
        let call = outgoing("one.".to_owned(), None);
        let opened = self.provider.open(&Limits::new(self.provider.timeouts, None), true).await.expect("a connection");
        assert_eq!(ask(&self.provider, opened, &call).await.expect("complete"), "first");
        let connection = self.provider.idle.take().expect("it rests, and the probe finds it open");
        (Opened::resting(connection), serve.join().expect("served"))
    }

    /// Whether somebody has connected and was not accepted.
    fn is_left_alone(&self) -> bool {
        self.listener.set_nonblocking(true).expect("a socket");
        self.listener.accept().is_err()
    }
}

#[tokio::test]
async fn a_request_that_met_a_closed_connection_is_sent_once_more() {
    for body in ["two.".to_owned(), format!("{}.", "z".repeat(64 << 10))] {
        let setup = setup();
        let (opened, stream) = setup.taken().await;
        drop(stream); // the FIN is on its way while we write
        let listener = setup.listener.try_clone().expect("a socket");
        let serve = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a connection");
            let seen = request(&mut stream);
            answer(&mut stream, "second");
            (seen, stream)
        });
        let answered = ask(&setup.provider, opened, &outgoing(body.clone(), None)).await;
        assert_eq!(answered.expect("sent on a fresh connection"), "second");
        let (seen, _stream) = serve.join().expect("served");
        assert!(seen.ends_with(&body));
        assert!(setup.is_left_alone());
    }
}

#[tokio::test]
async fn a_fresh_connection_that_is_closed_too_is_the_end_of_it() {
    let setup = setup();
    let (opened, stream) = setup.taken().await;
    drop(stream);
    let listener = setup.listener.try_clone().expect("a socket");
    let serve = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        request(&mut stream);
    });
    let error = ask(&setup.provider, opened, &outgoing("two.".to_owned(), None)).await.expect_err("closed twice");
    assert!(!error.is_unbilled(), "the second one read it: {error:?}");
    serve.join().expect("served");
    assert!(setup.is_left_alone());
}

type Then = Box<dyn FnOnce(TcpStream) + Send>;

/// What becomes of a request where the peer does `then` with the connection once bytes of it have come.
async fn met_by(then: impl FnOnce(TcpStream) + Send + 'static) -> (UpstreamError, Setup) {
    let setup = setup();
    let (opened, mut stream) = setup.taken().await;
    let serve = thread::spawn(move || {
        let mut first = [0; 1];
        stream.read_exact(&mut first).expect("a byte of the request");
        then(stream);
    });
    let error = ask(&setup.provider, opened, &outgoing(format!("{}.", "z".repeat(1000)), None)).await;
    serve.join().expect("served");
    (error.expect_err("no answer"), setup)
}

#[tokio::test]
async fn what_the_peer_has_read_is_never_sent_again_however_it_closes() {
    let whole = |mut stream: TcpStream| request(&mut stream);
    let reset = |stream: TcpStream| {
        socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO)).expect("a socket");
    };
    let ways: [(&str, Then); 5] = [
        ("read whole, then FIN", Box::new(move |stream| drop(whole(stream)))),
        (
            "read whole, then RST",
            Box::new(move |stream| {
                let mut read = stream.try_clone().expect("a socket");
                request(&mut read);
                reset(stream);
            }),
        ),
        ("read a part, then closed", Box::new(drop)),
        ("read a part, then RST", Box::new(reset)),
        (
            "read whole, half closed",
            Box::new(|mut stream| {
                request(&mut stream);
                stream.shutdown(std::net::Shutdown::Write).expect("open");
            }),
        ),
    ];
    for (way, then) in ways {
        let (error, setup) = met_by(then).await;
        assert!(!error.is_unbilled(), "{way}: {error:?}");
        assert!(setup.is_left_alone(), "{way}: sent again");
    }
}

#[tokio::test]
async fn after_a_byte_of_an_answer_nothing_is_sent_again() {
    let setup = setup();
    let (opened, mut stream) = setup.taken().await;
    // It speaks before it was asked, and closes: whose answer that was meant to be nobody knows.
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-").expect("open");
    drop(stream);
    let error = ask(&setup.provider, opened, &outgoing("two.".to_owned(), None)).await.expect_err("cut inside a head");
    assert!(!error.is_unbilled(), "{error:?}");
    assert!(setup.is_left_alone());
}

#[tokio::test]
async fn the_second_sending_is_an_attempt_of_its_own() {
    let setup = setup();
    let (opened, stream) = setup.taken().await;
    drop(stream);
    let listener = setup.listener.try_clone().expect("a socket");
    let serve = thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        request(&mut stream);
        answer(&mut stream, "second");
        stream
    });
    let trail = Trail::default();
    let name: ProviderName = "p".parse().expect("a name");
    trail.begin((&name, &"m".parse().expect("a name")), Duration::ZERO, Vec::new());
    ask(&setup.provider, opened, &outgoing("two.".to_owned(), Some(&trail))).await.expect("answered");
    let outcomes: Vec<_> = trail.attempts().iter().map(|attempt| attempt.outcome).collect();
    assert_eq!(outcomes, [Err("closed_unprocessed"), Err("abandoned")], "the second is not over for the fleet yet");
    serve.join().expect("served");
}
