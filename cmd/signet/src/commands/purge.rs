//! `signet cache purge`: takes stored answers back, by the admin API of a running gateway.

use super::out::{complain, say};
use crate::exit;
use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use serde::Serialize;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_MAX: u64 = 1 << 20;

#[derive(Args)]
pub(crate) struct PurgeArgs {
    /// Host and port of the admin listener.
    #[arg(long, default_value = "127.0.0.1:8081")]
    admin: String,
    /// The file with the admin token; the one in the data folder if not given.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// The token itself; only by the environment, since arguments are seen by every user of the machine.
    #[arg(long, env = "SIGNET_ADMIN_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
    /// The data folder.
    #[arg(long, env = "SIGNET_DATA", default_value = "./signet-data")]
    data: PathBuf,
    #[command(flatten)]
    what: What,
}

/// Everything given has to fit. Nothing given is refused by the gateway unless `--all` is.
#[derive(Args, Serialize)]
struct What {
    /// The Lineage-Id of an answer: what it was served from, or what it filled.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// A tenant, as records name it.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<String>,
    /// A model, as it was asked for.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    /// An X-Cache-Namespace.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    /// Only what was stored longer ago than this many seconds.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    older_than_s: Option<u64>,
    /// Everything.
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &PurgeArgs) -> Result<u8> {
    let (status, body) = post(&args.admin, "/admin/v1/cache/purge", &token(args)?, &serde_json::to_vec(&args.what)?)?;
    if status == 200 {
        say(&format!("{body}\n"));
        return Ok(exit::OK);
    }
    complain(&format!("signet cache purge: the gateway says {status}: {}", body.trim()));
    Ok(if status == 400 { exit::USAGE } else { exit::FAILURE })
}

fn token(args: &PurgeArgs) -> Result<String> {
    if let Some(token) = &args.token {
        return Ok(token.clone());
    }
    let file = args.token_file.clone().unwrap_or_else(|| args.data.join("admin.token"));
    let token = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
    Ok(token.trim().to_owned())
}

/// One request over HTTP/1.0 (RFC 1945), whose answer ends with the connection: all that this takes of a client.
fn post(admin: &str, path: &str, token: &str, body: &[u8]) -> Result<(u16, String)> {
    if token.contains(['\r', '\n']) {
        bail!("the admin token holds a line break");
    }
    let address = admin.to_socket_addrs().with_context(|| format!("resolving {admin}"))?.next();
    let address = address.ok_or_else(|| anyhow!("{admin} has no address"))?;
    let mut stream =
        TcpStream::connect_timeout(&address, PATIENCE).with_context(|| format!("connecting to {admin}"))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {admin}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body)?;
    let mut answer = String::new();
    stream.take(ANSWER_MAX).read_to_string(&mut answer).context("reading the gateway's answer")?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(|| anyhow!("no HTTP answer from {admin}"))?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.ok_or_else(|| anyhow!("no HTTP status from {admin}"))?, body.to_owned()))
}
