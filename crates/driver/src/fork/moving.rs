//! A queue pair goes over from the process that has it to a child of that.

use crate::completion_queue::CompletionQueueHandle;
use crate::driver::{Driver, Handle};
use crate::facade::{Facade, Mutex, RwLock};
use crate::port::Port;
use converb_engine::Time;
use converb_engine::iba::State;
use converb_wire::{Packet, Qpn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Who gets a queue pair, and after which fork it became another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heir {
    /// The count of forks that it was born with.
    pub fork: u64,
    /// A slot of its own, by which it can be reached.
    pub slot: u16,
    /// Which owner of the slot that is.
    pub generation: u64,
    /// It has only polled a completion queue of the queue pair's so far: then a parent that polls
    /// that queue itself goes before.
    pub by_poll: bool,
}

/// Why a queue pair stays where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// It is not there (any more).
    Unknown,
    /// The program uses it here.
    InUse,
    /// So much has come for it since the fork that it was not noted.
    Forgotten,
}

impl<P: Port, S: Facade> Driver<P, S> {
    /// How often the process has forked, by [`still`](Self::still).
    pub fn forks(&self) -> u64 {
        self.forking.count.load(Ordering::Acquire)
    }

    /// Lets forks pass, and notes that the program uses a queue pair here.
    #[inline]
    pub(crate) fn use_now(&self, queue_pair: &Handle<P, S>) {
        self.let_forks_pass();
        queue_pair.use_now(&self.forking.count);
    }

    /// Lets go of a queue pair. What comes from now on is passed on to the heir.
    ///
    /// # Errors
    /// Why it stays.
    pub fn hand_on(&self, qpn: Qpn, heir: Heir) -> Result<(), Kept> {
        let mut table = self.table.write();
        let handle = Arc::clone(table.find(qpn).ok_or(Kept::Unknown)?);
        let mut protocol = handle.protocol.lock();
        let polled = heir.by_poll
            && [&handle.send_cq, &handle.receive_cq].iter().any(|queue| queue.is_used(heir.fork));
        if polled || handle.used_at.load(Ordering::Acquire) >= heir.fork {
            return Err(Kept::InUse);
        }
        protocol.noting.take().ok_or(Kept::Forgotten)?.hand_on(qpn, heir.slot);
        table.remove(qpn);
        table.move_on(qpn, heir.slot, heir.generation);
        handle.is_handed_on.store(true, Ordering::Release);
        let path = Arc::clone(&protocol.path);
        protocol.queue_pair.reset(&path, &self.reads);
        handle.publish_state(State::Reset);
        self.empty(&handle);
        handle.send_cq.forget(qpn);
        handle.receive_cq.forget(qpn);
        Ok(())
    }

    /// Passes on from now on what comes for a queue pair that another process of this family has.
    /// `is_gone` tells whether one that had it is, by slot and generation.
    ///
    /// # Errors
    /// `InUse`: it is here, or another process has it.
    pub fn redirect(
        &self,
        qpn: Qpn,
        heir: Heir,
        is_gone: &dyn Fn(u16, u64) -> bool,
    ) -> Result<(), Kept> {
        let mut table = self.table.write();
        if table.find(qpn).is_some() {
            return Err(Kept::InUse);
        }
        match table.moved(qpn) {
            Some((slot, generation)) if slot != heir.slot && !is_gone(slot, generation) => {
                Err(Kept::InUse)
            }
            _ => {
                table.move_on(qpn, heir.slot, heir.generation);
                Ok(())
            }
        }
    }

    /// Whether another process has the queue pair of that number now; `is_gone` as for
    /// [`redirect`](Self::redirect).
    pub fn is_elsewhere(&self, qpn: Qpn, is_gone: &dyn Fn(u16, u64) -> bool) -> bool {
        let moved = self.table.read().moved(qpn);
        moved.is_some_and(|(slot, generation)| !is_gone(slot, generation))
    }

