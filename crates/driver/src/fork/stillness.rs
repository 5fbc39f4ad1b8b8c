//! All locks of a driver, held while the process forks, so that the child gets a whole copy of what
//! they guard and finds none taken by a thread that it does not have.

use super::journal::{Journal, Noting};
use crate::driver::{Driver, Handle};
use crate::facade::{Facade, Mutex, RwLock};
use crate::port::Port;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Nothing of the driver moves while this lives, nor can anything of it be called by the thread
/// that has it. To be dropped after the fork, in the parent and in the child.
pub struct Stillness<'a> {
    _guards: Vec<Box<dyn Held + 'a>>,
    _claim: Claim<'a>,
}

/// What is looked at by each call and written only by forks: on a line of its own, for its neighbours
/// are written by whoever polls.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Forking {
    /// How often the process has forked.
    pub(crate) count: AtomicU64,
    /// How many threads are about to.
    claims: AtomicU32,
}

/// Keeps threads that come out of the driver, which those that are inside leave soon.
struct Claim<'a>(&'a AtomicU32);

impl<'a> Claim<'a> {
    fn new(claims: &'a AtomicU32) -> Self {
        claims.fetch_add(1, Ordering::SeqCst);
        Self(claims)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A guard, of whatever type.
trait Held {}
impl<T> Held for T {}

impl<P: Port, S: Facade> Driver<P, S> {
    /// Waits for a thread that forks. To be called with no lock held.
    #[inline]
    pub(crate) fn let_forks_pass(&self) {
        while self.forking.claims.load(Ordering::Relaxed) != 0 {
            S::yield_now();
        }
    }

    /// Stops everything and counts the fork that is about to happen, after which `journal` tells
    /// children what they miss. `place` is for the queue pairs whose locks are held. `None` when
    /// `give_up` says so first: the thread that forks may have interrupted another one's work, or
    /// its own in a signal handler.
    pub fn still<'a>(
        &'a self,
        place: &'a mut Vec<Handle<P, S>>,
        journal: Option<&Arc<dyn Journal>>,
        give_up: &dyn Fn() -> bool,
    ) -> Option<Stillness<'a>> {
        let claim = Claim::new(&self.forking.claims);
        let mut guards: Vec<Box<dyn Held + 'a>> = Vec::new();
        guards.push(Box::new(wait::<S, _>(|| self.drain.try_lock(), give_up)?));
        let table = wait::<S, _>(|| self.table.try_read(), give_up)?;
        place.extend(table.iter().cloned());
        guards.push(Box::new(table));
        guards.push(Box::new(wait::<S, _>(|| self.keys.try_read(), give_up)?));
        let handles: &'a [Handle<P, S>] = place;
        let fork = self.forking.count.load(Ordering::Relaxed) + 1;
        for handle in handles {
            let mut protocol = wait::<S, _>(|| handle.protocol.try_lock(), give_up)?;
            protocol.noting = journal.map(Noting::begin);
            guards.push(Box::new(protocol));
        }
        // The queues of several queue pairs may be one.
        let (mut queues, mut receives) = (Vec::new(), Vec::new());
        let mut channels = Vec::new();
        for handle in handles {
            guards.push(Box::new(wait::<S, _>(|| handle.posted.try_lock(), give_up)?));
            queues.extend([Arc::as_ptr(&handle.send_cq), Arc::as_ptr(&handle.receive_cq)]);
            receives.push(Arc::as_ptr(&handle.receives));
            for queue in [&handle.send_cq, &handle.receive_cq] {
                channels.extend(queue.channel().map(Arc::as_ptr));
            }
        }
        for handle in handles {
            if take_out(&mut receives, Arc::as_ptr(&handle.receives)) {
                guards.push(Box::new(wait::<S, _>(|| handle.receives.try_hold(), give_up)?));
            }
            for queue in [&handle.send_cq, &handle.receive_cq] {
                if take_out(&mut queues, Arc::as_ptr(queue)) {
                    guards.push(Box::new(wait::<S, _>(|| queue.try_hold(), give_up)?));
                }
                if let Some(channel) = queue.channel()
                    && take_out(&mut channels, Arc::as_ptr(channel))
                {
                    guards.push(Box::new(wait::<S, _>(|| channel.try_hold(), give_up)?));
                }
            }
        }
        self.forking.count.store(fork, Ordering::Release);
        Some(Stillness { _guards: guards, _claim: claim })
    }
}

/// Whether it was in the list; removes it wherever it is.
fn take_out<T>(list: &mut Vec<*const T>, item: *const T) -> bool {
    let before = list.len();
    list.retain(|other| *other != item);
    list.len() < before
}

fn wait<S: Facade, T>(attempt: impl Fn() -> Option<T>, give_up: &dyn Fn() -> bool) -> Option<T> {
    loop {
        match attempt() {
            None if give_up() => return None,
            None => S::yield_now(),
            held => return held,
        }
    }
}
