//! `signet cache`: how often would the semantic cache serve, and how often would it be wrong?

use super::explain::{self, ExplainArgs};
use super::out::{complain, say};
use super::progress::Progress;
use super::purge::{self, EraseArgs, PurgeArgs};
use super::sample::{self, SampleArgs};
use crate::exit;
use crate::serve::build;
use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use signet_cache::Rescorer;
use signet_config::{Config, Overrides, ProcessEnv};
use signet_eval::{BadLine, EvalFault, Format, Options, PairOptions, Reader, Report, Setup, Watch, evaluate};
use signet_vector::FlatIndex;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// For a second look at candidates, in place of the configured deadline: figures must not depend on what else runs.
const PATIENCE: Duration = Duration::from_mins(10);

#[derive(Subcommand)]
pub(crate) enum CacheCommand {
    /// Measure true and false hits on labelled pairs, a stream, or one's own logs.
    Eval(EvalArgs),
    /// Say why an answer came from the cache or did not.
    Explain(ExplainArgs),
    /// Take stored answers back, on every replica.
    Purge(PurgeArgs),
    /// Print the questions that the gateway kept (semantic.question_log), for `eval` or for labelling by hand.
    Sample(SampleArgs),
    /// Destroy a tenant's keys: nothing that was stored for it can be read any more, on any replica.
    Erase(EraseArgs),
}

#[derive(Args)]
pub(crate) struct EvalArgs {
    /// JSON lines, CSV or TSV; `-` is standard input.
    file: PathBuf,
    /// What the rows are; told by the first one if not given.
    #[arg(long, value_enum)]
    format: Option<RowFormat>,
    /// Replay labelled pairs as one shuffled stream instead of judging each by itself. Streams and logs always are.
    #[arg(long)]
    replay: bool,
    /// Encoder, floor and mode come from here; without it, the shipped defaults.
    #[arg(long)]
    config: Option<PathBuf>,
    /// Ask each pair both ways round; it counts as served if one way is.
    #[arg(long)]
    both: bool,
    /// Share of questions in the traffic that a stored answer serves, for the false share among hits; the data's own if
    /// not given.
    #[arg(long, value_parser = share)]
    base_rate: Option<f64>,
    /// Wanted bound on the share of wrong answers among semantic hits, for choosing a floor from a stream.
    #[arg(long, value_parser = share, default_value = "0.01")]
    max_false_share: f64,
    /// Resamples behind the bootstrap intervals.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    bootstrap: u32,
    /// Seed of the bootstrap and of the shuffle.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; one a core if not given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1_024))]
    workers: Option<u16>,
    /// Write the figures there as JSON.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write them there as one HTML page with plots.
    #[arg(long)]
    html: Option<PathBuf>,
    /// Write there what became of each row at the floor in force, by line number, one JSON object a line.
    #[arg(long)]
    decisions: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum RowFormat {
    /// Two texts, chats or requests, and a label.
    Pairs,
    /// Texts in order of arrival, with a cluster if known.
    Stream,
    /// OpenAI request bodies or batch lines.
    Openai,
    /// LiteLLM's standard logging payload.
    Litellm,
}

impl From<RowFormat> for Format {
    fn from(format: RowFormat) -> Self {
        match format {
            RowFormat::Pairs => Self::Pairs,
            RowFormat::Stream => Self::Stream,
            RowFormat::Openai => Self::OpenAi,
            RowFormat::Litellm => Self::LiteLlm,
        }
    }
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if (0.0..=1.0).contains(&value) { Ok(value) } else { Err("not between 0 and 1".to_owned()) }
}

pub(crate) fn run(command: &CacheCommand) -> u8 {
    let (name, done) = match command {
        CacheCommand::Eval(args) => ("eval", eval(args)),
        CacheCommand::Explain(args) => ("explain", explain::run(args)),
        CacheCommand::Purge(args) => ("purge", purge::run(args)),
        CacheCommand::Sample(args) => ("sample", sample::run(args)),
        CacheCommand::Erase(args) => ("erase", purge::erase(args)),
    };
    done.unwrap_or_else(|error| {
        complain(&format!("signet cache {name}: {error:#}"));
        exit::FAILURE
    })
}

fn eval(args: &EvalArgs) -> Result<u8> {
    let config = match Config::load(args.config.as_deref(), &ProcessEnv, Overrides::default()) {
        Ok(config) => config,
        Err(problems) => {
            complain(&problems.to_string());
            return Ok(exit::CONFIG);
        }
    };
    let rescorer = match rescorer(&config) {
        Ok(rescorer) => rescorer,
        Err(error) => {
            complain(&format!("signet cache eval: {error:#}"));
            return Ok(exit::CONFIG);
        }
    };
    let input = match open(&args.file) {
        Ok(input) => input,
        Err(error) => {
            complain(&format!("signet cache eval: {}: {error}", args.file.display()));
            return Ok(exit::NO_INPUT);
        }
    };
    let reader = match Reader::open(input, args.format.map(Format::from)) {
        Ok(reader) => reader,
        Err(fault) => {
            complain(&format!("signet cache eval: {}: {fault}", args.file.display()));
            return Ok(exit::DATA);
        }
    };
    match measure(args, &config, rescorer, reader)? {
        Ok(report) => write(args, &report).map(|()| exit::OK),
        Err(fault) => {
            complain(&format!("signet cache eval: {}: {fault}", args.file.display()));
            Ok(exit::DATA)
        }
    }
}

fn open(file: &Path) -> std::io::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(std::io::stdin())));
    }
    Ok(Box::new(BufReader::with_capacity(1 << 16, File::open(file)?)))
}

