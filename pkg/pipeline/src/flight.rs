//! Single-flight: identical misses that overlap share one upstream call, whether they want JSON or a stream.
//!
//! The call belongs to the flight, not to the caller that started it: whoever waits drives it, with a waker that wakes all.
//! So a participant that leaves only stops waiting, and when the last one leaves, the call is dropped and so cancelled. No
//! task is spawned and nothing is handed over but the duty to leave a record: the oldest who stays is told to write OPEN.
//!
//! A stream is kept on a [`Tape`]; each reader has its own place on it. The call is read ahead of the slowest reader by at
//! most the tape's bound. Then it rests, and readers who are still that far behind after [`Pace::slow_after`] are given up.
//!
//! The participant that ends first writes the record that the others name as their parent. Of a stream the leader goes
//! first unless it does not read: its head said `MISS`, and the record that bears the bill should say so too.
//!
//! Locks: a shard of the table, then a flight's state, then the waiting; never the other way round.

use crate::fan::FanOut;
use crate::fault::Fault;
use crate::landing::{Landed, StreamHead};
use crate::tape::{Bounds, Tape};
use parking_lot::Mutex;
use signet_cache::{CacheKey, Source};
use signet_dialect::Usage;
use signet_dialect::sse::Run;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake as _, Waker, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

const SHARDS: usize = 16;
/// How long the end of a stream waits for its leader to go first, once for all who wait.
const TURN: Duration = Duration::from_millis(200);

/// What is asked for: the exact key, and whether the provider is asked for usage where that is up to the caller.
pub(crate) type FlightKey = (CacheKey, bool);

type Shard = Mutex<HashMap<FlightKey, Weak<Flight>, ahash::RandomState>>;

/// How far and how long participants may be behind.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Most bytes of a stream that are kept for joiners and slow readers.
    pub buffer_bytes: usize,
    /// The same for all streams together.
    pub total_bytes: usize,
    /// How long a reader may hold the others up.
    pub slow_after: Duration,
}

/// Where a flight's events come from.
pub(crate) trait Feed: Send {
    /// The next event. After [`Fed::End`] it is asked no more; dropping it before cancels the call.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Fed>;

    /// What the provider counted so far.
    fn usage(&self) -> Option<Usage>;
}

/// What happens in a flight.
pub(crate) enum Fed {
    /// It is a stream; at most once, before any run.
    Head(Arc<StreamHead>),
    /// A part of the stream.
    Run(Run),
    /// It is over.
    End(Arc<Landed>),
}

/// Flights under way.
pub(crate) struct Flights {
    shards: [Shard; SHARDS],
    pace: Pace,
    held: Arc<AtomicUsize>,
}

/// One upstream call and its record.
struct Flight {
    state: Mutex<State>,
    fan: Arc<FanOut>,
    /// Of `fan`.
    waker: Waker,
    record: Mutex<Option<Source>>,
}

struct State {
    /// None once it has ended.
    feed: Option<Box<dyn Feed>>,
    head: Option<Arc<StreamHead>>,
    tape: Tape,
    end: Option<Arc<Landed>>,
    /// By place.
    seats: Vec<Option<Place>>,
    boarded: u64,
    pace: Pace,
    /// Runs while the call rests for a slow reader.
    stall: Option<Pin<Box<Sleep>>>,
    /// Runs while the end waits for the leader.
    turn: Option<Pin<Box<Sleep>>>,
    /// The end waits for nobody any more.
    turned: bool,
}

/// A participant, as the flight knows it.
#[derive(Debug, Clone, Copy)]
struct Place {
    order: u64,
    leads: bool,
    /// It has become the leader and has not been told yet.
    promoted: bool,
    /// The run it takes next; none for one who waits for the end only.
    cursor: Option<u64>,
    /// Bytes of the stream that it has had.
    had: u64,
    /// Since when the call cannot go on for it.
    behind_since: Option<Instant>,
    given_up: bool,
}

/// A place in a flight; dropping it leaves.
pub(crate) struct Seat {
    flights: Arc<Flights>,
    /// None for a flight that nobody else may join.
    key: Option<FlightKey>,
    /// Present until drop.
    flight: Option<Arc<Flight>>,
    place: usize,
    /// Whether this participant started the call.
    pub(crate) leads: bool,
}

