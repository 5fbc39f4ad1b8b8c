//! How a queue pair follows its connection: the attributes of each state, and who changes it when.

use super::event::{Event, EventKind};
use super::identifier::{Identifier, State};
use crate::error::Error;
use converb_cm::message::{PrivateData, Reason};
use converb_engine::iba::{self, AttributeMask as Mask, Attributes, Service};
use converb_engine::memory::Access;

/// What a peer is asked to wait when we have no receive posted: 0.64 ms, as a code.
const MIN_RNR_TIMER: u8 = 12;

impl Identifier {
    /// The attributes that a queue pair has in a state of this connection, and which they are
    /// (rdma_init_qp_attr(3)).
    ///
    /// # Errors
    /// `Invalid` for another state than INIT, RTR and RTS, or before it is known.
    pub fn attributes(&self, state: iba::State) -> Result<(Attributes, Mask), Error> {
        let inner = self.lock();
        let terms = &inner.terms;
        if inner.device.is_none() {
            return Err(Error::Invalid("the identifier has no device"));
        }
        let mut access = Access::REMOTE_WRITE;
        if terms.responder_resources > 0 {
            access = access.with(Access::REMOTE_READ).with(Access::REMOTE_ATOMIC);
        }
        let is_reliable = self.service() == Service::ReliableConnection;
        let attributes = Attributes {
            state,
            port: crate::PORT,
            access,
            queue_key: terms.queue_key,
            path: terms.path,
            path_mtu: terms.mtu,
            destination: terms.remote_qpn,
            receive_psn: terms.receive_psn,
            send_psn: terms.send_psn,
            max_reads: terms.initiator_depth,
            max_destination_reads: terms.responder_resources,
            min_rnr_timer: MIN_RNR_TIMER,
            timeout: terms.timeout,
            retry_count: terms.retry_count,
            rnr_retry: terms.rnr_retry_count,
            ..Attributes::default()
        };
        let parts: &[Mask] = match (state, self.is_for_datagrams()) {
            (iba::State::Init, true) => &[Mask::PARTITION_KEY_INDEX, Mask::PORT, Mask::QUEUE_KEY],
            (iba::State::Init, false) => {
                &[Mask::PARTITION_KEY_INDEX, Mask::PORT, Mask::ACCESS_FLAGS]
            }
            (iba::State::ReadyToReceive, true) => &[],
            (iba::State::ReadyToSend, true) => &[Mask::SEND_PSN],
            (iba::State::ReadyToReceive, false) if is_reliable => &[
                Mask::PATH,
                Mask::PATH_MTU,
                Mask::DESTINATION,
                Mask::RECEIVE_PSN,
                Mask::MAX_DESTINATION_READS,
                Mask::MIN_RNR_TIMER,
            ],
            (iba::State::ReadyToReceive, false) => {
                &[Mask::PATH, Mask::PATH_MTU, Mask::DESTINATION, Mask::RECEIVE_PSN]
            }
            (iba::State::ReadyToSend, false) if is_reliable => &[
                Mask::SEND_PSN,
                Mask::TIMEOUT,
                Mask::RETRY_COUNT,
                Mask::RNR_RETRY,
                Mask::MAX_READS,
            ],
            (iba::State::ReadyToSend, false) => &[Mask::SEND_PSN],
            _ => return Err(Error::Invalid("connections say nothing about this state")),
        };
        Ok((attributes, parts.iter().fold(Mask::STATE, |mask, &part| mask.with(part))))
    }

    /// Brings its queue pair into the first state that connections know: INIT, or RTS where datagrams
    /// need no peer (rdma_create_qp(3)).
    ///
    /// # Errors
    /// What modifying says.
    pub fn prepare(&self) -> Result<(), Error> {
        self.go(iba::State::Init)?;
        if self.is_for_datagrams() {
            self.go(iba::State::ReadyToReceive)?;
            self.go(iba::State::ReadyToSend)?;
        }
        Ok(())
    }

    /// The queue pair, if it has one, takes packets and sends.
    pub(super) fn make_ready(&self) -> Result<(), Error> {
        // Once more, for what the peer may do was not known the first time.
        self.go(iba::State::Init)?;
        self.go(iba::State::ReadyToReceive)?;
        self.go(iba::State::ReadyToSend)
    }

    fn go(&self, state: iba::State) -> Result<(), Error> {
        let Some(queue_pair) = self.queue_pair() else { return Ok(()) };
        let (attributes, mask) = self.attributes(state)?;
        queue_pair.modify(&attributes, mask)
    }

    /// What is under way on the queue pair fails.
    pub(super) fn fail_queue_pair(&self) {
        if let Some(queue_pair) = self.queue_pair() {
            let attributes = Attributes { state: iba::State::Error, ..Attributes::default() };
            // From RESET there is no way there, and nothing to fail.
            let _ = queue_pair.modify(&attributes, Mask::STATE);
        }
    }
}

impl Event {
    /// Does what the event asks of the identifier's queue pair, before the program sees it. To be called
    /// once for each event.
    #[must_use]
    pub fn follow(self) -> Self {
        match self.kind {
            EventKind::ConnectResponse if self.identifier.queue_pair().is_some() => self.respond(),
            EventKind::Rejected | EventKind::Disconnected | EventKind::ConnectError => {
                self.identifier.fail_queue_pair();
                self
            }
            _ => self,
        }
    }

    /// The peer has accepted: the queue pair is made ready, and the peer is told.
    fn respond(self) -> Self {
        let identifier = &self.identifier;
        match identifier.make_ready().and_then(|()| identifier.establish()) {
            Ok(()) => Self { kind: EventKind::Established, ..self },
            Err(error) => {
                identifier.fail_queue_pair();
                identifier.give_up();
                Self { kind: EventKind::ConnectError, status: -error.errno(), ..self }
            }
        }
    }
}

impl Identifier {
    /// The peer has accepted, and it comes to nothing here.
    fn give_up(&self) {
        let Ok((switchboard, name)) = self.named() else { return };
        self.lock().state = State::Over;
        switchboard
            .with(|core, now| core.reject(name, Reason::CONSUMER_REJECT, PrivateData::EMPTY, now));
    }
}
