//! What a queue pair gives back besides packets, until its driver fetches it.

use super::event::{Event, Side};
use crate::completion::Completion;
use std::collections::VecDeque;

/// What a queue pair gives back besides packets.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    pub(super) completions: VecDeque<(Side, Completion)>,
    pub(super) events: VecDeque<Event>,
    /// Send work requests that left the queue, for the poster's count.
    pub(super) retired: u32,
    /// One half of the queue pair failed: it goes to the error state.
    pub(super) failed: bool,
    /// The send queue of an unreliable queue pair failed: it stops, receiving goes on.
    pub(super) send_failed: bool,
    /// Whether the state is ready to send, or was until it began to drain.
    pub(super) ready_to_send: bool,
}

impl Outbox {
    pub(super) fn complete(&mut self, side: Side, completion: Completion) {
        self.completions.push_back((side, completion));
    }

    pub(super) fn event_before_ready_to_send(&mut self, event: Event) {
        if !self.ready_to_send {
            self.events.push_back(event);
        }
    }
}
