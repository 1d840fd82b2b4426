//! The layering: a crate may use only crates above it, some libraries live in one crate, and every crate is described.

use cargo_metadata::{DependencyKind, Metadata, MetadataCommand};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// From the bottom up: a crate may use those before it.
const LAYERS: [&str; 23] = [
    "signet-types",
    "signet-telemetry",
    "signet-openai",
    "signet-dialect",
    "signet-lineage",
    "signet-spool",
    "signet-cache",
    "signet-limits",
    "signet-provider",
    "signet-redis",
    "signet-store",
    "signet-vector",
    "signet-minilm",
    "signet-eval",
    "signet-pipeline",
    "signet-http",
    "signet-config",
    "signet-mock",
    "signet-testkit",
    "signet-oracle",
    "signet",
    "signet-mock-cli",
    "signet-load",
];

/// Libraries that only the named crates may use.
const HOMES: [(&str, &[&str]); 12] = [
    ("fred", &["signet-redis"]),
    ("sqlx", &["signet-store"]),
    ("axum", &["signet-http"]),
    ("moka", &["signet-cache", "signet-minilm"]),
    ("ndarray", &["signet-minilm"]),
    ("crc32c", &["signet-spool"]),
    ("toml", &["signet-config"]),
    ("yaml-rust2", &["signet-config"]),
    ("prometheus-client", &["signet-telemetry"]),
    ("ed25519-dalek", &["signet-lineage"]),
    ("rcgen", &["signet-mock", "signet-provider"]),
    ("clap", &["signet", "signet-mock-cli", "signet-load"]),
];

/// Crates that must not use certain others, whatever their layer.
const NEVER: [(&str, &[&str]); 9] = [
    ("signet-openai", &["signet-types", "tokio", "axum"]),
    ("signet-dialect", &["signet-types", "tokio", "axum"]),
    ("signet-lineage", &["tokio", "sqlx"]),
    ("signet-spool", &["tokio", "sqlx", "axum"]),
    ("signet-provider", &["signet-cache", "signet-lineage", "axum"]),
    ("signet-pipeline", &["axum", "signet-redis", "signet-store"]),
    ("signet-http", &["signet-redis", "signet-store"]),
    ("signet-vector", &["tokio"]),
    ("signet-mock", &["signet-pipeline", "signet-http"]),
];

fn metadata() -> Metadata {
    MetadataCommand::new().no_deps().exec().expect("cargo metadata runs")
}

fn normal_dependencies(metadata: &Metadata) -> BTreeMap<String, BTreeSet<String>> {
    let of = |package: &cargo_metadata::Package| {
        let normal = package.dependencies.iter().filter(|d| d.kind == DependencyKind::Normal);
        (package.name.to_string(), normal.map(|d| d.name.clone()).collect())
    };
    metadata.packages.iter().map(of).collect()
}

#[test]
fn crates_use_only_the_crates_below_them() {
    let rank = |name: &str| LAYERS.iter().position(|layer| *layer == name);
    for (name, uses) in normal_dependencies(&metadata()) {
        let own = rank(&name).unwrap_or_else(|| panic!("{name} has no layer"));
        for used in uses.iter().filter(|used| used.starts_with("signet")) {
            assert!(rank(used).is_some_and(|rank| rank < own), "{name} uses {used}, which is not below it");
        }
    }
}

#[test]
fn some_libraries_live_in_one_crate() {
    let uses = normal_dependencies(&metadata());
    for (library, homes) in HOMES {
        for (name, _) in uses.iter().filter(|(_, uses)| uses.contains(library)) {
            assert!(homes.contains(&name.as_str()), "{name} uses {library}, whose home is {homes:?}");
        }
        assert!(uses.values().any(|uses| uses.contains(library)), "{library} is used nowhere: drop the rule");
    }
}

#[test]
fn crates_stay_ignorant_of_what_is_not_their_business() {
    let uses = normal_dependencies(&metadata());
    for (name, forbidden) in NEVER {
        for used in forbidden {
            assert!(!uses[name].contains(*used), "{name} uses {used}");
        }
    }
}

#[test]
fn the_test_kit_is_for_tests_only() {
    for (name, uses) in normal_dependencies(&metadata()) {
        assert!(!uses.contains("signet-testkit"), "{name} ships the test kit");
    }
}

#[test]
fn the_architecture_names_every_crate() {
    let metadata = metadata();
    let root = Path::new(metadata.workspace_root.as_str());
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there");
    for package in &metadata.packages {
        assert!(text.contains(&format!("`{}`", package.name)), "ARCHITECTURE.md does not name {}", package.name);
    }
}

#[test]
fn every_dependency_has_its_reason() {
    let metadata = metadata();
    let root = Path::new(metadata.workspace_root.as_str());
    let text = std::fs::read_to_string(root.join("Cargo.toml")).expect("Cargo.toml is there");
    let section = text.split("[workspace.dependencies]").nth(1).expect("the section is there");
    let section = section.split("\n[").next().expect("a section has text");
    for line in section.lines().filter(|line| line.contains(" = ") && !line.contains("path = ")) {
        assert!(line.contains(" # ") || line.starts_with('#'), "no reason beside: {line}");
    }
}
