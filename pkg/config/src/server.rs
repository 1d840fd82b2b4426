//! `[server]`.

use crate::load::{DAY_MS, DAY_S, GIB, key_file, listen, seconds, size};
use crate::section::Section;
use crate::settings::{Server, SlowCallers, TlsFiles};
use std::time::Duration;

pub(crate) fn server(mut section: Section<'_>) -> Server {
    let server = Server {
        listen: listen(&mut section, "127.0.0.1:8080"),
        trusted_proxies: section.parsed_list("trusted_proxies", "a list of blocks, such as 10.0.0.0/8"),
        max_body_bytes: size(&mut section, "max_body_bytes", 33_554_432, 1..=GIB),
        max_response_bytes: size(&mut section, "max_response_bytes", 67_108_864, 1..=GIB),
        max_stream_bytes: size(&mut section, "max_stream_bytes", 268_435_456, 1..=64 * GIB),
        heartbeat: Duration::from_millis(section.number("heartbeat_ms", 15_000, 0..=3_600_000)),
        stream_buffer_bytes: size(&mut section, "stream_buffer_bytes", 8_388_608, 4096..=GIB),
        slow_reader: Duration::from_millis(section.number("slow_reader_ms", 10_000, 1..=3_600_000)),
        max_connections: size(&mut section, "max_connections", 10_000, 1..=1_000_000),
        max_inflight: u32::try_from(section.number("max_inflight", 0, 0..=1_000_000)).expect("within its range"),
        max_lag: Duration::from_millis(section.number("max_lag_ms", 50, 0..=60_000)),
        tls: tls(&mut section),
        slow: slow_callers(&mut section),
        shutdown_grace: seconds(&mut section, "shutdown_grace_s", 30, 0..=DAY_S),
        reload_watch: section.flag("reload_watch", true),
        lock_wait: seconds(&mut section, "lock_wait_s", 30, 0..=DAY_S),
    };
    section.end();
    server
}

fn tls(section: &mut Section<'_>) -> Option<TlsFiles> {
    let (chain, key) = (key_file(section, "tls_cert_file"), key_file(section, "tls_key_file"));
    match (chain, key) {
        (Some(chain), Some(key)) => Some(TlsFiles { chain, key }),
        (Some(_), None) => {
            section.fault("tls_key_file", "has to name the key of tls_cert_file");
            None
        }
        (None, Some(_)) => {
            section.fault("tls_cert_file", "has to name the certificate of tls_key_file");
            None
        }
        (None, None) => None,
    }
}

fn slow_callers(section: &mut Section<'_>) -> SlowCallers {
    let mut millis = |key, default| Duration::from_millis(section.number(key, default, 1..=DAY_MS));
    SlowCallers {
        head: millis("head_timeout_ms", 10_000),
        idle: millis("idle_timeout_ms", 75_000),
        body: millis("body_timeout_ms", 30_000),
        write: millis("write_stall_ms", 60_000),
        body_rate_min: section.number("body_rate_min", 1_024, 0..=GIB),
    }
}
