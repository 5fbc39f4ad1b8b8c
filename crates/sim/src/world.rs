//! What all nodes share: virtual time, packets on their way, and the threads that wait.
//!
//! Time stands still while a thread can run and jumps to the next thing that happens when all
//! wait. The lock in here is an ordinary one: virtual threads share one real thread, and none is
//! switched away while it holds it.

use crate::gate::Gate;
use crate::network::{Fate, Frame, Network};
use crate::packet_text::{Told, describe};
use crate::schedule::Control;
use crate::trace::Trace;
use converb_driver::{Interest, Woken};
use shuttle::thread::yield_now;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a node of the network has of its own.
#[derive(Debug, Default)]
struct Post {
    inbox: VecDeque<Frame>,
    inbox_bytes: usize,
    inbox_bytes_max: usize,
    full_until: u64,
    wakes: u32,
}

/// A thread that waits.
struct Waiter {
    ticket: u64,
    gate: Gate,
    node: usize,
    deadline: u64,
}

struct State {
    now: u64,
    network: Network,
    posts: Vec<Post>,
    signals: Vec<u32>,
    /// Packets on their way, by arrival; the second number keeps equal times apart.
    arrivals: BTreeMap<(u64, u64), Frame>,
    waiters: Vec<Waiter>,
    serial: u64,
    rnr_naks: BTreeMap<(u16, u32, u32), u32>,
    /// A full receive buffer is a failure, not a loss.
    loses_nothing: bool,
    overflow: Option<String>,
}

/// The world of one run.
pub struct World {
    state: Mutex<State>,
    trace: Trace,
    failure: Mutex<Option<String>>,
    control: Arc<Control>,
    closing: AtomicBool,
}

const NEVER: u64 = u64::MAX;

