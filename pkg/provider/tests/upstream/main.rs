//! The upstream client against peers that are literal bytes on real sockets.

mod connect;
mod early;
mod encodings;
mod endings;
mod h1;
mod h2;
mod kinds;
mod peer;
mod timeouts;
mod ways;
mod wire2;
