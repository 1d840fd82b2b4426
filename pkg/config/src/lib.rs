//! Raw text to valid configuration.
//!
//! A file, the environment and flags are merged into one tree, and each value is judged where it is read, so that one
//! start reports every fault with its key. Only this crate sees text; what comes out are plain valid values, which the
//! binary maps to the other crates' own settings. It opens the configuration file and the secret files that it names, and
//! nothing else: no socket, no database.
//!
//! Settings that belong to a later version are refused, never accepted and ignored.

mod change;
mod env;
mod file;
mod litellm;
mod load;
mod problem;
mod reader;
mod section;
mod server;
mod settings;
mod tree;
mod upstream;
mod urls;
mod yaml;

pub use env::{Env, ProcessEnv};
pub use file::read_file;
pub use litellm::{Imported, import_litellm};
pub use load::Overrides;
pub use problem::{Problem, Problems};
pub use settings::{
    Admin, AnchorPlace, Auth, AuthMode, Backend, Cache, Config, Encoder, Limits, Lineage, LineageMode, Model, OnFull,
    Provider, Questions, Semantic, SemanticMode, Server, SlowCallers, Store, StoreLocation, Target, TlsFiles, Way,
};

/// The complete configuration file with every setting commented out. With the settings' comment signs removed it means
/// exactly what no file at all means.
pub const DEFAULT_TEXT: &str = include_str!("default.toml");
