//! What a queue pair sends, and in which order: answers and requests.

use super::{QueuePair, Receiving, Sending};
use crate::iba::environment::Environment;
use crate::iba::path::PathWindow;
use crate::iba::state::State;
use crate::memory::Memory;
use crate::transmit::PacketSink;

/// How a round of transmitting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// There is nothing more to send now.
    Idle,
    /// The sink is full: send it and call again.
    SinkFull,
    /// The window of the path is full: call again when something on the path is acknowledged.
    WindowFull,
}

impl QueuePair {
    /// Whether all there is to send is an ACK, and no clock runs: then it may wait a moment for
    /// a request that goes the same way.
    pub fn owes_only_an_ack(&self) -> bool {
        self.owes_lone_ack() && self.is_idle()
    }

    /// Whether the peer may go on missing an ACK if this queue pair ends now: on a path that has
    /// lost packets.
    pub fn needs_farewell(&self, path: &PathWindow) -> bool {
        let state = self.state();
        let is_alive = !matches!(state, State::Reset | State::Init | State::Error);
        match &self.receiving {
            Receiving::Reliable(responder) => is_alive && responder.needs_farewell(path.has_lost()),
            _ => false,
        }
    }

    /// Acknowledges all that was executed, several times.
    pub fn write_farewell(&self, sink: &mut impl PacketSink) {
        if let Receiving::Reliable(responder) = &self.receiving {
            responder.write_farewell(&self.identity, sink);
        }
    }

    fn owes_lone_ack(&self) -> bool {
        matches!(&self.receiving, Receiving::Reliable(responder) if responder.owes_lone_ack())
    }

    /// Writes packets into `sink`: answers first, then requests. Only an ACK by itself comes
    /// after them: being the shortest packet it can end a super-packet, not begin one.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
    ) -> Transmit {
        let ack_comes_last = !core::mem::take(&mut self.ack_comes_next) && self.owes_lone_ack();
        if !ack_comes_last {
            let answers = self.transmit_answers(env, sink);
            if answers != Transmit::Idle {
                return answers;
            }
        }
        let requests = self.transmit_requests(env, sink);
        if ack_comes_last && requests == Transmit::SinkFull {
            self.ack_comes_next = true;
        } else if ack_comes_last && self.transmit_answers(env, sink) != Transmit::Idle {
            return Transmit::SinkFull;
        }
        requests
    }

    fn transmit_answers<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
    ) -> Transmit {
        let Receiving::Reliable(responder) = &mut self.receiving else { return Transmit::Idle };
        let answers = responder.poll_transmit(&self.identity, env, &mut self.outbox, sink);
        self.fail_if_asked(env);
        answers
    }

    fn transmit_requests<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        sink: &mut impl PacketSink,
    ) -> Transmit {
        let may_start = self.state() == State::ReadyToSend;
        if !may_start && self.state() != State::SendQueueDrain {
            return Transmit::Idle;
        }
        let (identity, outbox) = (&self.identity, &mut self.outbox);
        let requests = match &mut self.sending {
            Sending::Reliable(requester) => {
                requester.poll_transmit(identity, env, outbox, sink, may_start)
            }
            Sending::Unreliable(sender) => {
                sender.poll_transmit(identity, env, outbox, sink, may_start)
            }
        };
        self.fail_if_asked(env);
        self.report_drained();
        requests
    }
}
