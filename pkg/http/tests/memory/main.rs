//! What an open stream takes, counted at the allocator. Provider and callers are in the same process and hold nothing of their own for
//! each stream but a socket.

#[path = "../edge/fixture.rs"]
#[expect(dead_code, reason = "the fixture of the edge's tests")]
mod fixture;

use fixture::{Edge, PATIENCE, With, ask};
use peak_alloc::PeakAlloc;
use signet_provider::Timeouts;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const STREAMS: usize = 60;
/// Half of a stream of 64 events.
const EVENTS: usize = 32;
const WHOLE: usize = usize::MAX;

/// A provider that sends so many events of each stream and then says nothing; or all of it, and closes.
struct Provider {
    address: SocketAddr,
    events: Arc<AtomicUsize>,
}

impl Provider {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let events = Arc::new(AtomicUsize::new(WHOLE));
        let asked = events.clone();
        std::thread::spawn(move || {
            let mut held = Vec::with_capacity(4 * STREAMS);
            while let Ok((mut caller, _)) = listener.accept() {
                read_until(&mut caller, is_request);
                match asked.load(Ordering::SeqCst) {
                    WHOLE => drop(caller.write_all(answer(EVENTS, true).as_bytes())),
                    events => {
                        caller.write_all(answer(events, false).as_bytes()).expect("open");
                        held.push(caller);
                    }
                }
            }
        });
        Self { address, events }
    }
}

fn is_request(text: &str) -> bool {
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a request with a body");
    body.len() == length.parse::<usize>().expect("a number")
}

fn answer(events: usize, whole: bool) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nx-ratelimit-remaining-requests: 9\r\nconnection: close\r\n\
                transfer-encoding: chunked\r\n\r\n";
    let event = |delta: &str, finish: &str| {
        let event = format!(
            "data: {{\"id\":\"chatcmpl-0123456789abcdef\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\
             \"m\",\"system_fingerprint\":\"fp_0123456789\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
             \"finish_reason\":{finish}}}],\"usage\":null}}\n\n"
        );
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    let mut answer = head.to_owned() + &event(r#"{"role":"assistant","content":""}"#, "null");
    (1..events).for_each(|_| answer.push_str(&event(r#"{"content":"some words "}"#, "null")));
    if whole {
        answer += &event("{}", "\"stop\"");
        answer += "e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n";
    }
    answer
}

fn read_until(from: &mut TcpStream, enough: impl Fn(&str) -> bool) {
    let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
    while !enough(&String::from_utf8_lossy(&seen)) {
        let read = from.read(&mut piece).expect("open");
        assert!(read > 0, "closed after {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..read]);
    }
}

/// Asks what was never asked before.
fn begin(caller: &mut TcpStream, number: usize) {
    let body = ask("m", true).replace("Why?", &format!("Why is it that number {number} is no prime?"));
    let request =
        format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    caller.write_all(request.as_bytes()).expect("open");
}

#[test]
fn an_open_stream_takes_less_than_20_kb_with_what_has_come_of_it() {
    let provider = Provider::start();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime");
    let edge = {
        let _inside = runtime.enter();
        Edge::with(With {
            provider: Some((format!("http://{}/v1", provider.address), Timeouts::default())),
            ..With::default()
        })
    };
    let gateway = runtime.block_on(async { edge.listen(PATIENCE) });
    let mut callers: Vec<_> = (0..2 * STREAMS).map(|_| TcpStream::connect(gateway).expect("it listens")).collect();
    for (number, caller) in callers.iter_mut().enumerate() {
        begin(caller, number);
        read_until(caller, |text| text.ends_with("0\r\n\r\n"));
    }
    // The first streams make rooms for many, too: what one takes shows in the second half.
    provider.events.store(EVENTS, Ordering::SeqCst);
    let mut open = |from: usize| {
        for (number, caller) in callers[from..from + STREAMS].iter_mut().enumerate() {
            begin(caller, 10_000 + from + number);
            read_until(caller, |text| text.matches("data:").count() == EVENTS);
        }
    };
    open(0);
    let before = HEAP.current_usage();
    open(STREAMS);
    let bound = 20 << 10;
    let deadline = Instant::now() + Duration::from_secs(20);
    // What has been read by the callers may still be on the gateway's hands for a moment.
    loop {
        let each = HEAP.current_usage().saturating_sub(before) / STREAMS;
        if each < bound {
            break;
        }
        assert!(Instant::now() < deadline, "{each} bytes for each open stream");
        std::thread::yield_now();
    }
    let kept = answer(EVENTS, false).len();
    let each = HEAP.current_usage().saturating_sub(before) / STREAMS;
    assert!(each > kept, "{each} bytes, and what came alone are {kept}: the streams are not open");
}
