//! The routes over a pipeline with fakes behind it: what only a fake can bring about.

mod bodies;
mod fixture;
mod heads;
mod leaving;
mod long;
mod overload;
mod panics;
mod readiness;
mod slow;
mod tls;
