//! What happens to identifiers (`struct rdma_cm_event`).

use super::Identifier;
use converb_engine::AddressVector;
use converb_wire::Qpn;
use std::sync::Arc;

/// What happened (`enum rdma_cm_event_type`; the values are the ABI's).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// The peer's address is reached by a device of ours.
    AddressResolved = 0,
    /// It is not.
    AddressError = 1,
    /// There is a route to it.
    RouteResolved = 2,
    /// There is none.
    RouteError = 3,
    /// A peer asks a listener for a connection.
    ConnectRequest = 4,
    /// The peer has accepted, and there is no queue pair here that could follow by itself.
    ConnectResponse = 5,
    /// The connection was about to be, and failed here.
    ConnectError = 6,
    /// The peer does not answer.
    Unreachable = 7,
    /// The peer refuses.
    Rejected = 8,
    /// There is a connection.
    Established = 9,
    /// The connection has ended.
    Disconnected = 10,
    /// The device has vanished.
    DeviceRemoval = 11,
    /// A multicast group was joined.
    MulticastJoin = 12,
    /// It was not, or no longer.
    MulticastError = 13,
    /// The address has gone to another device.
    AddressChange = 14,
    /// The connection's last packets are gone from the network: the queue pair may be used again.
    TimeWaitExit = 15,
}

/// Something that happened to an identifier.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub kind: EventKind,
    /// 0, a negative error number of the system, or the reason of the peer's refusal.
    pub status: i32,
    /// To whom. Of a request this is a new one, of the connection that was asked for.
    pub identifier: Arc<Identifier>,
    /// Whom the peer has asked, of a request.
    pub listener: Option<Arc<Identifier>>,
    /// What the peer says.
    pub parameters: Parameters,
}

/// What a peer says with a message.
#[derive(Clone, Debug, Default)]
pub enum Parameters {
    /// Nothing.
    #[default]
    None,
    /// About a connection.
    Connection(ConnectionParameters),
    /// About the queue pair that serves by datagrams, or asks for it.
    Datagram(DatagramParameters),
}

/// What both ends of a connection tell each other (`struct rdma_conn_param`), from the view of who
/// reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionParameters {
    /// The program's own words. Those that have come fill all of their message, with zeros at the end.
    pub private_data: Vec<u8>,
    /// How many READs and atomics of the peer this side answers at a time.
    pub responder_resources: u8,
    /// How many READs and atomics this side has in flight.
    pub initiator_depth: u8,
    /// Whether the hardware counts credits.
    pub flow_control: bool,
    /// How often to send again without an answer, 3 bits.
    pub retry_count: u8,
    /// How often to send again to who has no receive posted, 3 bits; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether the queue pair has a shared receive queue. Where it is known it is not read from here.
    pub has_shared_receives: bool,
    /// The queue pair's number. Where it is known it is not read from here.
    pub qpn: Qpn,
}

/// What is said about a queue pair for datagrams (`struct rdma_ud_param`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatagramParameters {
    /// As in [`ConnectionParameters`].
    pub private_data: Vec<u8>,
    /// The way to the queue pair.
    pub path: AddressVector,
    /// Its number.
    pub qpn: Qpn,
    /// Its key.
    pub queue_key: u32,
}

impl ConnectionParameters {
    /// As many READs and atomics at a time as both sides can have (`RDMA_MAX_RESP_RES`).
    pub const ALL_READS: u8 = 0xff;
}

impl Event {
    pub(super) fn new(kind: EventKind, identifier: &Arc<Identifier>) -> Self {
        Self {
            kind,
            status: 0,
            identifier: Arc::clone(identifier),
            listener: None,
            parameters: Parameters::None,
        }
    }

    pub(super) fn with_status(self, status: i32) -> Self {
        Self { status, ..self }
    }

    pub(super) fn with(self, parameters: ConnectionParameters) -> Self {
        Self { parameters: Parameters::Connection(parameters), ..self }
    }

    /// With nothing but a peer's own words.
    pub(super) fn with_words(self, words: &[u8]) -> Self {
        let private_data = words.to_vec();
        self.with(ConnectionParameters { private_data, ..ConnectionParameters::default() })
    }

    /// Whose it is to acknowledge: the listener's, of a request.
    pub fn owner(&self) -> &Arc<Identifier> {
        self.listener.as_ref().unwrap_or(&self.identifier)
    }
}
