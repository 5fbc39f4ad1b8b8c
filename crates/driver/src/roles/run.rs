//! Runs one queue pair: takes what was posted, transmits, publishes completions, sets the timer.

use crate::driver::Driver;
use crate::facade::{Facade, Flag, Mutex, RwLock};
use crate::listener::AsyncEvent;
use crate::port::Port;
use crate::queue_pair::{Protocol, QueuePairHandle};
use crate::receive_queue::Receives;
use converb_engine::iba::{Environment, QueuePair, Service, Side, State, Transmit};
use converb_engine::memory::KeyTable;
use converb_engine::planted::{self, Planted};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Batches that one queue pair sends before others get their turn.
const BATCHES_PER_TURN: usize = 64;

impl<P: Port, S: Facade> Driver<P, S> {
    /// There may be something to do for a queue pair: does it, or leaves it to the thread that
    /// has its protocol lock.
    pub(crate) fn kick(&self, queue_pair: &Arc<QueuePairHandle<P::Signal, S>>) {
        queue_pair.pending.raise();
        while queue_pair.pending.is_up() {
            let keys = self.keys.read();
            let Some(mut protocol) = queue_pair.protocol.try_lock() else { return };
            let mut batch = self.outlet.batch(&self.port);
            self.run(queue_pair, &keys, &mut protocol, &mut batch);
            self.outlet.give_back(batch);
            if planted::is(Planted::LostWakeUp) {
                return;
            }
        }
    }

    /// Whoever unlocks the protocol calls this afterwards: in between, others may have left their
    /// work to it.
    pub(crate) fn serve_pending(&self, queue_pair: &Arc<QueuePairHandle<P::Signal, S>>) {
        if queue_pair.pending.is_up() && !planted::is(Planted::LostWakeUp) {
            self.kick(queue_pair);
        }
    }

    /// Runs a queue pair whose protocol lock is held. `batch` is empty before and after.
    pub(crate) fn run(
        &self,
        handle: &Arc<QueuePairHandle<P::Signal, S>>,
        keys: &KeyTable,
        protocol: &mut Protocol,
        batch: &mut P::Outgoing,
    ) {
        handle.pending.take();
        let mut has_more = true;
        for _ in 0..BATCHES_PER_TURN {
            let transmit = self.with_environment(handle, keys, protocol, |queue_pair, env| {
                {
                    let mut posted = handle.posted.lock();
                    queue_pair.take_posted(&mut posted, env);
                }
                if queue_pair.state() == State::Error && !handle.has_shared_receives() {
                    // Published before flushing: who posts a receive after this flush sees it
                    // and flushes it.
                    handle.publish_state(State::Error);
                    queue_pair.flush_receives(env);
                }
                if self.outlet.is_blocked() {
                    return None;
                }
                Some(queue_pair.poll_transmit(env, batch))
            });
            let Some(transmit) = transmit else {
                has_more = !self.outlet.starve(handle);
                break;
            };
            let sent = self.outlet.send(&self.port, batch);
            self.publish(handle, keys, protocol);
            match transmit {
                Transmit::SinkFull if sent => {}
                Transmit::SinkFull => {
                    has_more = !self.outlet.starve(handle);
                    break;
                }
                Transmit::Idle | Transmit::WindowFull => {
                    // Completions made room: there may be more posted than fitted before.
                    if transmit == Transmit::WindowFull {
                        // A reliable queue pair goes on with its own ACKs.
                        if handle.service != Service::ReliableConnection {
                            self.wait_for_credit(handle);
                        }
                        has_more = false;
                        break;
                    }
                    if handle.posted_is_empty() {
                        has_more = false;
                        break;
                    }
                }
            }
        }
        if has_more {
            // Its turn is over, or it was about to wait for what has happened meanwhile.
            handle.pending.raise();
        }
        self.publish(handle, keys, protocol);
        self.set_timer(handle, keys, protocol);
    }

    /// Calls `action` with the environment of a queue pair.
    pub(crate) fn with_environment<R>(
        &self,
        handle: &Arc<QueuePairHandle<P::Signal, S>>,
        keys: &KeyTable,
        protocol: &mut Protocol,
        action: impl FnOnce(&mut QueuePair, &mut Environment<'_, <P as Port>::Memory>) -> R,
    ) -> R {
        let mut receives = Receives(&handle.receives);
        let mut env = Environment {
            now: self.port.now(),
            keys,
            memory: self.port.memory(),
            receives: &mut receives,
            path: &protocol.path,
            paths: &self.paths,
            reads: &self.reads,
            counters: &self.counters,
            domain: handle.domain,
        };
        action(&mut protocol.queue_pair, &mut env)
    }

    /// Makes completions and events visible. The answers that go with them are with the kernel
    /// already, for a program may exit as soon as it sees them, save an ACK that waits for a
    /// reply (see [`crate::reply`]).
    pub(crate) fn publish(
        &self,
        handle: &Arc<QueuePairHandle<P::Signal, S>>,
        keys: &KeyTable,
        protocol: &mut Protocol,
    ) {
        let queue_pair = &mut protocol.queue_pair;
        let retired = queue_pair.take_retired();
        if retired != 0 {
            handle.unfinished.fetch_sub(retired, Ordering::AcqRel);
        }
        handle.publish_state(queue_pair.state());
        // First, for a program that sees a completion may end, or ask for the cause, at once.
        while let Some(failure) = queue_pair.next_failure() {
            handle.listener.failed(handle.qpn, &failure);
        }
        let mut all_reported = true;
        while let Some((side, completion)) = queue_pair.next_completion() {
            let completion_queue = match side {
                Side::Send => &handle.send_cq,
                Side::Receive => {
                    protocol.has_received = true;
                    &handle.receive_cq
                }
            };
            all_reported &= completion_queue.push(completion);
        }
        if !all_reported && queue_pair.state() != State::Error {
            self.with_environment(handle, keys, protocol, |queue_pair, env| queue_pair.fail(env));
            // What it flushes is published the same way, and receives that are posted just now
            // are flushed by whoever looks next.
            handle.pending.raise();
            return self.publish(handle, keys, protocol);
        }
        while let Some(event) = queue_pair.next_event() {
            handle.listener.raise(AsyncEvent::QueuePair { cookie: handle.cookie, event });
        }
    }

    fn set_timer(
        &self,
        handle: &Arc<QueuePairHandle<P::Signal, S>>,
        keys: &KeyTable,
        protocol: &mut Protocol,
    ) {
        let deadline = self
            .with_environment(handle, keys, protocol, |queue_pair, env| queue_pair.deadline(env));
        if deadline >= protocol.timer {
            return;
        }
        protocol.timer = deadline;
        let wake = {
            let mut timers = self.timers.lock();
            let wake = timers.add(deadline, handle.qpn);
            self.next_deadline.store(timers.next().nanoseconds(), Ordering::Release);
            wake
        };
        if wake {
            self.port.wake();
        }
    }
}
