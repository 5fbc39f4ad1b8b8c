//! Asynchronous events: what happens to a device or an object while nobody asks.

use crate::failure;
use converb_driver::{AsyncEvent, Listener, Signal};
use converb_engine::iba::{self, Failure};
use converb_link::EventSignal;
use converb_wire::Qpn;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// What happened (`enum ibv_event_type`; the values are the ABI's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// A completion queue was overrun.
    CompletionQueueError = 0,
    /// A queue pair failed.
    QueuePairFatal = 1,
    /// A peer's request could not be understood or served.
    RequestError = 2,
    /// A peer's request had no right to our memory.
    AccessError = 3,
    /// The first packet came before the queue pair was ready to send.
    CommunicationEstablished = 4,
    /// The send queue has drained.
    SendQueueDrained = 5,
    /// The device cannot go on.
    DeviceFatal = 8,
    /// The port came up.
    PortActive = 9,
    /// The port went down.
    PortError = 10,
    /// A shared receive queue has fewer receives than its limit.
    ReceiveLimitReached = 15,
    /// A queue pair took its last receive from a shared queue.
    LastReceiveReached = 16,
    /// The GID table has changed.
    GidChange = 18,
}

/// What it happened to. Objects are named by the number that they were created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A completion queue.
    CompletionQueue(u64),
    /// A queue pair.
    QueuePair(u64),
    /// A shared receive queue.
    SharedReceiveQueue(u64),
    /// A port of the device.
    Port(u8),
    /// The device itself.
    Device,
}

/// An asynchronous event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// To what.
    pub element: Element,
}

/// The events of a context that wait to be read, and the descriptor that says so.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The device's name, for the record of failures.
    device: String,
    /// Raised once for each of them.
    signal: EventSignal,
    waiting: Mutex<VecDeque<Event>>,
}

/// A program that never reads its events loses those beyond this number.
const WAITING_MAX: usize = 4096;

impl EventQueue {
    pub(crate) fn new(device: &str) -> io::Result<Self> {
        let (device, signal) = (device.to_owned(), EventSignal::new()?);
        Ok(Self { device, signal, waiting: Mutex::default() })
    }

    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.signal.as_fd()
    }

    /// Adds an event; never blocks.
    pub(crate) fn push(&self, event: Event) {
        let mut waiting = self.lock();
        if waiting.len() < WAITING_MAX {
            waiting.push_back(event);
            // Its counter holds far more than WAITING_MAX, so this does not wait.
            self.signal.raise();
        }
    }

    /// The oldest event; waits for one unless the program has made the descriptor non-blocking.
    ///
    /// An object's end waits until `take`, which is given the event, has returned.
    ///
    /// # Errors
    /// `EAGAIN` from a non-blocking descriptor without an event; `EINTR`.
    pub(crate) fn take<T>(&self, take: impl FnOnce(Event) -> T) -> io::Result<T> {
        loop {
            self.signal.take()?;
            // An event whose object was destroyed meanwhile has been withdrawn.
            let mut waiting = self.lock();
            if let Some(event) = waiting.pop_front() {
                return Ok(take(event));
            }
        }
    }

    /// Forgets the events of an object that is being destroyed.
    pub(crate) fn withdraw(&self, element: Element) {
        let mut waiting = self.lock();
        let before = waiting.len();
        waiting.retain(|event| event.element != element);
        for _ in waiting.len()..before {
            // Else a program would find the descriptor readable and then wait for ever.
            self.signal.take_back();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Event>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener for EventQueue {
    fn raise(&self, event: AsyncEvent) {
        self.push(match event {
            AsyncEvent::QueuePair { cookie, event } => Event {
                kind: match event {
                    iba::Event::Fatal => EventKind::QueuePairFatal,
                    iba::Event::RequestError => EventKind::RequestError,
                    iba::Event::AccessError => EventKind::AccessError,
                    iba::Event::CommunicationEstablished => EventKind::CommunicationEstablished,
                    iba::Event::SendQueueDrained => EventKind::SendQueueDrained,
                    iba::Event::LastReceiveReached => EventKind::LastReceiveReached,
                },
                element: Element::QueuePair(cookie),
            },
            AsyncEvent::ReceiveLimitReached { cookie } => Event {
                kind: EventKind::ReceiveLimitReached,
                element: Element::SharedReceiveQueue(cookie),
            },
            AsyncEvent::CompletionQueueError { cookie } => Event {
                kind: EventKind::CompletionQueueError,
                element: Element::CompletionQueue(cookie),
            },
        });
    }

    fn failed(&self, qpn: Qpn, failure: &Failure) {
        failure::record(&self.device, qpn, failure);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn is_readable(queue: &EventQueue) -> bool {
        let mut descriptors = [PollFd::from_borrowed_fd(queue.descriptor(), PollFlags::IN)];
        poll(&mut descriptors, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn the_descriptor_is_readable_while_events_wait() {
        let queue = EventQueue::new("roce_lo").unwrap();
        assert!(!is_readable(&queue));
        let events = [1, 2].map(|number| Event {
            kind: EventKind::CommunicationEstablished,
            element: Element::QueuePair(number),
        });
        for event in events {
            queue.push(event);
        }
        assert_eq!(queue.take(|event| event).unwrap(), events[0]);
        assert!(is_readable(&queue));
        assert_eq!(queue.take(|event| event).unwrap(), events[1]);
        assert!(!is_readable(&queue));
    }

    #[test]
    fn the_events_of_a_destroyed_object_are_never_delivered() {
        let queue = EventQueue::new("roce_lo").unwrap();
        let event =
            |number| Event { kind: EventKind::AccessError, element: Element::QueuePair(number) };
        queue.push(event(1));
        queue.push(event(2));
        queue.withdraw(Element::QueuePair(1));
        assert_eq!(queue.take(|event| event).unwrap(), event(2));
        assert!(!is_readable(&queue), "nothing is left of what was withdrawn");
        queue.push(event(3));
        queue.withdraw(Element::QueuePair(3));
        assert!(!is_readable(&queue));
        rustix::io::ioctl_fionbio(queue.descriptor(), true).unwrap();
        assert_eq!(queue.take(|event| event).unwrap_err().raw_os_error(), Some(libc::EAGAIN));
    }
}
