//! The mock as a client sees it: bytes on real sockets.

mod answers;
mod apis;
mod faults;
mod support;
mod tls;