impl World {
    /// A world at time 0 with nodes whose receive buffers hold so many bytes.
    /// If it loses nothing, they may not overflow.
    pub fn new(
        network: Network,
        buffers: &[usize],
        loses_nothing: bool,
        trace: Trace,
        control: Arc<Control>,
    ) -> Self {
        let post = |&inbox_bytes_max: &usize| Post { inbox_bytes_max, ..Post::default() };
        Self {
            state: Mutex::new(State {
                now: 0,
                network,
                posts: buffers.iter().map(post).collect(),
                signals: Vec::new(),
                arrivals: BTreeMap::new(),
                waiters: Vec::new(),
                serial: 0,
                rnr_naks: BTreeMap::new(),
                loses_nothing,
                overflow: None,
            }),
            trace,
            failure: Mutex::new(None),
            control,
            closing: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the start.
    pub fn now(&self) -> u64 {
        self.state().now
    }

    /// Adds a line to the trace; `line` is only asked for when somebody reads it.
    pub fn log<T: Display>(&self, line: impl FnOnce() -> T) {
        if self.trace.is_on() {
            let now = self.now();
            self.trace.add(now, &line());
        }
    }

    /// Ends the run as a failure; the first one counts.
    pub fn fail(&self, why: String) {
        self.log(|| format!("FAILED: {why}"));
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
        self.control.halted.store(true, Ordering::Relaxed);
    }

    /// Takes the failure, if there was one.
    pub fn take_failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether the run has failed.
    pub fn has_failed(&self) -> bool {
        self.control.halted.load(Ordering::Relaxed)
    }

    /// Whether all threads but the clock's wait.
    pub fn is_idle(&self) -> bool {
        self.control.is_idle.load(Ordering::Relaxed)
    }

    /// The run is over: nobody waits any more.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.wake_all(|_, _| true);
    }

    /// Whether the run is over.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// How many times the node with this address was told that the peer of its queue pair was not
    /// ready for `psn`.
    pub fn rnr_naks_sent(&self, node: u16, qpn: u32, psn: u32) -> u32 {
        self.state().rnr_naks.get(&(node, qpn, psn)).copied().unwrap_or(0)
    }

    /// Sends packets of a node; false if its send buffer is full, with the rest still there.
    pub fn send(&self, node: usize, frames: &mut VecDeque<Frame>) -> bool {
        let state = &mut *self.state();
        let now = state.now;
        while !frames.is_empty() {
            let post = &mut state.posts[node];
            if now < post.full_until {
                return false;
            }
            if let Some(until) = state.network.full_until(now) {
                post.full_until = until;
                self.trace.add_if(now, || format!("node {node}: send buffer full"));
                return false;
            }
            let Some(frame) = frames.pop_front() else { break };
            let fate = state.network.decide(&frame, now);
            state.count_rnr_nak(&frame, &fate);
            self.trace.add_if(now, || format!("{}{}", describe(&frame), Told(&fate, now)));
            state.dispatch(frame, fate);
        }
        true
    }

    /// Fetches up to `count` packets that arrived at a node.
    pub fn receive(&self, node: usize, count: usize, into: &mut VecDeque<Frame>) {
        let mut state = self.state();
        let post = &mut state.posts[node];
        for _ in 0..count {
            let Some(frame) = post.inbox.pop_front() else { break };
            post.inbox_bytes -= truesize(&frame);
            into.push_back(frame);
        }
    }

    /// A new signal; returns its number.
    pub fn new_signal(&self) -> usize {
        let mut state = self.state();
        state.signals.push(0);
        state.signals.len() - 1
    }

    /// Raises a signal.
    pub fn raise(&self, signal: usize) {
        self.state().signals[signal] += 1;
        self.wake_all(|_, _| true);
    }

    /// Takes one raise of a signal.
    pub fn take_signal(&self, signal: usize) -> bool {
        let mut state = self.state();
        let raised = state.signals[signal] != 0;
        state.signals[signal] -= u32::from(raised);
        raised
    }

    /// Ends one wait of a node's threads.
    pub fn wake(&self, node: usize) {
        self.state().posts[node].wakes += 1;
        self.wake_all(|waiter, _| waiter.node == node);
    }

    /// Sleeps.
    pub fn sleep(&self, nanoseconds: u64) {
        self.block(usize::MAX, nanoseconds, |_| None::<()>);
    }

    /// Waits as a port does.
    pub fn wait(&self, node: usize, interest: Interest, signal: Option<usize>) -> Woken {
        let timeout = interest.timeout.map_or(NEVER, |timeout| timeout.as_nanos() as u64);
        let woken = self.block(node, timeout, |state| {
            let now = state.now;
            let post = &mut state.posts[node];
            let mut woken = Woken {
                by_handler: false,
                receivable: interest.receivable && !post.inbox.is_empty(),
                sendable: interest.sendable && now >= post.full_until,
                by_request: post.wakes != 0,
                by_signal: signal.is_some_and(|signal| state.signals[signal] != 0),
            };
            if woken == Woken::default() {
                return None;
            }
            // A request to wake ends one wait only.
            woken.by_request = post.wakes != 0;
            post.wakes = post.wakes.saturating_sub(1);
            Some(woken)
        });
        woken.unwrap_or_default()
    }

    fn block<R>(
        &self,
        node: usize,
        timeout: u64,
        mut look: impl FnMut(&mut State) -> Option<R>,
    ) -> Option<R> {
        let mut ticket = None;
        let gate = Gate::default();
        // A wait that ends at once is a system call all the same: others may run.
        yield_now();
        let deadline = self.now().saturating_add(timeout);
        loop {
            {
                let mut state = self.state();
                let seen = look(&mut state);
                if seen.is_some() || state.now >= deadline || self.is_closing() {
                    state.waiters.retain(|waiter| Some(waiter.ticket) != ticket);
                    return seen;
                }
                if ticket.is_none() {
                    state.serial += 1;
                    ticket = Some(state.serial);
                    let ticket = state.serial;
                    state.waiters.push(Waiter { ticket, gate: gate.clone(), node, deadline });
                }
            }
            gate.pass();
        }
    }

    /// Lets threads look again whose waiting concerns this.
    fn wake_all(&self, concerns: impl Fn(&Waiter, u64) -> bool) {
        let gates: Vec<Gate> = {
            let state = self.state();
            let concerned = state.waiters.iter().filter(|waiter| concerns(waiter, state.now));
            concerned.map(|waiter| waiter.gate.clone()).collect()
        };
        // Not under the lock: who is woken may run at once.
        for gate in gates {
            gate.open();
        }
    }

    /// Moves time to the next thing that happens.
    pub fn advance(&self) {
        let mut concerned = Vec::new();
        {
            let state = &mut *self.state();
            let Some(next) = state.next_event() else { return };
            let now = next.max(state.now);
            state.now = now;
            while let Some(entry) = state.arrivals.first_entry() {
                if entry.key().0 > now {
                    break;
                }
                let frame = entry.remove();
                let node = usize::from(frame.destination.wrapping_sub(1));
                state.arrive(node, frame, &self.trace);
                concerned.push(node);
            }
            for (node, post) in state.posts.iter_mut().enumerate() {
                if post.full_until != 0 && post.full_until <= now {
                    post.full_until = 0;
                    concerned.push(node);
                }
            }
        }
        self.wake_all(|waiter, now| waiter.deadline <= now || concerned.contains(&waiter.node));
        let overflow = self.state().overflow.take();
        if let Some(why) = overflow {
            self.fail(why);
        }
    }

    /// When the next thing happens.
    pub fn next_event(&self) -> Option<u64> {
        self.state().next_event()
    }
}

impl State {
    fn next_event(&self) -> Option<u64> {
        let arrival = self.arrivals.first_key_value().map(|(key, _)| key.0);
        let deadline = self.waiters.iter().map(|waiter| waiter.deadline).min();
        let room = self.posts.iter().map(|post| post.full_until).filter(|&at| at != 0).min();
        let next = [arrival, deadline, room].into_iter().flatten().min();
        next.filter(|&at| at != NEVER)
    }

