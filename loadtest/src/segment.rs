//! One side under load for a stretch of requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use crate::check::{self, Verdict};
use crate::client::{Client, Failure};
use crate::prompts::{Question, Questions};
use crate::stats::{Part, Tally, since};
use crate::target::Target;

/// What is asked and how it is judged.
pub(crate) struct Plan {
    pub(crate) questions: Questions,
    /// Where they go, with the headers that steer the mock.
    pub(crate) target: Target,
    pub(crate) stream: bool,
    /// Ask the first so many questions over and over; `None` asks every question once.
    pub(crate) repeat: Option<u64>,
    /// What `X-Cache` has to be where it is sent at all: a hit among misses would flatter the figures.
    pub(crate) cache: &'static str,
    pub(crate) timeout: Duration,
    pub(crate) keep_ids: bool,
    /// Its headers tell the mock how to answer.
    pub(crate) steers_mock: bool,
    /// Answers are padded to so many bytes of text.
    pub(crate) answer_bytes: usize,
    pub(crate) refusal: Refusal,
}

/// What a 503 that says when to come back is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A failure like any other.
    Failure,
    /// Counted by itself: the gateway has enough to do.
    Counted,
}

/// Which requests of the plan, and when they are due.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// Requests a second in an open loop; `None` sends as soon as the last answer is there.
    pub(crate) rate: Option<f64>,
}

/// Hands out due request numbers.
///
/// In an open loop a thread lets requests go at their times, and latency counts from there whether or not a connection
/// was free: a slow answer makes the next ones late and is not omitted. The thread sleeps more exactly than tokio's
/// timer, whose step is a millisecond.
struct Schedule {
    next: AtomicU64,
    stretch: Stretch,
    start: Instant,
    due: Arc<Semaphore>,
}

impl Schedule {
    fn new(stretch: Stretch, workers: usize) -> Self {
        let schedule =
            Self { next: AtomicU64::new(0), stretch, start: Instant::now(), due: Arc::new(Semaphore::new(0)) };
        if let Some(rate) = stretch.rate {
            let (due, start) = (Arc::clone(&schedule.due), schedule.start);
            std::thread::spawn(move || {
                for number in 0..stretch.count {
                    std::thread::sleep(due_at(start, number, rate).saturating_duration_since(Instant::now()));
                    due.add_permits(1);
                }
                due.add_permits(workers); // each worker has to see the end
            });
        }
        schedule
    }

    /// The next request of the stretch and when it was to start; `None` at the end.
    async fn take(&self) -> Option<(u64, Instant)> {
        if self.stretch.rate.is_some() {
            self.due.acquire().await.expect("the semaphore is never closed").forget();
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let start = match self.stretch.rate {
            _ if number >= self.stretch.count => return None,
            Some(rate) => due_at(self.start, number, rate),
            None => Instant::now(),
        };
        Some((self.stretch.first + number, start))
    }
}

fn due_at(start: Instant, number: u64, rate: f64) -> Instant {
    start + Duration::from_secs_f64(number as f64 / rate)
}

/// Runs a stretch over the given connections, which it gives back.
pub(crate) async fn run(plan: &Arc<Plan>, clients: Vec<Client>, stretch: Stretch) -> (Tally, Vec<String>, Vec<Client>) {
    let schedule = Arc::new(Schedule::new(stretch, clients.len()));
    let start = Instant::now();
    let workers: Vec<_> =
        clients.into_iter().map(|client| tokio::spawn(work(Arc::clone(plan), Arc::clone(&schedule), client))).collect();
    let mut done = Vec::with_capacity(workers.len());
    for worker in workers {
        done.push(worker.await.expect("a worker does not panic"));
    }
    let mut tally = Tally::new();
    tally.took(start.elapsed());
    let (mut ids, mut clients) = (Vec::new(), Vec::with_capacity(done.len()));
    for (mut part, mut client) in done {
        part.gaps = std::mem::take(&mut client.arrivals.gaps);
        tally.add(&part);
        tally.reconnects += std::mem::take(&mut client.reconnects);
        ids.append(&mut part.ids);
        clients.push(client);
    }
    (tally, ids, clients)
}

async fn work(plan: Arc<Plan>, schedule: Arc<Schedule>, mut client: Client) -> (Part, Client) {
    let mut part = Part::default();
    let mut question = plan.questions.scratch();
    while let Some((number, start)) = schedule.take().await {
        plan.questions.write(plan.repeat.map_or(number, |set| number % set), &mut question);
        let asked = tokio::time::timeout(plan.timeout, client.ask(&question)).await;
        let end = Instant::now();
        if plan.refusal == Refusal::Counted && matches!(asked, Ok(Ok(()))) && is_refusal(&client) {
            part.refusals.push(since(start, end));
            continue;
        }
        match judge(&plan, asked, &client, &question, &mut part) {
            Ok(()) => {
                part.latency.push(since(start, end));
                part.ttft.extend(client.arrivals.first.map(|first| since(start, first)));
            }
            Err(code) => part.error(code),
        }
    }
    (part, client)
}

/// Whether it is the refusal of a gateway that has enough to do.
fn is_refusal(client: &Client) -> bool {
    let later = client.parser.header("retry-after").and_then(|seconds| seconds.parse::<u32>().ok());
    client.parser.status() == 503 && later.is_some_and(|seconds| seconds > 0)
}

type Asked = Result<Result<(), Failure>, tokio::time::error::Elapsed>;

/// Says what is wrong with an answer, in a few words that can be counted.
fn judge(plan: &Plan, asked: Asked, client: &Client, question: &Question, part: &mut Part) -> Result<(), String> {
    match asked {
        Err(_) => return Err("timeout".to_owned()),
        Ok(Err(failure)) => return Err(failure.to_string()),
        Ok(Ok(())) => {}
    }
    let answer = &client.parser;
    if answer.status() != 200 {
        return Err(format!("status {}", answer.status()));
    }
    let judge = if plan.stream { check::stream } else { check::json };
    match judge(answer.body(), question.prompt(), plan.answer_bytes) {
        Verdict::Wrong => return Err("wrong answer".to_owned()),
        Verdict::SameText => part.rewritten += 1,
        Verdict::Same => {}
    }
    if plan.keep_ids
        && let Some(id) = answer.header("lineage-id")
    {
        let receipt = answer.header("lineage-receipt").unwrap_or("");
        part.ids.push(format!("{id} {receipt}").trim_end().to_owned());
    }
    let Some(cache) = answer.header("x-cache") else { return Ok(()) };
    match part.x_cache.get_mut(cache) {
        Some(count) => *count += 1,
        None => _ = part.x_cache.insert(cache.to_owned(), 1),
    }
    if cache == plan.cache { Ok(()) } else { Err(format!("X-Cache {cache} in a run of {}", plan.cache)) }
}
