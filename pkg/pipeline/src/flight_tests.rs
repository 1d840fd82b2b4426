use super::*;
use crate::landing::{Answered, Closing, Missed, Streamed};
use bytes::Bytes;
use proptest::prelude::*;
use signet_cache::{Partition, PartitionParts};
use signet_dialect::Api;
use signet_dialect::Reading;
use signet_dialect::sse::Kind;
use signet_lineage::Outcome;
use signet_types::{LineageId, LogId, TenantId};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

const PACE: Pace = Pace { buffer_bytes: 6, total_bytes: 1 << 20, slow_after: Duration::from_millis(500) };

fn key(text: &str) -> FlightKey {
    let parts = PartitionParts {
        tenant: TenantId::from_bytes([0; 16]),
        namespace: "",
        operation: "chat",
        targets: [0; 32],
        policy_generation: 0,
        shape: [0; 32],
    };
    (CacheKey::derive(&Partition::derive(&parts), text.as_bytes()), false)
}

fn source() -> Source {
    Source {
        id: LineageId::generate(1),
        log: LogId::generate(1),
        epoch: 1,
        seq: 4,
        leaf_hash: [1; 32],
        response_fp: [2; 16],
        key_epoch: 1,
    }
}

fn head() -> Arc<StreamHead> {
    Arc::new(StreamHead {
        headers: http::HeaderMap::new(),
        tier: 0,
        api: Api::Chat,
        provider: "p".parse().expect("a name"),
        attempts: Vec::new(),
        ttfb: Duration::ZERO,
        sent_body: None,
    })
}

fn landed(outcome: Result<Answered, Missed>) -> Fed {
    Fed::End(Arc::new(Landed {
        outcome,
        provider: "p".parse().expect("a name"),
        attempts: Vec::new(),
        api: Api::Chat,
        total: Duration::ZERO,
        sent_body: None,
        asked_stream: true,
        large: Mutex::default(),
    }))
}

fn stream_end(closing: Closing) -> Fed {
    let (reading, rest) = (Reading::default(), Mutex::default());
    let streamed = Streamed { head: head(), closing, reading, usage: None, failed: false, rest };
    landed(Ok(Answered::Stream(Box::new(streamed))))
}

fn run(text: &str) -> Fed {
    Fed::Run(Run { raw: Bytes::copy_from_slice(text.as_bytes()), kind: Kind::Ordinary, events: 1 })
}

/// A call whose events a test brings.
#[derive(Default)]
struct Script {
    coming: VecDeque<Fed>,
    waker: Option<Waker>,
    has_head: bool,
    sent: String,
    ended: bool,
    cancelled: bool,
    records: usize,
}

impl Script {
    fn goes_on(&self) -> bool {
        !self.ended && !self.cancelled
    }
}

type Scripted = Arc<Mutex<Script>>;

struct Play(Scripted);

impl Feed for Play {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fed> {
        let mut script = self.0.lock();
        let next = script.coming.pop_front();
        if next.is_none() {
            // Only the newest waker is kept, as a socket does.
            script.waker = Some(cx.waker().clone());
        }
        next.map_or(Poll::Pending, Poll::Ready)
    }

    fn usage(&self) -> Option<Usage> {
        None
    }
}

impl Drop for Play {
    fn drop(&mut self) {
        let mut script = self.0.lock();
        script.cancelled = !script.ended;
    }
}

fn bring(script: &Scripted, fed: Vec<Fed>) {
    let waker = {
        let mut script = script.lock();
        script.coming.extend(fed);
        script.waker.take()
    };
    if let Some(waker) = waker {
        waker.wake();
    }
}

fn send(script: &Scripted, text: &str) {
    let begins = !std::mem::replace(&mut script.lock().has_head, true);
    script.lock().sent.push_str(text);
    bring(script, begins.then(|| Fed::Head(head())).into_iter().chain([run(text)]).collect());
}

fn end(script: &Scripted, cut: bool) {
    let streams = {
        let mut script = script.lock();
        script.ended = true;
        script.has_head
    };
    let closing = if cut { Closing::Broken(Outcome::UpstreamError, "cut".into()) } else { Closing::Whole(None) };
    bring(script, vec![if streams { stream_end(closing) } else { landed(Err(Missed::Unopened)) }]);
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Ended,
    TooSlow,
}