/// The second look of the configuration, ready.
fn rescorer(config: &Config) -> Result<Option<Arc<dyn Rescorer>>> {
    let Some(rescoring) = build::rescoring(config, PATIENCE)? else { return Ok(None) };
    rescoring.serve(build::model(&build::model_file(config))?);
    Ok(Some(rescoring))
}

fn measure(
    args: &EvalArgs,
    config: &Config,
    rescorer: Option<Arc<dyn Rescorer>>,
    reader: Reader<Box<dyn BufRead>>,
) -> Result<Result<Report, EvalFault>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = args.workers.map_or(cores, usize::from);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(workers).enable_all().build()?;
    let setup = Setup {
        cache: build::exact_settings(config),
        semantic: build::semantic_settings(config),
        embedder: build::embedder(config)?,
        rescorer,
        index: Arc::new(|entries| Arc::new(FlatIndex::new(entries))),
    };
    let options = Options {
        replay: args.replay,
        both_ways: args.both,
        workers,
        max_false_share: args.max_false_share,
        pairs: PairOptions { rounds: args.bootstrap, seed: args.seed, base_rate: args.base_rate },
    };
    let mut watch = Told { file: &args.file, progress: Progress::new("steps") };
    Ok(runtime.block_on(evaluate(reader, &setup, &options, &mut watch)))
}

fn write(args: &EvalArgs, report: &Report) -> Result<()> {
    if let Some(file) = &args.json {
        write_file(file, &(serde_json::to_string_pretty(report)? + "\n"))?;
    }
    if let Some(file) = &args.html {
        write_file(file, &signet_eval::html(report))?;
    }
    if let Some(file) = &args.decisions {
        let lines = report.decisions.iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
        write_file(file, &(lines.join("\n") + "\n"))?;
    }
    say(&signet_eval::table(report));
    Ok(())
}

fn write_file(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

struct Told<'a> {
    file: &'a Path,
    progress: Progress,
}

impl Watch for Told<'_> {
    fn bad_line(&mut self, line: &BadLine) {
        self.progress.clear();
        complain(&format!("{}: {line}", self.file.display()));
    }

    fn step(&mut self, done: u64, of: Option<u64>) {
        self.progress.step(done, of);
    }
}
