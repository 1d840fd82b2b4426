//! A request to the admin API of a running gateway.

use anyhow::{Context, Result, anyhow, bail};
use clap::Args;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);
const ANSWER_MAX: u64 = 1 << 20;

/// Where the gateway is, and what lets an operator in.
#[derive(Args)]
pub(crate) struct AdminArgs {
    #[command(flatten)]
    place: AdminPlace,
    /// The data folder.
    #[arg(long, env = "SIGNET_DATA", default_value = "./signet-data")]
    data: PathBuf,
}

/// The same for a command that has a data folder of its own.
#[derive(Args)]
pub(crate) struct AdminPlace {
    /// Host and port of the admin listener.
    #[arg(long, default_value = "127.0.0.1:8081")]
    admin: String,
    /// The file with the admin token; the one in the data folder if not given.
    #[arg(long)]
    token_file: Option<PathBuf>,
    /// The token itself; only by the environment, since arguments are seen by every user of the machine.
    #[arg(long, env = "SIGNET_ADMIN_TOKEN", hide = true, hide_env_values = true)]
    token: Option<String>,
}

impl AdminArgs {
    /// As [`AdminPlace::ask`].
    pub(crate) fn ask(&self, method: &str, path: &str, body: &[u8]) -> Result<(u16, String)> {
        self.place.ask(&self.data, method, path, body)
    }
}

impl AdminPlace {
    fn token(&self, data: &Path) -> Result<String> {
        if let Some(token) = &self.token {
            return Ok(token.clone());
        }
        let file = self.token_file.clone().unwrap_or_else(|| data.join("admin.token"));
        let token = std::fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))?;
        Ok(token.trim().to_owned())
    }

    /// One request over HTTP/1.0 (RFC 1945), whose answer ends with the connection: all that this takes of a client.
    /// Status and body.
    pub(crate) fn ask(&self, data: &Path, method: &str, path: &str, body: &[u8]) -> Result<(u16, String)> {
        let (admin, token) = (&self.admin, self.token(data)?);
        if token.contains(['\r', '\n']) {
            bail!("the admin token holds a line break");
        }
        let address = admin.to_socket_addrs().with_context(|| format!("resolving {admin}"))?.next();
        let address = address.ok_or_else(|| anyhow!("{admin} has no address"))?;
        let mut stream =
            TcpStream::connect_timeout(&address, PATIENCE).with_context(|| format!("connecting to {admin}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "{method} {path} HTTP/1.0\r\nHost: {admin}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
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
}
