//! The addresses on which the process listens.

use super::Stop;
use anyhow::Context;
use std::net::SocketAddr;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Where the listeners of a process are.
pub(crate) struct Bound {
    pub(crate) public: SocketAddr,
    pub(crate) private: SocketAddr,
    pub(crate) serving: Vec<JoinHandle<()>>,
}

/// Binds a listener; `what` is the setting of its address.
pub(crate) fn bound(address: SocketAddr, what: &'static str) -> Result<TcpListener, Stop> {
    signet_http::bind(address).with_context(|| format!("binding {what} = {address}")).map_err(Stop::from)
}

/// Host names under which the admin listener is reached; none where it listens everywhere, and any name will do.
pub(crate) fn admin_hosts(address: SocketAddr) -> Vec<String> {
    if address.ip().is_unspecified() {
        return Vec::new();
    }
    let mut hosts = vec![address.ip().to_string()];
    if address.ip().is_loopback() {
        hosts.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
    }
    hosts
}