    /// Puts a packet on its way.
    fn dispatch(&mut self, frame: Frame, fate: Fate) {
        let Fate::Arrives { at, flipped, again } = fate else { return };
        if let Some(again) = again {
            self.serial += 1;
            self.arrivals.insert((again, self.serial), frame.clone());
        }
        let mut frame = frame;
        if let Some(bit) = flipped {
            frame.bytes[bit / 8] ^= 1 << (bit % 8);
        }
        self.serial += 1;
        self.arrivals.insert((at, self.serial), frame);
    }

    fn arrive(&mut self, node: usize, frame: Frame, trace: &Trace) {
        let now = self.now;
        let Some(post) = self.posts.get_mut(node) else { return };
        let fits = post.inbox_bytes + truesize(&frame) <= post.inbox_bytes_max;
        if !fits && self.loses_nothing {
            let (held, frame) = (post.inbox_bytes, describe(&frame));
            self.overflow = Some(format!(
                "{held} bytes wait in the receive buffer of node {node}, where credit should have \
                 kept room: {frame}"
            ));
            return;
        }
        if !fits && self.network.may_lose(&frame) {
            trace.add_if(now, || format!("{} receive buffer full, dropped", describe(&frame)));
            return;
        }
        post.inbox_bytes += truesize(&frame);
        post.inbox.push_back(frame);
    }

    fn count_rnr_nak(&mut self, frame: &Frame, fate: &Fate) {
        if let Some((qpn, psn)) = crate::packet_text::rnr_nak(frame) {
            let copies = 1 + u32::from(matches!(fate, Fate::Arrives { again: Some(_), .. }));
            *self.rnr_naks.entry((frame.destination, qpn, psn)).or_default() += copies;
        }
    }
}

/// The address of a node.
pub const fn address(node: usize) -> u16 {
    node as u16 + 1
}

fn truesize(frame: &Frame) -> usize {
    converb_engine::iba::truesize(frame.bytes.len()) as usize
}
