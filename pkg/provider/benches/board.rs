//! What the choice of a target costs a request: a plan over the board, and a call that is begun and ended. Run with
//! `cargo bench -p signet-provider --bench board`; the second figure is with another thread doing the same.

use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Version};
use signet_dialect::Api;
use signet_provider::{
    Affinity, Ask, Auth, Board, Call, Fleet, ModelRoute, ModelTarget, Provider, Reply, RequestHeaders, Timings,
    UpstreamBody, UpstreamError,
};
use signet_types::{ProviderName, SystemClock};
use std::hint::black_box;
use std::io::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

const ROUNDS: u32 = 200_000;

/// A name, how many targets, and the order of each.
type Shape = (&'static str, u32, fn(u32) -> u32);

/// Answers at once.
#[derive(Debug)]
struct Quick(ProviderName);

#[async_trait]
impl Provider for Quick {
    fn name(&self) -> &ProviderName {
        &self.0
    }

    fn base_url(&self) -> &'static str {
        "http://quick/v1"
    }

    async fn send(&self, call: Call) -> Result<Reply, UpstreamError> {
        Ok(Reply {
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            body: UpstreamBody::whole(call.body),
            timings: Timings { connect: None, ttfb: Duration::from_millis(1) },
            reused: true,
            version: Version::HTTP_11,
        })
    }
}

fn fleet(targets: u32, order: fn(u32) -> u32, board: &Arc<Board>) -> Fleet {
    let quick: Vec<Arc<dyn Provider>> = (0..targets)
        .map(|at| Arc::new(Quick(format!("p{at}").parse().expect("a name"))) as Arc<dyn Provider>)
        .collect();
    let target = |at: u32| ModelTarget {
        provider: quick[at as usize].name().clone(),
        model: "m".parse().expect("a name"),
        weight: 1,
        order: order(at),
    };
    let name = "m".parse().expect("a name");
    let route = ModelRoute { targets: (0..targets).map(target).collect(), ..ModelRoute::in_order(name, []) };
    Fleet::new(quick, vec![route], board.clone()).expect("a good configuration")
}

async fn measure(fleet: &Fleet) -> (f64, f64) {
    let route = fleet.resolve(&"m".parse().expect("a name")).expect("listed");
    let mut ask = Ask {
        method: Method::POST,
        api: Api::Chat,
        query: None,
        headers: RequestHeaders::default(),
        authorization: Auth::Provider,
        deadline: None,
        patience: None,
        affinity: Some(Affinity::of(&[b"x"])),
        trail: Arc::default(),
    };
    let each = |started: Instant| started.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);
    let started = Instant::now();
    for _ in 0..ROUNDS {
        black_box(fleet.plan(&route, (ask.api, &ask.authorization), ask.affinity, tokio::time::Instant::now()));
    }
    let plan = each(started);
    let started = Instant::now();
    for round in 0..ROUNDS {
        ask.affinity = Some(Affinity::of(&[&round.to_be_bytes()]));
        black_box(fleet.send(&route, &ask, &|_: &signet_provider::Target, _| Bytes::new()).await.expect("an answer"));
    }
    (plan, each(started))
}

fn run(fleet: &Fleet) -> (f64, f64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure(fleet))
}

fn main() {
    let shapes: [Shape; 4] = [
        ("1 target", 1, |_| 0),
        ("2 in order", 2, |at| at),
        ("2 of one order", 2, |_| 0),
        ("8 of one order", 8, |_| 0),
    ];
    for (shape, targets, order) in shapes {
        let board = Arc::new(Board::new(Arc::new(SystemClock::new())));
        let alone = run(&fleet(targets, order, &board));
        let beside = fleet(targets, order, &board);
        let both = std::thread::scope(|scope| {
            let other = scope.spawn(|| run(&beside));
            let own = run(&fleet(targets, order, &board));
            other.join().expect("no panic");
            own
        });
        let line = format!(
            "{shape:<15} plan {:>6.0} ns, whole call {:>6.0} ns; beside another thread {:>6.0} and {:>6.0} ns",
            alone.0, alone.1, both.0, both.1
        );
        writeln!(std::io::stdout(), "{line}").expect("somebody reads it");
    }
}
