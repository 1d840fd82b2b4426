//! What the whole process knows of each target: one board, whatever number of fleets it has.
//!
//! A target is a provider and a model's name there, since a provider may have run out of one model only. Its state is
//! behind a small lock that is held for some tens of nanoseconds a few times a request; calls under way are an atomic.

use crate::breaker::{Breaker, Change, Circuit};
use crate::error::UpstreamError;
use crate::window::{Latencies, Middle, Tally};
use http::StatusCode;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use signet_types::{Clock, ModelName, ProviderName};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// Longest that a `Retry-After` keeps calls away from a target that has others beside it.
const LIMITED_MAX: Duration = Duration::from_mins(2);
/// The same for a 429 that does not say how long.
const LIMITED_USUAL: Duration = Duration::from_secs(1);

/// A provider, and the model's name there.
type Place = (ProviderName, Option<ModelName>);

/// The state of all targets of a process. Shared by every [`crate::Fleet`].
pub struct Board {
    clock: Arc<dyn Clock>,
    members: Mutex<HashMap<Place, Arc<Member>>>,
    tiers: Mutex<HashMap<Vec<u64>, Arc<AtomicU64>>>,
    turn: AtomicU64,
}

impl Board {
    /// A board on which nothing is held against anybody. The wall clock is read for the dates of `Retry-After` alone.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, members: Mutex::default(), tiers: Mutex::default(), turn: AtomicU64::new(0) }
    }

    pub(crate) fn now_ms(&self) -> u64 {
        self.clock.now_ms()
    }

    /// The target's state. Without a model it is that of all the provider's models: where callers may name any, their
    /// names must not make state.
    pub(crate) fn member(&self, provider: &ProviderName, model: Option<&ModelName>) -> Arc<Member> {
        let mut members = self.members.lock();
        let member = members.entry((provider.clone(), model.cloned()));
        member.or_insert_with(|| Arc::new(Member::new(provider, model))).clone()
    }

    /// Which of a tier's members were outliers when it was last looked at, as bits in their order.
    pub(crate) fn outliers(&self, members: Vec<u64>) -> Arc<AtomicU64> {
        self.tiers.lock().entry(members).or_default().clone()
    }

    /// Another number for each call: spreads what has no affinity.
    pub(crate) fn turn(&self) -> u64 {
        mixed(self.turn.fetch_add(1, Ordering::Relaxed))
    }

    /// How all targets stand, by provider and model.
    pub fn standings(&self, now: Instant) -> Vec<Standing> {
        let members: Vec<_> = self.members.lock().values().cloned().collect();
        let mut standings: Vec<_> = members.iter().map(|member| member.standing(now)).collect();
        standings.sort_by(|a, b| (&a.provider, &a.model).cmp(&(&b.provider, &b.model)));
        standings
    }
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("members", &self.members.lock().len()).finish_non_exhaustive()
    }
}

/// How a target stands, for operators.
#[derive(Debug, Clone)]
pub struct Standing {
    /// The provider.
    pub provider: ProviderName,
    /// The model's name there; none where the state is that of all its models.
    pub model: Option<ModelName>,
    /// What is known of it.
    pub view: View,
    /// Attempts behind which another was made, by what was wrong with them, since the start.
    pub retries: BTreeMap<&'static str, u64>,
}

/// What decides whether a target is asked.
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// Its breaker.
    pub circuit: Circuit,
    /// It has asked for no calls until then.
    pub not_before: Option<Instant>,
    /// Calls under way, streams until their end.
    pub in_flight: u32,
    /// How the calls of the last ten seconds ended.
    pub tally: Tally,
    /// Time to first byte of the last half minute.
    pub ttft: Option<Middle>,
}

/// One target.
pub(crate) struct Member {
    provider: ProviderName,
    model: Option<ModelName>,
    /// Of its names, and so the same in every replica.
    pub(crate) id: u64,
    stray: RandomState,
    in_flight: AtomicU32,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    breaker: Breaker,
    ttft: Latencies,
    not_before: Option<Instant>,
    retries: BTreeMap<&'static str, u64>,
}

