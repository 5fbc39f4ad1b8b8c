//! The queue pair's states and which attributes each change of state needs (IBA 10.3.1, 11.2.5).

use super::attributes::AttributeMask;

/// The service that a queue pair gives (`enum ibv_qp_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    ReliableConnection,
    /// Unreliable connection.
    UnreliableConnection,
    /// Unreliable datagram.
    UnreliableDatagram,
}

/// A queue pair's state (`enum ibv_qp_state`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum State {
    #[default]
    Reset = 0,
    Init = 1,
    ReadyToReceive = 2,
    ReadyToSend = 3,
    SendQueueDrain = 4,
    SendQueueError = 5,
    Error = 6,
}

impl State {
    /// All states, in the ABI's order.
    pub const ALL: [Self; 7] = [
        Self::Reset,
        Self::Init,
        Self::ReadyToReceive,
        Self::ReadyToSend,
        Self::SendQueueDrain,
        Self::SendQueueError,
        Self::Error,
    ];

    /// Whether send work requests are taken (to be sent, kept or flushed).
    pub fn takes_sends(self) -> bool {
        matches!(
            self,
            Self::ReadyToSend | Self::SendQueueDrain | Self::SendQueueError | Self::Error
        )
    }

    /// Whether receive work requests are taken.
    pub fn takes_receives(self) -> bool {
        self != Self::Reset
    }

    /// Whether packets from the peer are looked at.
    pub fn receives_packets(self) -> bool {
        matches!(
            self,
            Self::ReadyToReceive | Self::ReadyToSend | Self::SendQueueDrain | Self::SendQueueError
        )
    }
}

/// The attributes that a change of state must and may bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transition {
    /// Must be in the mask.
    pub required: AttributeMask,
    /// May be in the mask.
    pub optional: AttributeMask,
}

/// The attributes that go with a change from one state to another, or `None` if there is no such
/// change. The state itself is always in the mask.
pub fn transition(service: Service, from: State, to: State) -> Option<Transition> {
    use AttributeMask as A;
    use Service::{ReliableConnection as Rc, UnreliableConnection as Uc, UnreliableDatagram as Ud};
    use State::{Error, Init, ReadyToReceive, ReadyToSend, Reset, SendQueueDrain, SendQueueError};

    let none = A::NONE;
    let access_or_key = if service == Ud { A::QUEUE_KEY } else { A::ACCESS_FLAGS };
    let base = A::PARTITION_KEY_INDEX.with(A::PORT).with(access_or_key);
    let connected_running = A::ACCESS_FLAGS.with(A::ALTERNATE_PATH).with(A::MIGRATION_STATE);
    let running = match service {
        Rc => connected_running.with(A::MIN_RNR_TIMER),
        Uc => connected_running,
        Ud => A::QUEUE_KEY,
    };
    let (required, optional) = match (from, to) {
        (_, Reset | Error) => (none, none),
        (Reset, Init) => (base, none),
        (Init, Init) => (none, base),
        (Init, ReadyToReceive) => match service {
            Rc | Uc => {
                let uc = A::PATH.with(A::PATH_MTU).with(A::DESTINATION).with(A::RECEIVE_PSN);
                let rc = A::MAX_DESTINATION_READS.with(A::MIN_RNR_TIMER);
                let required = if service == Rc { uc.with(rc) } else { uc };
                (required, A::ALTERNATE_PATH.with(A::ACCESS_FLAGS).with(A::PARTITION_KEY_INDEX))
            }
            Ud => (none, A::PARTITION_KEY_INDEX.with(A::QUEUE_KEY)),
        },
        (ReadyToReceive, ReadyToSend) => {
            let rc = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY).with(A::MAX_READS);
            let required = if service == Rc { rc.with(A::SEND_PSN) } else { A::SEND_PSN };
            (required, running.with(A::CURRENT_STATE).with(A::RATE_LIMIT))
        }
        (ReadyToSend, ReadyToSend) => (none, running.with(A::CURRENT_STATE).with(A::RATE_LIMIT)),
        (ReadyToSend, SendQueueDrain) => (none, A::DRAIN_NOTIFY),
        (SendQueueDrain, ReadyToSend) => (none, running.with(A::CURRENT_STATE)),
        (SendQueueDrain, SendQueueDrain) => {
            let connected = running.with(A::PATH).with(A::PARTITION_KEY_INDEX).with(A::PORT);
            let rc = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY);
            let depth = A::MAX_READS.with(A::MAX_DESTINATION_READS);
            let optional = match service {
                Rc => connected.with(rc).with(depth),
                Uc => connected,
                Ud => A::PARTITION_KEY_INDEX.with(A::QUEUE_KEY),
            };
            (none, optional)
        }
        (SendQueueError, ReadyToSend) if service != Rc => {
            (none, access_or_key.with(A::CURRENT_STATE))
        }
        _ => return None,
    };
    Some(Transition { required, optional })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole table as text, held against the book by whoever changes it.
    #[test]
    fn the_table_of_states_is_as_printed() {
        let mut table = String::new();
        for service in [
            Service::ReliableConnection,
            Service::UnreliableConnection,
            Service::UnreliableDatagram,
        ] {
            table += &format!("{service:?}\n");
            for from in State::ALL {
                for to in State::ALL {
                    if let Some(change) = transition(service, from, to) {
                        table += &format!(
                            "  {from:?} -> {to:?}: required {}, optional {}\n",
                            change.required, change.optional
                        );
                    }
                }
            }
        }
        println!("{table}");
        insta::assert_snapshot!(table);
    }

    #[test]
    fn every_state_can_be_left_for_reset_and_error() {
        for from in State::ALL {
            for to in [State::Reset, State::Error] {
                assert!(transition(Service::ReliableConnection, from, to).is_some());
            }
        }
    }

    #[test]
    fn a_reliable_queue_pair_does_not_come_back_from_a_send_error() {
        let rc = Service::ReliableConnection;
        assert!(transition(rc, State::SendQueueError, State::ReadyToSend).is_none());
        assert!(transition(rc, State::Init, State::ReadyToSend).is_none());
    }
}
