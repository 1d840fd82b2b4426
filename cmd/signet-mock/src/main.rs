//! `signet-mock`: the fake provider as a process, for the demo, benchmarks and clients in other languages.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use signet_mock::{Behaviour, Config, Fault, MockUpstream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A fake provider whose answers are fixed by the prompt.
///
/// Serves OpenAI's /v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings and /v1/models, Anthropic's
/// /v1/messages, /v1/messages/count_tokens and /v1/models, and Azure's /openai/deployments/NAME/… and /openai/v1/….
/// Faults come from flags, from `x-mock-*` request headers (x-mock-status, x-mock-fault, x-mock-latency-ms, …) or from
/// POST /_mock/script, a JSON list of behaviours for the next matching requests. GET /_mock/requests and GET /_mock/counts tell what
/// arrived, DELETE /_mock/requests forgets it.
#[derive(Parser)]
#[command(version)]
struct Flags {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, default_value = "127.0.0.1:9090")]
    listen: SocketAddr,
    /// Serve TLS with a self-signed certificate for localhost, 127.0.0.1 and ::1.
    #[arg(long)]
    tls: bool,
    /// Offer HTTP/2 by ALPN beside HTTP/1.1.
    #[arg(long, requires = "tls")]
    h2: bool,
    /// Tell the first HTTP/2 connection to go away at so many requests in flight.
    #[arg(long, value_name = "N", requires = "h2")]
    goaway_at: Option<usize>,
    /// Write the certificate to trust to this file.
    #[arg(long, value_name = "FILE", requires = "tls")]
    ca_out: Option<PathBuf>,
    /// Serving threads.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// How many of the newest requests to remember.
    #[arg(long, default_value_t = 1000)]
    keep: usize,
    /// Refuse requests without this key, as a bearer, `x-api-key` or `api-key`, as the vendor of the path wants it.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Wait before every response head.
    #[arg(long, value_name = "MS")]
    latency_ms: Option<u64>,
    /// Wait between a response head and the first byte of its body.
    #[arg(long, value_name = "MS")]
    first_byte_ms: Option<u64>,
    /// Wait between the events of a stream.
    #[arg(long, value_name = "MS")]
    chunk_ms: Option<u64>,
    /// Events of a stream before `[DONE]` [default: 74].
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// A pace by name: `chunks64` is 64 chunks 20 ms apart.
    #[arg(long, value_name = "NAME", value_parser = Behaviour::profile)]
    profile: Option<Behaviour>,
    /// Send all events of a stream in one write.
    #[arg(long)]
    burst: bool,
    /// Pad answers to at least this many bytes of text.
    #[arg(long, value_name = "N")]
    answer_bytes: Option<usize>,
    /// Break every answer, e.g. `reset`, `hang`, `cut-after=3`, `split-utf8`.
    #[arg(long, value_name = "FAULT[=N]")]
    fault: Option<Fault>,
    /// Inside the event that `half-event-after` halves, wait and go on.
    #[arg(long, value_name = "MS")]
    pause_ms: Option<u64>,
    /// Answer with this status.
    #[arg(long, value_name = "CODE")]
    status: Option<u16>,
    /// `Retry-After` of that answer.
    #[arg(long, value_name = "VALUE", requires = "status")]
    retry_after: Option<String>,
    /// Only the first so many requests get the status; the others are served.
    #[arg(long, value_name = "N", requires = "status")]
    times: Option<u64>,
}

impl Flags {
    /// What only the first requests get, taken out of what all get.
    fn first(&mut self) -> Behaviour {
        let (status, retry_after) = (self.status.take(), self.retry_after.take());
        Behaviour { status, retry_after, times: self.times, ..Behaviour::default() }
    }

    fn config(self) -> Config {
        let behaviour = Behaviour {
            latency_ms: self.latency_ms,
            first_byte_ms: self.first_byte_ms,
            pause_ms: self.pause_ms,
            status: self.status,
            retry_after: self.retry_after,
            chunk_ms: self.chunk_ms,
            chunks: self.chunks,
            burst: self.burst.then_some(true),
            answer_bytes: self.answer_bytes,
            fault: self.fault,
            ..Behaviour::default()
        };
        let behaviour = behaviour.over(&self.profile.unwrap_or_default());
        Config {
            listen: self.listen,
            tls: self.tls,
            h2: self.h2,
            goaway_at: self.goaway_at,
            threads: self.threads,
            keep: self.keep,
            api_key: self.api_key,
            behaviour,
        }
    }
}

fn main() -> anyhow::Result<()> {
    let mut flags = Flags::parse();
    let ca_out = flags.ca_out.take();
    let first = flags.times.map(|_| flags.first());
    let mock = MockUpstream::start(flags.config())?;
    mock.script(first);
    if let (Some(path), Some(pem)) = (&ca_out, mock.ca_pem()) {
        std::fs::write(path, pem).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "listening on {}", mock.base_url())?;
    out.flush()?;
    loop {
        std::thread::park(); // until a signal ends the process
    }
}
