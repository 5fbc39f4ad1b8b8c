//! Draining the port: packets in, answers out, then the clocks. One thread at a time, by the
//! drain lock.

use crate::credit::Askers;
use crate::driver::{Driver, Handle};
use crate::facade::{Facade, Mutex, RwLock};
use crate::port::{Port, Received};
use crate::queue_pair::{Protocol, QueuePairHandle};
use crate::receive_queue::Receives;
use crate::reply::Replying;
use crate::table::QueuePairTable;
use converb_engine::iba::{Arrival, CreditMessage, Environment};
use converb_engine::memory::KeyTable;
use converb_engine::{Counters, Time};
use converb_wire::{Packet, Qpn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What the drain lock guards.
pub(crate) struct Drain<P: Port, S: Facade> {
    incoming: P::Incoming,
    outgoing: P::Outgoing,
    /// Queue pairs that packets of this batch were for.
    touched: Vec<Arc<QueuePairHandle<P::Signal, S>>>,
    askers: Askers,
    /// A credit datagram was answered: senders that wait for it may go on.
    credit_came: bool,
    replying: Option<Replying<P, S>>,
}

/// What a look at the port came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Packets had arrived, and are dealt with.
    Packets,
    /// Nothing had.
    Nothing,
    /// Another thread was at it.
    Elsewhere,
}

/// After looking in vain for this long a poller lets others have the processor.
const YIELD_AFTER_NANOSECONDS: u64 = 50_000;

impl<P: Port, S: Facade> Drain<P, S> {
    pub(crate) fn new(port: &P) -> Self {
        Self {
            incoming: port.new_incoming(),
            outgoing: port.new_outgoing(),
            touched: Vec::with_capacity(64),
            askers: Askers::default(),
            credit_came: false,
            replying: None,
        }
    }

    pub(crate) fn take_replying(&mut self) -> Option<Replying<P, S>> {
        self.replying.take()
    }
}

impl<P: Port, S: Facade> Driver<P, S> {
    /// Fetches and executes what has arrived, if no other thread is doing so.
    pub fn drain(&self) -> Look {
        self.look(false)
    }

    /// The same for a thread that polls: what it finds it hands to the program, which may reply.
    pub(crate) fn look(&self, polls: bool) -> Look {
        self.let_forks_pass();
        let Some(mut drain) = self.drain.try_lock() else { return Look::Elsewhere };
        let drain = &mut *drain;
        let now = self.port.now();
        self.drained_at.store(now.nanoseconds(), Ordering::Release);
        if let Some(replying) = drain.take_replying() {
            self.settle(&replying);
        }
        if self.outlet.is_blocked() {
            for queue_pair in self.outlet.unblock(&self.port) {
                self.kick(&queue_pair);
            }
        }
        if self.port.receive(&mut drain.incoming) {
            self.fruitless_since.store(0, Ordering::Relaxed);
            self.deliver_batch(drain);
            self.answer_batch(drain, polls);
            return Look::Packets;
        }
        // Clocks only now: who was not running has packets to look at first.
        self.look_at_clocks(now);
        let since = self.fruitless_since.load(Ordering::Relaxed);
        if since == 0 {
            self.fruitless_since.store(now.nanoseconds(), Ordering::Relaxed);
        } else if now.nanoseconds().saturating_sub(since) > YIELD_AFTER_NANOSECONDS {
            self.fruitless_since.store(0, Ordering::Relaxed);
            S::yield_now();
        }
        Look::Nothing
    }

    /// Hands each packet to its queue pair. Packets of one queue pair come in runs, so its lock
    /// is kept while they last.
    fn deliver_batch(&self, drain: &mut Drain<P, S>) {
        let Drain { incoming, outgoing, touched, askers, credit_came, .. } = drain;
        let table = self.table.read();
        let keys = self.keys.read();
        let mut current: Option<(&Handle<P, S>, _)> = None;
        while let Some(received) = self.port.next(incoming) {
            let Ok(packet) = Packet::parse(received.bytes) else {
                match CreditMessage::parse(received.bytes) {
                    Some(message) => {
                        *credit_came |= self.handle_credit(message, &received, askers, outgoing);
                    }
                    None => Counters::count(&self.counters.dropped_malformed),
                }
                continue;
            };
            let qpn = packet.bth().destination;
            if current.as_ref().is_none_or(|(handle, _)| handle.qpn != qpn) {
                current = None;
                let Some(handle) = self.find(&table, qpn, &received) else { continue };
                current = Some((handle, handle.protocol.lock()));
            }
            let Some((handle, protocol)) = current.as_mut() else { continue };
            self.deliver(handle, &keys, protocol, &packet, &received);
            if !core::mem::replace(&mut protocol.touched, true) {
                touched.push(Arc::clone(handle));
            }
        }
    }