/// What remains to be said of a call for a participant that has left before its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Left {
    /// Others go on with the call, or have said it.
    OthersAccount,
    /// It was the last: the call is over. The provider's counts so far, if there are any.
    Accounts(Option<Usage>),
}

/// What a participant waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// The head of a stream, or the end of what is none.
    Head,
    /// The next run, or the end.
    Run,
    /// The end.
    End,
}

/// What a participant gets.
pub(crate) enum Step {
    /// See [`Want::Head`].
    Head(Arc<StreamHead>),
    /// See [`Want::Run`].
    Run(Run),
    /// The call is over, and this participant has had all of it.
    End(Arc<Landed>),
    /// Whoever stood for the call has left: from now on it is this participant, once.
    Promoted,
    /// It read too slowly; the flight goes on without it.
    TooSlow,
}

impl Flights {
    pub(crate) fn new(pace: Pace) -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()), pace, held: Arc::default() }
    }

    /// Joins the flight of `key`, or starts it with `depart`, which runs before anyone can poll the call. `reads`: the
    /// participant will take the runs of a stream.
    pub(crate) fn join(
        self: &Arc<Self>,
        key: FlightKey,
        reads: bool,
        depart: impl FnOnce() -> Result<Box<dyn Feed>, Fault>,
    ) -> Result<Seat, Fault> {
        let mut shard = self.shard(&key).lock();
        let flying = shard.get(&key).and_then(Weak::upgrade);
        if let Some((flight, place)) = flying.and_then(|flight| flight.board(reads).map(|place| (flight, place))) {
            drop(shard);
            return Ok(self.seat(Some(key), flight, place, false));
        }
        let (flight, place) = self.started(Tape::new, depart()?, reads);
        shard.insert(key, Arc::downgrade(&flight));
        drop(shard);
        Ok(self.seat(Some(key), flight, place, true))
    }

    /// A flight that nobody else joins.
    pub(crate) fn alone(self: &Arc<Self>, reads: bool, feed: Box<dyn Feed>) -> Seat {
        let (flight, place) = self.started(Tape::unshared, feed, reads);
        self.seat(None, flight, place, true)
    }

    fn started(&self, tape: fn(Bounds) -> Tape, feed: Box<dyn Feed>, reads: bool) -> (Arc<Flight>, usize) {
        let bounds =
            Bounds { tape: self.pace.buffer_bytes, total: self.pace.total_bytes, held: Arc::clone(&self.held) };
        let flight = Arc::new(Flight::new(feed, tape(bounds), self.pace));
        let place = flight.state.lock().board(reads);
        (flight, place)
    }

    fn seat(self: &Arc<Self>, key: Option<FlightKey>, flight: Arc<Flight>, place: usize, leads: bool) -> Seat {
        Seat { flights: self.clone(), key, flight: Some(flight), place, leads }
    }

    fn shard(&self, key: &FlightKey) -> &Shard {
        &self.shards[usize::from(key.0.as_bytes()[0]) % SHARDS]
    }

    #[cfg(test)]
    fn under_way(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

impl Flight {
    fn new(feed: Box<dyn Feed>, tape: Tape, pace: Pace) -> Self {
        let fan = Arc::<FanOut>::default();
        let state = State {
            feed: Some(feed),
            head: None,
            tape,
            end: None,
            seats: Vec::with_capacity(1),
            boarded: 0,
            pace,
            stall: None,
            turn: None,
            turned: false,
        };
        Self { state: Mutex::new(state), waker: Waker::from(fan.clone()), fan, record: Mutex::default() }
    }

    /// A place for one more; none if it could not be given a whole answer.
    fn board(&self, reads: bool) -> Option<usize> {
        let mut state = self.state.lock();
        let failed = state.end.as_ref().is_some_and(|end| end.failed());
        (!failed && (state.tape.is_whole() || !reads)).then(|| state.board(reads))
    }

    fn poll(&self, place: usize, want: Want, cx: &mut Context<'_>) -> Poll<Step> {
        // Before looking, so that what happens behind the look is heard of.
        self.fan.register(place, cx.waker());
        let mut happened = false;
        let mut state = self.state.lock();
        let step = loop {
            match state.poll_own(place, want, &self.waker, &mut happened) {
                Poll::Ready(Some(step)) => break Poll::Ready(step),
                Poll::Ready(None) => {}
                Poll::Pending => break Poll::Pending,
            }
            match state.poll_feed(&self.waker) {
                Poll::Ready(()) => happened = true,
                Poll::Pending => break Poll::Pending,
            }
        };
        drop(state);
        if happened {
            self.fan.wake_others(place);
        }
        step
    }
}

impl Place {
    fn reads(&self) -> bool {
        self.cursor.is_some() && !self.given_up
    }
}

impl State {
    fn board(&mut self, reads: bool) -> usize {
        let (order, leads) = (self.boarded, self.boarded == 0);
        self.boarded += 1;
        let cursor = reads.then_some(0);
        let taken = Place { order, leads, promoted: false, cursor, had: 0, behind_since: None, given_up: false };
        let free = self.seats.iter().position(Option::is_none);
        let place = free.unwrap_or(self.seats.len());
        if free.is_none() {
            self.seats.push(None);
        }
        self.seats[place] = Some(taken);
        place
    }

    /// What there is for the participant at `place`; ready with none if the call has to go on first.
    fn poll_own(&mut self, place: usize, want: Want, waker: &Waker, happened: &mut bool) -> Poll<Option<Step>> {
        let seat = self.seats[place].as_mut().expect("a place is kept until its participant leaves");
        if std::mem::take(&mut seat.promoted) {
            return Poll::Ready(Some(Step::Promoted));
        }
        if seat.given_up {
            return Poll::Ready(Some(Step::TooSlow));
        }
        match (want, &self.head) {
            (Want::Head, Some(head)) => return Poll::Ready(Some(Step::Head(head.clone()))),
            (Want::Run, _) => {
                if let Some(run) = seat.cursor.and_then(|cursor| self.tape.run(cursor)).cloned() {
                    seat.cursor = seat.cursor.map(|cursor| cursor + 1);
                    seat.had += run.raw.len() as u64;
                    if seat.behind_since.is_some() && self.tape.came() - seat.had < self.pace.buffer_bytes as u64 {
                        // Those who wait for this reader may go on.
                        (seat.behind_since, *happened) = (None, true);
                    }
                    self.trim();
                    return Poll::Ready(Some(Step::Run(run)));
                }
            }
            (Want::Head | Want::End, _) => {}
        }
        let Some(end) = self.end.clone() else { return Poll::Ready(None) };
        if end.is_stream() {
            ready!(self.poll_turn(place, waker, happened));
        }
        Poll::Ready(Some(Step::End(end)))
    }

    /// Whether the participant at `place` may take the end of a stream now.
    fn poll_turn(&mut self, place: usize, waker: &Waker, happened: &mut bool) -> Poll<()> {
        let own = self.seats[place].is_some_and(|seat| seat.leads);
        let leader = self.seats.iter().flatten().find(|seat| seat.leads);
        if own || self.turned || leader.is_none_or(|leader| leader.given_up) {
            return Poll::Ready(());
        }
        let turn = self.turn.get_or_insert_with(|| Box::pin(sleep(TURN)));
        ready!(turn.as_mut().poll(&mut Context::from_waker(waker)));
        (self.turned, *happened) = (true, true);
        Poll::Ready(())
    }

    /// Lets the call go on, unless it rests for a slow reader.
    fn poll_feed(&mut self, waker: &Waker) -> Poll<()> {
        let cx = &mut Context::from_waker(waker);
        while let Some(until) = self.stalled_until() {
            let stall = self.stall.get_or_insert_with(|| Box::pin(sleep_until(until)));
            if stall.deadline() != until {
                stall.as_mut().reset(until);
            }
            ready!(stall.as_mut().poll(cx));
            self.give_up(until);
        }
        self.stall = None;
        let Some(feed) = self.feed.as_mut() else { return Poll::Pending };
        match ready!(feed.poll(cx)) {
            Fed::Head(head) => self.head = Some(head),
            Fed::Run(run) => {
                self.tape.push(&run);
                self.trim();
            }
            Fed::End(end) => (self.end, self.feed) = (Some(end), None),
        }
        Poll::Ready(())
    }

    /// Until when the call rests for readers who are as far behind as the tape may hold; none if it need not.
    fn stalled_until(&mut self) -> Option<Instant> {
        let (came, bound) = (self.tape.came(), self.pace.buffer_bytes as u64);
        if came < bound {
            return None;
        }
        let now = Instant::now();
        let laggards = self.seats.iter_mut().flatten().filter(|seat| seat.reads() && came - seat.had >= bound);
        let first = laggards.map(|seat| *seat.behind_since.get_or_insert(now)).min()?;
        Some(first + self.pace.slow_after)
    }

    /// Gives those up who have had their time.
    fn give_up(&mut self, now: Instant) {
        for seat in self.seats.iter_mut().flatten() {
            seat.given_up |= seat.behind_since.is_some_and(|since| since + self.pace.slow_after <= now);
        }
        self.trim();
    }

    /// Drops what every reader has had, where nobody may join any more.
    fn trim(&mut self) {
        if !self.tape.is_whole() {
            let readers = self.seats.iter().flatten().filter(|seat| seat.reads());
            let slowest = readers.filter_map(|reader| reader.cursor).min();
            self.tape.drop_before(slowest.unwrap_or(self.tape.end()));
        }
    }

    /// Frees a place; whether others stay.
    fn leave(&mut self, place: usize) -> bool {
        let left = self.seats[place].take();
        if left.is_some_and(|left| left.leads)
            && let Some(oldest) = self.seats.iter_mut().flatten().min_by_key(|seat| seat.order)
        {
            (oldest.leads, oldest.promoted) = (true, !self.turned);
        }
        self.trim();
        self.seats.iter().any(Option::is_some)
    }
}

impl Seat {
    /// Drives the flight until there is what is wanted.
    pub(crate) fn poll(&self, want: Want, cx: &mut Context<'_>) -> Poll<Step> {
        self.flight().poll(self.place, want, cx)
    }

    /// Runs `write` with the record of the participant that ended first, or none for that participant, whose own record
    /// becomes it. Participants run one after the other. A flight that has a record takes no new participants: what may be
    /// kept is in the cache.
    pub(crate) fn attest<R>(&self, write: impl FnOnce(&mut Option<Source>) -> R) -> R {
        let flight = self.flight();
        let written = write(&mut flight.record.lock());
        self.retire();
        let first = !std::mem::replace(&mut flight.state.lock().turned, true);
        if first {
            flight.fan.wake_others(self.place);
        }
        written
    }

    /// Lets nobody join any more.
    pub(crate) fn retire(&self) {
        let Some(key) = &self.key else { return };
        let mut shard = self.flights.shard(key).lock();
        if is_at(&shard, key, self.flight()) {
            shard.remove(key);
        }
    }

    /// Leaves. What is left of the call is for this participant to account for if it was the last and nobody has a record
    /// of the call: the provider's counts so far then.
    pub(crate) fn leave(mut self) -> Left {
        let last = self.depart();
        let unaccounted = last.filter(|flight| flight.record.lock().is_none());
        let usage = |flight: Arc<Flight>| {
            let state = flight.state.lock();
            match &state.end {
                Some(end) => end.usage(),
                None => state.feed.as_ref().and_then(|feed| feed.usage()),
            }
        };
        unaccounted.map_or(Left::OthersAccount, |flight| Left::Accounts(usage(flight)))
    }

    /// Gives the place up, under the table's lock, so that nobody joins a flight whose last participant is leaving; the
    /// flight, if it was the last.
    fn depart(&mut self) -> Option<Arc<Flight>> {
        let flight = self.flight.take()?;
        let mut shard = self.key.as_ref().map(|key| self.flights.shard(key).lock());
        flight.fan.leave(self.place);
        let others_stay = flight.state.lock().leave(self.place);
        if let (false, Some(shard), Some(key)) = (others_stay, shard.as_mut(), &self.key)
            && is_at(shard, key, &flight)
        {
            shard.remove(key);
        }
        drop(shard);
        if others_stay {
            flight.fan.wake_by_ref();
            return None;
        }
        Some(flight)
    }

    fn flight(&self) -> &Arc<Flight> {
        self.flight.as_ref().expect("present until drop")
    }
}

fn is_at(shard: &HashMap<FlightKey, Weak<Flight>, ahash::RandomState>, key: &FlightKey, flight: &Arc<Flight>) -> bool {
    shard.get(key).is_some_and(|weak| std::ptr::eq(weak.as_ptr(), Arc::as_ptr(flight)))
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.depart();
    }
}

#[cfg(test)]
#[path = "flight_tests.rs"]
mod tests;
