//! `signet-mock`: the fake provider as a process, for the demo, benchmarks and clients in other languages.

use std::io::Write as _;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use signet_mock::{Behaviour, Config, Fault, MockUpstream};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A fake OpenAI-compatible provider whose answers are fixed by the prompt.
///
/// Serves POST /v1/chat/completions (JSON and SSE), POST /v1/embeddings and GET /v1/models. Faults come from flags,
/// from `x-mock-*` request headers (x-mock-status, x-mock-fault, x-mock-latency-ms, …) or from POST /_mock/script, a
/// JSON list of behaviours for the next matching requests. GET /_mock/requests and GET /_mock/counts tell what
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
    /// Refuse requests without this bearer key.
    #[arg(long, value_name = "KEY")]
    api_key: Option<String>,
    /// Wait before every response head.
    #[arg(long, value_name = "MS")]
    latency_ms: Option<u64>,
    /// Wait between the events of a stream.
    #[arg(long, value_name = "MS")]
    chunk_ms: Option<u64>,
    /// Events of a stream before `[DONE]` [default: 74].
    #[arg(long, value_name = "N")]
    chunks: Option<usize>,
    /// Send all events of a stream in one write.
    #[arg(long)]
    burst: bool,
    /// Pad answers to at least this many bytes of text.
    #[arg(long, value_name = "N")]
    answer_bytes: Option<usize>,
    /// Break every answer, e.g. `reset`, `hang`, `cut-after=3`, `split-utf8`.
    #[arg(long, value_name = "FAULT[=N]")]
    fault: Option<Fault>,
}

impl Flags {
    fn config(self) -> Config {
        let behaviour = Behaviour {
            latency_ms: self.latency_ms,
            chunk_ms: self.chunk_ms,
            chunks: self.chunks,
            burst: self.burst.then_some(true),
            answer_bytes: self.answer_bytes,
            fault: self.fault,
            ..Behaviour::default()
        };
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
    let mock = MockUpstream::start(flags.config())?;
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