    /// Ends all waits on the port, which begin anew.
    pub fn wake_waiters(&self) {
        for _ in 0..=self.event_waiters.load(Ordering::Relaxed) {
            self.port.wake();
        }
    }

    /// What comes for this slot comes here from now on: its owner has ended.
    pub fn take_over_slot(&self, slot: u16) {
        self.taken_over.insert(slot);
    }

    /// Takes numbers back that went to heirs which are gone: `is_gone` tells by slot and generation.
    pub fn forget_heirs(&self, is_gone: &dyn Fn(u16, u64) -> bool) {
        if self.table.read().has_moved() {
            self.table.write().forget_moved(is_gone);
        }
    }

    /// The heir does not need the number any more.
    pub fn take_back(&self, qpn: Qpn) {
        self.table.write().forget_moved_number(qpn);
    }

    /// The queue pair of that number, if it is here.
    pub fn find_queue_pair(&self, qpn: Qpn) -> Option<Handle<P, S>> {
        self.table.read().find(qpn).cloned()
    }

    /// The queue pairs whose work completes in a completion queue.
    pub fn queue_pairs_of(
        &self,
        queue: &Arc<CompletionQueueHandle<P::Signal, S>>,
    ) -> Vec<Handle<P, S>> {
        let is_used = |handle: &&Handle<P, S>| {
            Arc::ptr_eq(&handle.send_cq, queue) || Arc::ptr_eq(&handle.receive_cq, queue)
        };
        self.table.read().iter().filter(is_used).cloned().collect()
    }

    /// The keys of an inherited driver count here, too. To be called before there are others.
    pub fn inherit_keys(&self, from: &Self) {
        *self.keys.write() = from.keys.read().clone();
    }

    /// Takes over a queue pair of the driver `from`, which is a copy that a fork has left here.
    /// `ask` sees to it that the original stands still and what comes for it comes here.
    ///
    /// # Errors
    /// Those of `ask`, and why the queue pair stays where it is.
    pub fn adopt<E: From<Kept>>(
        &self,
        from: &Self,
        handle: &Handle<P, S>,
        ask: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        // What is passed on from the moment that it is ours has to find it, and to wait.
        let mut table = self.table.write();
        let keys = self.keys.read();
        let mut protocol = handle.protocol.lock();
        table.insert(Arc::clone(handle));
        drop(table);
        let slot = self.port.slots().first().copied().unwrap_or(0);
        let handled = ask().and_then(|()| {
            let noting = protocol.noting.as_ref().ok_or(Kept::Forgotten)?;
            Ok(noting.handled(handle.qpn, slot)?)
        });
        let packets = match handled {
            Ok(packets) => packets,
            Err(error) => {
                drop((protocol, keys));
                self.table.write().remove(handle.qpn);
                return Err(error);
            }
        };
        from.table.write().remove(handle.qpn);
        from.drained_at.store(self.port.now().nanoseconds(), Ordering::Release);
        protocol.noting = None;
        {
            let keys = from.keys.read();
            for noted in &packets {
                if let Ok(packet) = Packet::parse(&noted.bytes) {
                    from.deliver(handle, &keys, &mut protocol, &packet, &noted.received());
                }
            }
            from.with_environment(handle, &keys, &mut protocol, |queue_pair, env| {
                queue_pair.move_over(slot, env);
            });
        }
        if let Some(path) = protocol.queue_pair.attributes().path {
            let destination = protocol.queue_pair.destination();
            protocol.path = self.paths.0.lock().find(path.remote, destination);
        }
        protocol.timer = Time::NEVER;
        protocol.touched = false;
        handle.used_at.store(0, Ordering::Release);
        let mut batch = self.outlet.batch(&self.port);
        self.run(handle, &keys, &mut protocol, &mut batch);
        self.outlet.give_back(batch);
        drop((protocol, keys));
        self.serve_pending(handle);
        Ok(())
    }
}
