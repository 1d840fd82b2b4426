//! The HTTP edge: listeners, routes, bodies, and the one place where a failure gets a status.

mod admin;
mod app;
mod audit;
mod body;
mod explain;
mod faces;
mod health;
mod load;
mod pace;
mod reload;
mod server;
mod sound;
mod tls;
mod tree;

pub use admin::{AdminConfig, admin_router};
pub use app::{App, crowded_router, router};
pub use faces::ErrorFaces;
pub use health::Health;
pub use load::{Load, LoadLimits};
pub use pace::Patience;
pub use reload::{Current, Generation, Reload};
pub use server::{Lane, Room, Serving, bind, serve};
pub use tls::{Tls, TlsFault};