/// A caller whose task runs only when it is woken, and whose server stops polling while its socket is full.
#[expect(clippy::struct_excessive_bools, reason = "what has happened to it, each by itself")]
struct Caller {
    seat: Option<Seat>,
    call: usize,
    json: bool,
    has_head: bool,
    got: String,
    /// Runs that fit into its socket.
    room: usize,
    /// Its task does not run, woken or not.
    stopped: bool,
    has_waited: bool,
    knows_it_leads: bool,
    over: Option<Over>,
    woken: Arc<Flag>,
}

impl Caller {
    fn is_blocked(&self) -> bool {
        self.stopped || (!self.json && self.has_head && self.room == 0)
    }

    /// One poll by the server, if there is a reason for one.
    fn poll(&mut self, script: &Scripted) {
        if self.over.is_some() || self.is_blocked() || !self.woken.0.swap(false, Ordering::SeqCst) {
            return;
        }
        let Some(seat) = &self.seat else { return };
        let waker = Waker::from(self.woken.clone());
        let want = if self.json {
            Want::End
        } else if self.has_head {
            Want::Run
        } else {
            Want::Head
        };
        let Poll::Ready(step) = seat.poll(want, &mut Context::from_waker(&waker)) else { return };
        self.woken.0.store(true, Ordering::SeqCst);
        match step {
            Step::Head(_) => self.has_head = true,
            Step::Run(run) => {
                self.got.push_str(std::str::from_utf8(&run.raw).expect("text"));
                self.room -= 1;
                self.has_waited |= self.room == 0;
            }
            Step::Promoted => self.knows_it_leads = true,
            Step::TooSlow => (self.over, self.seat) = (Some(Over::TooSlow), None),
            Step::End(_) => {
                let first = seat.attest(|record| record.replace(source()).is_none());
                script.lock().records += usize::from(first);
                (self.over, self.seat) = (Some(Over::Ended), None);
            }
        }
    }
}

struct World {
    flights: Arc<Flights>,
    calls: Vec<Scripted>,
    callers: Vec<Caller>,
}

impl World {
    fn new(pace: Pace) -> Self {
        Self { flights: Arc::new(Flights::new(pace)), calls: Vec::new(), callers: Vec::new() }
    }

    fn join(&mut self, json: bool) -> usize {
        let calls = &mut self.calls;
        let depart = || {
            let script = Scripted::default();
            calls.push(script.clone());
            Ok(Box::new(Play(script)) as Box<dyn Feed>)
        };
        let seat = self.flights.join(key("a"), !json, depart).expect("the call departs");
        self.callers.push(Caller {
            knows_it_leads: seat.leads,
            seat: Some(seat),
            call: self.calls.len() - 1,
            json,
            has_head: false,
            got: String::new(),
            room: 2,
            stopped: false,
            has_waited: false,
            over: None,
            woken: Arc::new(Flag(AtomicBool::new(true))),
        });
        self.callers.len() - 1
    }

    fn poll(&mut self, caller: usize) {
        let caller = &mut self.callers[caller];
        caller.poll(&self.calls[caller.call]);
    }

    fn drain(&mut self, caller: usize, room: usize) {
        self.callers[caller].room += room;
        self.callers[caller].stopped = false;
        self.callers[caller].woken.0.store(true, Ordering::SeqCst);
    }

    fn stop(&mut self, caller: usize) {
        let caller = &mut self.callers[caller];
        (caller.stopped, caller.has_waited) = (true, true);
    }

    fn leave(&mut self, caller: usize) {
        self.callers[caller].seat = None;
    }

    fn present(&self) -> impl Iterator<Item = &Caller> {
        self.callers.iter().filter(|caller| caller.seat.is_some())
    }

    /// Runs all who are woken until nobody is.
    fn quiet(&mut self) {
        while self
            .callers
            .iter()
            .any(|caller| caller.seat.is_some() && !caller.is_blocked() && caller.woken.0.load(Ordering::SeqCst))
        {
            (0..self.callers.len()).for_each(|caller| self.poll(caller));
        }
    }

