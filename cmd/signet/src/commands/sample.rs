//! `signet cache sample`: what the gateway kept of its questions, unsealed, as JSON lines that `signet cache eval` reads.

use super::out::{complain, say};
use crate::exit;
use crate::serve::{build, keys};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use signet_cache::Keyring;
use signet_config::{Config, Overrides, ProcessEnv, StoreLocation};
use signet_pipeline::{AskedQuestion, Line, QuestionFiles};
use signet_store::{Options as StoreOptions, Stores};
use signet_types::{Clock, SystemClock};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Args)]
pub(crate) struct SampleArgs {
    /// The gateway's configuration: data folder, store and tenant secret come from here.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The data folder.
    #[arg(long)]
    data: Option<PathBuf>,
    /// What is printed of each question.
    #[arg(long, value_enum, default_value = "pairs")]
    form: Form,
    /// The newest so many rows only.
    #[arg(long)]
    limit: Option<usize>,
    /// Only questions not older than this: 90s, 30m, 12h, 7d.
    #[arg(long, value_parser = age)]
    since: Option<Duration>,
    /// Only questions for this model, as it was asked for.
    #[arg(long)]
    model: Option<String>,
    /// Remove every question that was kept instead.
    #[arg(long, conflicts_with_all = ["form", "limit", "since", "model"])]
    erase: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    /// The stored question and the one asked, with an empty label, where there was a candidate.
    Pairs,
    /// Every question, in order of arrival.
    Stream,
}

fn age(text: &str) -> Result<Duration, String> {
    let bad = || "not a number with s, m, h or d behind it".to_owned();
    let unit = text.chars().last().ok_or_else(bad)?;
    let seconds = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        _ => return Err(bad()),
    };
    let number: u64 = text[..text.len() - 1].parse().map_err(|_| bad())?;
    Ok(Duration::from_secs(number.saturating_mul(seconds)))
}

pub(crate) fn run(args: &SampleArgs) -> Result<u8> {
    let overrides = args.data.iter().fold(Overrides::default(), |set, data| set.data_dir(data.clone()));
    let config = match Config::load(args.config.as_deref(), &ProcessEnv, overrides) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(exit::CONFIG);
        }
    };
    let files = build::question_files(&config);
    if args.erase {
        complain(&format!("{} files removed", files.erase().context("removing the questions")?));
        return Ok(exit::OK);
    }
    let Some(secret) = keys::secret_at_hand(&config)? else {
        complain(&format!(
            "signet cache sample: the questions are sealed, and the tenant secret is not here: set auth.secret_file, or run \
             this on the data folder of a gateway that has served ({} holds no tenant.secret)",
            config.data_dir.display()
        ));
        return Ok(exit::NO_INPUT);
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stores = {
        let _inside = runtime.enter();
        Stores::open_read_only(&store(&config)).context("store.url")?
    };
    let ring = Keyring::new(stores.keys.clone(), secret);
    let told = runtime.block_on(print(args, &files, &ring));
    runtime.block_on(stores.close());
    told
}

fn store(config: &Config) -> StoreOptions {
    let url = match &config.store.location {
        StoreLocation::Sqlite(file) => format!("sqlite://{}", file.display()),
        StoreLocation::Postgres(url) => url.expose().clone(),
    };
    StoreOptions::new(url, "")
}

async fn print(args: &SampleArgs, files: &QuestionFiles, ring: &Keyring) -> Result<u8> {
    let now_ms = SystemClock::new().now_ms();
    let oldest_ms =
        args.since.map_or(0, |age| now_ms.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)));
    let mut lines = Vec::new();
    let mut take = |line: Line| lines.extend(Some(line).filter(|line| line.at_ms >= oldest_ms));
    let damaged = files.read(now_ms, &mut take).context("reading the questions")?;
    let (mut rows, mut sealed) = (VecDeque::new(), 0_u64);
    let mut passed = 0_u64;
    for line in &lines {
        let opened = AskedQuestion::open(line, ring).await;
        let Some(asked) = opened.context("the tenant keys that open the questions")? else {
            sealed += 1;
            continue;
        };
        if args.model.as_ref().is_some_and(|model| *model != asked.model) {
            continue;
        }
        match row(args.form, line, &asked) {
            Some(row) => rows.push_back(row.to_string()),
            None => passed += 1,
        }
        if args.limit.is_some_and(|limit| rows.len() > limit) {
            rows.pop_front();
        }
    }
    for row in &rows {
        say(&format!("{row}\n"));
    }
    complain(&format!(
        "{} questions; left out: {passed} without a candidate, {sealed} whose keys are destroyed or that are damaged, \
         {damaged} cut short",
        rows.len()
    ));
    Ok(exit::OK)
}

/// None where there is nothing to compare.
fn row(form: Form, line: &Line, asked: &AskedQuestion) -> Option<Value> {
    let similarity = |e6: Option<u32>| e6.map(|e6| f64::from(e6) / 1e6);
    // The partition stands in the place of who asks: questions of two partitions never meet, here as in service.
    let tenant = format!("{}/{}", line.tenant, asked.partition);
    let body = json!({
        "tenant": tenant, "model": asked.model, "messages": [{ "role": "user", "content": asked.question }],
    });
    let mut row = match form {
        Form::Stream => json!({ "question": body }),
        Form::Pairs => {
            let matched = asked.matched.as_ref()?;
            json!({ "a": matched.question, "b": asked.question, "label": "", "source": matched.source })
        }
    };
    let facts = json!({
        "id": asked.id, "at_ms": line.at_ms, "tenant": line.tenant.to_string(), "model": asked.model,
        "partition": asked.partition, "tier": asked.tier, "decision": asked.verdict, "refused_by": asked.refused_by,
        "similarity": similarity(asked.similarity_e6), "floor": similarity(asked.floor_e6),
    });
    if let (Some(row), Value::Object(facts)) = (row.as_object_mut(), facts) {
        row.extend(facts);
    }
    Some(row)
}
