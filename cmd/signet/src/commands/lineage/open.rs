//! `signet lineage open`: the sealed bodies of one answer, for the holder of the offline key.
//!
//! The running gateway signs first who opens what and why, since a log has one writer; where that cannot be had, nothing is
//! opened. The private key is used here and goes nowhere.

use super::super::admin::AdminPlace;
use super::super::out::{complain, say};
use super::sealed::named;
use super::source::{Source, with_stores};
use crate::exit;
use crate::serve::keys::hex;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use signet_lineage::{BreakGlassSecret, OpenedBodies, Record};
use signet_types::LineageId;
use std::fs;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct OpenArgs {
    /// The record: the Lineage-Id of an answer.
    id: LineageId,
    /// The X25519 private key in PEM, kept away from the gateway.
    #[arg(long)]
    key: PathBuf,
    /// Why, in a few words; it is signed, and stays for good.
    #[arg(long)]
    basis: String,
    /// Who opens; it is signed, and stays for good.
    #[arg(long, env = "USER", default_value = "operator")]
    who: String,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    admin: AdminPlace,
}

#[derive(Deserialize)]
struct Statement {
    subject: Vec<Subject>,
}

#[derive(Deserialize)]
struct Subject {
    name: String,
    digest: SubjectDigest,
}

#[derive(Deserialize)]
struct SubjectDigest {
    sha256: String,
}

pub(super) fn open(args: &OpenArgs) -> Result<u8> {
    let id = args.id;
    let key = fs::read_to_string(&args.key).with_context(|| format!("reading {}", args.key.display()))?;
    let secret = BreakGlassSecret::from_pem(&key).with_context(|| format!("reading {}", args.key.display()))?;
    let Some(sealed) = with_stores(&args.source, async |stores| Ok(stores.captures.capture(id).await?))?.flatten()
    else {
        complain(&format!(
            "signet lineage open: no sealed bodies of {id} are stored: none were kept, they are on their way, or they are gone"
        ));
        return Ok(exit::FAILURE);
    };
    secret.fits(&sealed)?;
    let order = serde_json::to_vec(&json!({ "basis": args.basis, "who": args.who }))?;
    let path = format!("/admin/v1/lineage/{id}/open");
    let told = args.admin.ask(args.source.folder(), "POST", &path, &order);
    let (status, told) = told.context("nothing was opened: the log must know of it first")?;
    if status != 200 {
        let why = told.trim();
        complain(&format!("signet lineage open: nothing was opened: the gateway says {status}: {why}"));
        return Ok(if status == 400 { exit::USAGE } else { exit::FAILURE });
    }
    let told: Value = serde_json::from_str(&told).context("reading the gateway's answer")?;
    let record = with_stores(&args.source, async |stores| Ok(stores.records.find(id, None).await?))?.flatten();
    let record = record.with_context(|| format!("this database does not hold the record {id}"))?;
    let bodies = unseal(&secret, &record, &sealed)?;
    say(&format!("{}\n", shown(&record, &told["record"], &bodies)));
    Ok(exit::OK)
}

/// Opens what the record names, and nothing else.
fn unseal(secret: &BreakGlassSecret, record: &Record, sealed: &[u8]) -> Result<OpenedBodies> {
    if named(record) != Some(Sha256::digest(sealed).into()) {
        bail!("the stored bytes are not the sealed bodies that the record {} names", record.id);
    }
    let bodies = secret.open((record.log, record.id), sealed)?;
    let statement: Statement = serde_json::from_slice(&record.payload).context("reading the record")?;
    for (name, body) in [("request", &bodies.request), ("response", &bodies.response)] {
        let digest = hex(&bodies.opening.commitment_key(name).commit(body));
        if !statement.subject.iter().any(|subject| subject.name == name && subject.digest.sha256 == digest) {
            bail!("the {name} that was sealed is not the one of the record {}", record.id);
        }
    }
    Ok(bodies)
}

fn shown(record: &Record, opened_by: &Value, bodies: &OpenedBodies) -> Value {
    let mut shown = Map::new();
    shown.insert("id".to_owned(), json!(record.id));
    shown.insert("log".to_owned(), json!(record.log));
    shown.insert("seq".to_owned(), json!(record.seq));
    shown.insert("open_record".to_owned(), opened_by.clone());
    for (name, body) in [("request", &bodies.request), ("response", &bodies.response)] {
        match std::str::from_utf8(body) {
            Ok(text) => shown.insert(name.to_owned(), json!(text)),
            Err(_) => shown.insert(format!("{name}_hex"), json!(hex(body))),
        };
    }
    Value::Object(shown)
}