    /// The same until time brings nothing more either.
    async fn settle(&mut self) {
        for _ in 0..3 {
            self.quiet();
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        self.quiet();
    }

    fn check(&self) {
        for caller in &self.callers {
            let script = self.calls[caller.call].lock();
            assert!(script.sent.starts_with(&caller.got), "{:?} is not how {:?} begins", caller.got, script.sent);
            if caller.over == Some(Over::Ended) && !caller.json {
                assert_eq!(caller.got, script.sent, "an end means that all has been had");
            }
            assert!(caller.over != Some(Over::TooSlow) || caller.has_waited, "whoever reads is not given up");
            assert!(script.records <= 1, "one record stands for a call");
        }
        for (number, script) in self.calls.iter().enumerate() {
            let anyone = self.present().any(|caller| caller.call == number);
            let script = script.lock();
            assert_eq!(script.cancelled, !anyone && !script.ended, "cancelled when the last has left, and not before");
        }
    }

    /// What holds when all who can run have run.
    fn check_settled(&self) {
        self.check();
        for caller in self.present().filter(|caller| !caller.is_blocked()) {
            let script = self.calls[caller.call].lock();
            assert!(!script.ended, "the end has come and a caller still waits: its wake was lost");
            assert!(caller.json || caller.got == script.sent, "{:?} of {:?}: a wake was lost", caller.got, script.sent);
        }
        for number in 0..self.calls.len() {
            let oldest = self.present().find(|caller| caller.call == number);
            let told = oldest.is_none_or(|oldest| oldest.knows_it_leads || oldest.is_blocked());
            assert!(told || self.calls[number].lock().ended, "nobody stands for a call that goes on");
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Join { json: bool },
    Poll(usize),
    Drain(usize),
    Stop(usize),
    Leave(usize),
    Chunk(usize),
    End { call: usize, cut: bool },
    Settle,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        3 => any::<bool>().prop_map(|json| Act::Join { json }),
        8 => (0..8_usize).prop_map(Act::Poll),
        4 => (0..8_usize).prop_map(Act::Drain),
        1 => (0..8_usize).prop_map(Act::Stop),
        1 => (0..8_usize).prop_map(Act::Leave),
        6 => (0..3_usize).prop_map(Act::Chunk),
        1 => (0..3_usize, any::<bool>()).prop_map(|(call, cut)| Act::End { call, cut }),
        2 => Just(Act::Settle),
    ]
}

async fn play(acts: Vec<Act>) {
    let mut world = World::new(PACE);
    for act in acts {
        let (callers, calls) = (world.callers.len(), world.calls.len());
        match act {
            Act::Join { json } if world.present().count() < 3 => {
                let before = calls;
                let open = world.calls.last().is_some_and(|script| {
                    let script = script.lock();
                    let whole = script.sent.len() <= PACE.buffer_bytes || json;
                    let held = world.callers.iter().any(|c| c.seat.is_some() && c.call + 1 == before);
                    held && whole && !script.ended
                });
                world.join(json);
                // What has come and was not polled yet, and an end that was not seen, may make a call that looks closed or
                // over joinable still: one call too few is never seen, one too many neither where it is open.
                assert!(!open || world.calls.len() == before, "an open call is joined");
            }
            Act::Poll(at) if callers > 0 => world.poll(at % callers),
            Act::Drain(at) if callers > 0 => world.drain(at % callers, 1 + at % 3),
            Act::Stop(at) if callers > 0 => world.stop(at % callers),
            Act::Leave(at) if callers > 0 => world.leave(at % callers),
            Act::Chunk(at) if calls > 0 && world.calls[at % calls].lock().goes_on() => {
                send(&world.calls[at % calls], &calls.to_string());
            }
            Act::End { call, cut } if calls > 0 && world.calls[call % calls].lock().goes_on() => {
                end(&world.calls[call % calls], cut);
            }
            Act::Settle => {
                world.settle().await;
                world.check_settled();
            }
            _ => {}
        }
        world.check();
    }
    for caller in 0..world.callers.len() {
        world.drain(caller, 1000);
    }
    world.settle().await;
    world.check_settled();
    let open: Vec<_> = world.calls.iter().filter(|script| script.lock().goes_on()).cloned().collect();
    for script in &open {
        end(script, false);
    }
    world.settle().await;
    world.check_settled();
    assert_eq!(world.present().count(), 0, "everyone has an end");
    for (number, script) in world.calls.iter().enumerate() {
        let had = world.callers.iter().any(|caller| caller.call == number && caller.over == Some(Over::Ended));
        assert_eq!(script.lock().records, usize::from(had), "one record stands for a call that anyone saw end");
    }
    assert_eq!(world.flights.under_way(), 0, "the table is empty");
    assert_eq!(world.flights.held.load(Ordering::SeqCst), 0, "nothing is kept");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn however_callers_come_read_stall_and_leave_each_has_a_prefix_and_no_wake_is_lost(
        acts in prop::collection::vec(act(), 1..80),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        // All callers run in one task here, which must not be taken for one that keeps others from running.
        runtime.expect("a runtime").block_on(tokio::task::coop::unconstrained(play(acts)));
    }
}

fn two(pace: Pace) -> (World, Scripted) {
    let mut world = World::new(pace);
    world.join(false);
    world.join(false);
    let script = world.calls[0].clone();
    (world, script)
}

#[test]
fn overlapping_requests_share_one_call_and_a_later_one_makes_its_own() {
    let (mut world, script) = two(PACE);
    send(&script, "a");
    world.quiet();
    let late = world.join(false);
    end(&script, false);
    world.quiet();
    assert_eq!(
        (world.calls.len(), world.callers[late].got.as_str(), world.callers[late].over),
        (1, "a", Some(Over::Ended))
    );
    world.join(false);
    assert_eq!(world.calls.len(), 2, "an answer that has its record is in the cache");
}

#[test]
fn nobody_joins_a_call_that_has_failed_or_whose_beginning_is_gone() {
    let (mut world, script) = two(PACE);
    end(&script, true);
    world.poll(0);
    world.join(false);
    assert_eq!(world.calls.len(), 2, "it has failed");
    let script = world.calls[1].clone();
    (0..8).for_each(|_| send(&script, "x"));
    world.drain(2, 100);
    world.quiet();
    world.join(true);
    assert_eq!(world.calls.len(), 2, "who wants JSON needs no beginning");
    world.join(false);
    assert_eq!(world.calls.len(), 3, "the bound is passed");
}

#[test]
fn different_requests_and_those_that_share_nothing_do_not_meet() {
    let flights = Arc::new(Flights::new(PACE));
    let feed = || Ok(Box::new(Play(Scripted::default())) as Box<dyn Feed>);
    let (one, other) = (flights.join(key("a"), true, feed), flights.join(key("b"), true, feed));
    let alone = flights.alone(true, Box::new(Play(Scripted::default())));
    assert!(one.expect("departs").leads && other.expect("departs").leads && alone.leads);
    drop(alone);
    assert_eq!(flights.under_way(), 0);
}

#[test]
fn a_call_that_cannot_be_made_known_is_not_made() {
    let flights = Arc::new(Flights::new(PACE));
    assert!(flights.join(key("a"), true, || Err(Fault::LineageUnavailable)).is_err());
    assert_eq!(flights.under_way(), 0);
}

#[test]
fn who_leaves_last_accounts_for_the_call_and_whoever_leaves_before_does_not() {
    let (mut world, _) = two(PACE);
    let leave = |world: &mut World, at: usize| world.callers[at].seat.take().expect("present").leave();
    assert_eq!(leave(&mut world, 0), Left::OthersAccount);
    assert_eq!(leave(&mut world, 1), Left::Accounts(None));
    assert!(world.calls[0].lock().cancelled);
}

#[test]
fn the_leader_goes_first_and_the_others_name_it() {
    let (mut world, script) = two(PACE);
    send(&script, "a");
    end(&script, false);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        (0..9).for_each(|_| world.poll(1));
        assert_eq!((world.callers[1].got.as_str(), world.callers[1].over), ("a", None), "it waits for its leader");
        world.quiet();
        assert!(world.callers.iter().all(|caller| caller.over == Some(Over::Ended)));
        let (mut world, script) = two(PACE);
        send(&script, "a");
        end(&script, false);
        (0..9).for_each(|_| world.poll(1));
        tokio::time::advance(TURN).await;
        (0..9).for_each(|_| world.poll(1));
        assert_eq!(world.callers[1].over, Some(Over::Ended), "but not for long");
    });
}

#[test]
fn a_reader_beyond_the_bound_is_given_up_after_its_time_and_the_others_go_on() {
    let (mut world, script) = two(PACE);
    world.drain(0, 100);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    runtime.expect("a runtime").block_on(async {
        (0..12).for_each(|_| send(&script, "x"));
        world.quiet();
        // The other one has room for two: it holds the call at the bound behind that.
        assert_eq!((world.callers[0].got.len(), world.callers[1].got.len()), (8, 2));
        tokio::time::advance(PACE.slow_after / 2).await;
        world.drain(1, 1);
        world.quiet();
        assert_eq!(world.callers[0].got.len(), 9, "who moves has its time again");
        tokio::time::advance(PACE.slow_after / 2).await;
        world.quiet();
        assert_eq!(world.callers[0].got.len(), 9);
        tokio::time::advance(PACE.slow_after / 2).await;
        world.quiet();
        assert_eq!(world.callers[0].got.len(), 12);
        world.drain(1, 1);
        world.quiet();
        assert_eq!((world.callers[1].over, world.callers[1].got.len()), (Some(Over::TooSlow), 3));
    });
}
