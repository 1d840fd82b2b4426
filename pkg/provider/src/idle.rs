//! HTTP/1.1 connections at rest.

use crate::h1::H1;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::time::Instant;

/// Connections at rest, the freshest last.
///
/// Nobody polls them, so they cost nothing; one that the peer closed is found when it is taken or has rested too long.
pub(crate) struct Idle {
    lists: Mutex<Lists>,
    max: usize,
    max_rest: Duration,
}

#[derive(Default)]
struct Lists {
    resting: VecDeque<(Box<H1>, Instant)>,
    /// Those that are too old to be used while the provider's name can be resolved again.
    retired: VecDeque<(Box<H1>, Instant)>,
}

impl Idle {
    pub(crate) fn new(max: usize, max_rest: Duration) -> Self {
        Self { lists: Mutex::default(), max, max_rest }
    }

    /// The freshest connection that is still open and not too old.
    pub(crate) fn take(&self) -> Option<Box<H1>> {
        loop {
            let (mut connection, since) = self.lists.lock().resting.pop_back()?;
            if since.elapsed() >= self.max_rest || !connection.is_alive() {
                continue;
            }
            if Instant::now() < connection.retires {
                return Some(connection);
            }
            self.lists.lock().retired.push_back((connection, since));
        }
    }

    /// One that is too old but still open.
    pub(crate) fn take_retired(&self) -> Option<Box<H1>> {
        loop {
            let (mut connection, since) = self.lists.lock().retired.pop_back()?;
            if since.elapsed() < self.max_rest && connection.is_alive() {
                return Some(connection);
            }
        }
    }

    /// Takes a connection whose answer has ended, if it can carry another; else closes it.
    pub(crate) fn put(&self, mut connection: Box<H1>) {
        if !connection.is_quiet() {
            return;
        }
        let now = Instant::now();
        let mut lists = self.lists.lock();
        let list = if now < connection.retires { &mut lists.resting } else { &mut lists.retired };
        list.push_back((connection, now));
        drop(lists);
        self.close_old();
    }

    /// Closes what rested too long, and what is too many.
    pub(crate) fn close_old(&self) {
        loop {
            let mut lists = self.lists.lock();
            let too_many = lists.resting.len() + lists.retired.len() > self.max;
            let past = |(_, since): &(Box<H1>, Instant)| too_many || since.elapsed() >= self.max_rest;
            let oldest = match (lists.retired.front(), lists.resting.front()) {
                (Some(retired), _) if past(retired) => lists.retired.pop_front(),
                (_, Some(resting)) if past(resting) => lists.resting.pop_front(),
                _ => return,
            };
            drop(lists); // closing a socket is a system call: not under the lock
            drop(oldest);
        }
    }

    pub(crate) fn len(&self) -> usize {
        let lists = self.lists.lock();
        lists.resting.len() + lists.retired.len()
    }
}