    fn find<'a>(
        &self,
        table: &'a QueuePairTable<P::Signal, S>,
        qpn: Qpn,
        received: &Received<'_>,
    ) -> Option<&'a Arc<QueuePairHandle<P::Signal, S>>> {
        let found = table.find(qpn);
        let elsewhere = found.is_none()
            && table
                .elsewhere(qpn)
                .filter(|&slot| !self.taken_over.contains(slot))
                .is_some_and(|slot| self.port.pass_on(slot, received));
        if found.is_none() && !elsewhere {
            Counters::count(&self.counters.dropped_unknown_queue_pair);
        }
        found
    }

    pub(crate) fn deliver(
        &self,
        handle: &Arc<QueuePairHandle<P::Signal, S>>,
        keys: &KeyTable,
        protocol: &mut Protocol,
        packet: &Packet<'_>,
        received: &Received<'_>,
    ) {
        if let Some(noting) = &mut protocol.noting
            && !noting.note(handle.qpn, received)
        {
            protocol.noting = None;
        }
        let mut receives = Receives(&handle.receives);
        let mut env = Environment {
            now: Time::from_nanoseconds(self.drained_at.load(Ordering::Relaxed)),
            keys,
            memory: self.port.memory(),
            receives: &mut receives,
            path: &protocol.path,
            paths: &self.paths,
            reads: &self.reads,
            counters: &self.counters,
            domain: handle.domain,
        };
        let arrival = Arrival {
            source: received.source,
            local: received.local,
            traffic_class: received.traffic_class,
            hop_limit: received.hop_limit,
        };
        protocol.queue_pair.handle_packet(packet, received.bytes, &arrival, &mut env);
    }

    /// Runs the queue pairs that got packets: sends their answers and what the answers they got
    /// allow them to send.
    fn answer_batch(&self, drain: &mut Drain<P, S>, polls: bool) {
        let Drain { outgoing, touched, credit_came, replying, .. } = drain;
        self.outlet.send(&self.port, outgoing);
        let expects_reply = polls && touched.len() == 1;
        for handle in touched.drain(..) {
            let may_hold = expects_reply && self.may_hold_answer(&handle);
            handle.reply.received();
            let (is_held, has_received) = {
                let keys = self.keys.read();
                let mut protocol = handle.protocol.lock();
                protocol.touched = false;
                let mut is_held = may_hold && protocol.queue_pair.owes_only_an_ack();
                if is_held {
                    self.publish(&handle, &keys, &mut protocol);
                    is_held = protocol.has_received;
                }
                if !is_held {
                    self.run(&handle, &keys, &mut protocol, outgoing);
                }
                (is_held, core::mem::take(&mut protocol.has_received))
            };
            self.serve_pending(&handle);
            if expects_reply && has_received {
                *replying = Some(Replying { handle, is_held });
            }
        }
        if core::mem::take(credit_came) {
            self.serve_credit_waiters();
        }
    }

    /// Whether an ACK may wait for the reply: only while somebody will look after it in any case.
    fn may_hold_answer(&self, handle: &Handle<P, S>) -> bool {
        handle.reply.is_formed() && self.progress_looks_again.load(Ordering::Acquire)
    }

    /// Lets queue pairs look at their clocks whose deadlines have passed.
    fn look_at_clocks(&self, now: Time) {
        while self.next_deadline.load(Ordering::Acquire) <= now.nanoseconds() {
            let due = {
                let mut timers = self.timers.lock();
                let due = timers.take_due(now);
                self.next_deadline.store(timers.next().nanoseconds(), Ordering::Release);
                due
            };
            let Some((qpn, deadline)) = due else { return };
            let Some(handle) = self.table.read().find(qpn).cloned() else { continue };
            self.port.doubt();
            {
                let keys = self.keys.read();
                let mut protocol = handle.protocol.lock();
                let protocol = &mut *protocol;
                // Another one: it entered an earlier deadline after this one and has looked since.
                if protocol.timer == deadline {
                    protocol.timer = Time::NEVER;
                    self.with_environment(&handle, &keys, protocol, |queue_pair, env| {
                        queue_pair.handle_timer(env);
                    });
                    let mut batch = self.outlet.batch(&self.port);
                    self.run(&handle, &keys, protocol, &mut batch);
                    self.outlet.give_back(batch);
                }
            }
            self.serve_pending(&handle);
        }
    }
}