impl Member {
    fn new(provider: &ProviderName, model: Option<&ModelName>) -> Self {
        let now = Instant::now();
        let state =
            State { breaker: Breaker::new(now), ttft: Latencies::new(now), not_before: None, retries: BTreeMap::new() };
        let model_name = model.map_or("", ModelName::as_str);
        Self {
            id: digest64(b"signet/target/v1", &[provider.as_str().as_bytes(), model_name.as_bytes()]),
            provider: provider.clone(),
            model: model.cloned(),
            stray: RandomState::new(),
            in_flight: AtomicU32::new(0),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn view(&self, now: Instant) -> View {
        let state = self.state.lock();
        View {
            circuit: state.breaker.circuit(now),
            not_before: state.not_before.filter(|until| now < *until),
            in_flight: self.in_flight.load(Ordering::Relaxed),
            tally: state.breaker.tally(now),
            ttft: state.ttft.middle(now),
        }
    }

    fn standing(&self, now: Instant) -> Standing {
        let view = self.view(now);
        let retries = self.state.lock().retries.clone();
        Standing { provider: self.provider.clone(), model: self.model.clone(), view, retries }
    }

    /// Begins a call: the probe, if one is due. Where the breaker lets none through there is none, unless `insisting`.
    pub(crate) fn begin(self: &Arc<Self>, insisting: bool, now: Instant) -> Option<Permit> {
        let mut state = self.state.lock();
        let probe = state.breaker.probe(now);
        let open = !probe && state.breaker.circuit(now) != Circuit::Closed;
        drop(state);
        if open && !insisting {
            return None;
        }
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Some(Permit { member: self.clone(), probe, verdict: Verdict::None })
    }

    /// The target wants no calls for so long. A later wish does not shorten an earlier one.
    pub(crate) fn limited(&self, wait: Option<Duration>, now: Instant) {
        let until = now + wait.unwrap_or(LIMITED_USUAL).min(LIMITED_MAX);
        let mut state = self.state.lock();
        state.not_before = Some(state.not_before.map_or(until, |held| held.max(until)));
    }

    /// An attempt failed for `reason` and another is made.
    pub(crate) fn retried(&self, reason: &'static str) {
        *self.state.lock().retries.entry(reason).or_default() += 1;
    }

    fn ended(&self, probe: bool, failed: bool) {
        let now = Instant::now();
        let stray = self.stray.hash_one((self.id, now));
        let change = self.state.lock().breaker.ended(probe, failed, now, stray);
        let (provider, model) = (&self.provider, self.model.as_ref().map_or("*", ModelName::as_str));
        match change {
            Some(Change::Opened(open)) => {
                let open_ms = u64::try_from(open.as_millis()).unwrap_or(u64::MAX);
                tracing::warn!(%provider, model, open_ms, "a target fails and gets no calls while others are left");
            }
            Some(Change::Closed) => tracing::info!(%provider, model, "a target answers again"),
            None => {}
        }
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("provider", &self.provider).field("model", &self.model).finish_non_exhaustive()
    }
}

/// A call under way. What is learnt of the target is written down when it ends, however it ends; a call whose caller left
/// before the target said anything tells nothing.
#[derive(Debug)]
pub(crate) struct Permit {
    member: Arc<Member>,
    probe: bool,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    None,
    /// It has begun a good answer; a cut may still come.
    Good,
    Told,
}

impl Permit {
    /// The head of an answer came after `ttft`.
    pub(crate) fn answered(&mut self, status: StatusCode, ttft: Duration) {
        if status.is_server_error() {
            self.tell(true);
            return;
        }
        if status.is_success() {
            let now = Instant::now();
            self.member.state.lock().ttft.add(ttft, now);
        }
        if self.probe {
            self.tell(false); // it answers: that is what was asked
        } else {
            // A refusal for too many requests says nothing of how well the target works.
            self.verdict = if status == StatusCode::TOO_MANY_REQUESTS { Verdict::Told } else { Verdict::Good };
        }
    }

    /// The call failed, before the head or inside the body.
    pub(crate) fn failed(&mut self, error: &UpstreamError) {
        // Its size is a limit of ours, and no call is made of the others.
        match error {
            UpstreamError::TooLarge { .. } | UpstreamError::NoCredentials | UpstreamError::NotSpoken { .. } => {}
            _ => self.tell(true),
        }
    }

    fn tell(&mut self, failed: bool) {
        self.member.ended(std::mem::take(&mut self.probe), failed);
        self.verdict = Verdict::Told;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.member.in_flight.fetch_sub(1, Ordering::Relaxed);
        match self.verdict {
            Verdict::Good => self.tell(false),
            Verdict::None if self.probe => self.member.state.lock().breaker.unprobe(Instant::now()),
            Verdict::None | Verdict::Told => {}
        }
    }
}

/// The first 64 bits of SHA-256 over the parts, each with its length.
pub(crate) fn digest64(domain: &[u8], parts: &[&[u8]]) -> u64 {
    let mut hash = Sha256::new_with_prefix(domain);
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest: [u8; 32] = hash.finalize().into();
    u64::from_be_bytes(digest[..8].try_into().expect("eight of 32 bytes"))
}

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result hangs on every bit of `x`.
pub(crate) const fn mixed(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{ClosedWhen, ConnectCause};

    fn board() -> (Board, Arc<Member>) {
        let board = Board::new(Arc::new(signet_types::SystemClock::new()));
        let member = board.member(&"p".parse().expect("a name"), Some(&"m".parse().expect("a name")));
        (board, member)
    }

    fn permit(member: &Arc<Member>) -> Permit {
        member.begin(true, Instant::now()).expect("insisting")
    }

    fn refused() -> UpstreamError {
        UpstreamError::Connect { cause: ConnectCause::Refused, source: None }
    }

    fn circuit(member: &Member) -> Circuit {
        member.view(Instant::now()).circuit
    }

    #[tokio::test(start_paused = true)]
    async fn all_fleets_see_the_same_state_of_a_target() {
        let (board, member) = board();
        let same = board.member(&"p".parse().expect("a name"), Some(&"m".parse().expect("a name")));
        let other = board.member(&"p".parse().expect("a name"), Some(&"n".parse().expect("a name")));
        (0..5).for_each(|_| permit(&member).failed(&refused()));
        assert!(matches!(circuit(&same), Circuit::Open { .. }));
        assert_eq!(circuit(&other), Circuit::Closed, "another model of the provider");
        assert!(same.begin(false, Instant::now()).is_none());
        let standings = board.standings(Instant::now());
        assert_eq!(standings.len(), 2);
        assert_eq!(standings[0].view.tally, Tally { calls: 5, failures: 5 });
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_caller_or_a_limit_of_ours_ends_is_not_held_against_a_target() {
        let (_, member) = board();
        for _ in 0..50 {
            drop(permit(&member));
            permit(&member).failed(&UpstreamError::TooLarge { limit: 1 });
            for status in [StatusCode::BAD_REQUEST, StatusCode::TOO_MANY_REQUESTS] {
                permit(&member).answered(status, Duration::ZERO);
            }
        }
        let view = member.view(Instant::now());
        assert_eq!((view.circuit, view.tally), (Circuit::Closed, Tally { calls: 50, failures: 0 }));
        assert_eq!((view.in_flight, view.ttft), (0, None), "a quick refusal is no quick answer");
    }

    #[tokio::test(start_paused = true)]
    async fn answers_that_are_cut_open_the_breaker_although_each_began_well() {
        let (_, member) = board();
        for _ in 0..5 {
            let mut permit = permit(&member);
            permit.answered(StatusCode::OK, Duration::from_millis(3));
            permit.failed(&UpstreamError::Closed { when: ClosedWhen::MidBody, source: None });
        }
        assert!(matches!(circuit(&member), Circuit::Open { .. }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_closes_the_breaker_at_its_head_and_not_at_the_end_of_a_long_stream() {
        let (_, member) = board();
        (0..5).for_each(|_| permit(&member).answered(StatusCode::BAD_GATEWAY, Duration::ZERO));
        tokio::time::advance(Duration::from_secs(6)).await;
        let mut probe = member.begin(false, Instant::now()).expect("it is due");
        assert!(member.begin(false, Instant::now()).is_none(), "one at a time");
        probe.answered(StatusCode::OK, Duration::from_millis(3));
        assert_eq!(circuit(&member), Circuit::Closed);
        assert_eq!(member.view(Instant::now()).in_flight, 1);
        drop(probe);
        assert_eq!(member.view(Instant::now()).in_flight, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_whose_caller_leaves_is_made_again_by_the_next_call() {
        let (_, member) = board();
        (0..5).for_each(|_| permit(&member).failed(&refused()));
        tokio::time::advance(Duration::from_secs(6)).await;
        drop(member.begin(false, Instant::now()).expect("it is due"));
        assert_eq!(circuit(&member), Circuit::Due);
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_is_left_alone_for_as_long_as_it_said_but_not_for_hours() {
        let (_, member) = board();
        let until = |member: &Member| member.view(Instant::now()).not_before.map(|until| until - Instant::now());
        member.limited(Some(Duration::from_secs(7)), Instant::now());
        member.limited(None, Instant::now());
        assert_eq!(until(&member), Some(Duration::from_secs(7)), "the longer one stands");
        tokio::time::advance(Duration::from_secs(7)).await;
        assert_eq!(until(&member), None);
        member.limited(Some(Duration::from_hours(5)), Instant::now());
        assert_eq!(until(&member), Some(Duration::from_mins(2)));
        assert_eq!(circuit(&member), Circuit::Closed);
    }
}
