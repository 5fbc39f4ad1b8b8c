//! What the driver needs from the world: a port to a network, and a clock.

use converb_engine::{Address, Memory, PacketSink, Time};
use core::time::Duration;

/// A packet that passed the link's checks (on RoCE: its invariant CRC).
#[derive(Clone, Copy, Debug)]
pub struct Received<'a> {
    /// Who sent it.
    pub source: Address,
    /// Which of our addresses it was sent to (a multicast group's for multicast).
    pub local: Address,
    /// The IP traffic class; its low two bits are ECN.
    pub traffic_class: u8,
    /// The IP time to live, if the link knows it, else 0.
    pub hop_limit: u8,
    /// The transport packet, BTH to pad, without the invariant CRC.
    pub bytes: &'a [u8],
}

/// What became of a batch that was to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The network took all of it (or refused for good what it did not take: counted as a drop).
    All,
    /// The network is full for now: the rest is still in the batch; [`Port::wait`] tells when to
    /// try again.
    Full,
}

/// Why [`Port::wait`] came back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// There is something to receive.
    pub receivable: bool,
    /// There is room to send again.
    pub sendable: bool,
    /// Somebody called [`Port::wake`].
    pub by_request: bool,
    /// The signal of [`Port::wait_with`] is raised.
    pub by_signal: bool,
    /// A handler that the program has for signals of the system ran meanwhile, in
    /// [`Port::wait_with`].
    pub by_handler: bool,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Something to receive.
    pub receivable: bool,
    /// Room to send.
    pub sendable: bool,
    /// At most this long; `None`: until something happens.
    pub timeout: Option<Duration>,
}

/// A raised flag that a program can wait for: the descriptor of a completion channel.
pub trait Signal: Send + Sync + 'static {
    /// Adds one to the number of events that wait.
    fn raise(&self);
}

/// A port to a network: receive batch, send batch, wait and wake. Every call but `wait` returns
/// at once. One thread at a time receives (the drain lock sees to it); any number send.
pub trait Port: Send + Sync + 'static {
    /// Packets on their way out.
    type Outgoing: PacketSink + Send;
    /// Packets that came in, not all looked at yet.
    type Incoming: Send;
    /// The memory of the program that this port serves.
    type Memory: Memory + Send + Sync;
    /// What a completion channel raises.
    type Signal: Signal;

    /// An empty batch. Its memory is taken now and lives as long as it does.
    fn new_outgoing(&self) -> Self::Outgoing;

    /// An empty batch of received packets.
    fn new_incoming(&self) -> Self::Incoming;

    /// Whether the batch holds no packet.
    fn is_empty(&self, batch: &Self::Outgoing) -> bool;

    /// Sends what is in the batch, in order, without blocking; leaves it empty unless full.
    fn send(&self, batch: &mut Self::Outgoing) -> Sent;

    /// Fetches what has arrived, up to a bounded amount, without blocking; what was left in the
    /// batch is dropped. Returns whether anything came.
    fn receive(&self, batch: &mut Self::Incoming) -> bool;

    /// The next good packet of the batch, checked now, while it is about to be used. Bad ones are
    /// counted and passed over.
    fn next<'a>(&self, batch: &'a mut Self::Incoming) -> Option<Received<'a>>;

    /// Waits for what `interest` names. Several threads may wait at once.
    fn wait(&self, interest: Interest) -> Woken;

    /// Waits for what `interest` names, or until `signal` is raised (which does not take it).
    fn wait_with(&self, signal: &Self::Signal, interest: Interest) -> Woken;

    /// Ends one [`wait`](Self::wait), the current or the next.
    fn wake(&self);

    /// Makes good what the program has broken, if it has: called often, and with no lock held. May
    /// wait for others, but not for long.
    fn mend(&self) {}

    /// An answer is missing, or a packet that a wait had promised: looks whether the port itself is
    /// the reason, for [`mend`](Self::mend) to do something about it. Returns at once.
    fn doubt(&self) {}

    /// The program's memory.
    fn memory(&self) -> &Self::Memory;

    /// Now.
    fn now(&self) -> Time;

    /// The slots of queue pair numbers that are ours (the high 10 bits of a QPN).
    fn slots(&self) -> &[u16];

    /// How many bytes the receive buffer holds, counted as the kernel does (`truesize`).
    fn receive_buffer_bytes(&self) -> usize;

    /// A number that nobody can guess (for keys and first PSNs).
    fn random(&self) -> u64;

    /// A packet of ours for another slot arrived here (the kernel delivers a whole super-packet
    /// to the slot of its first segment), or for a queue pair that has gone over to the process
    /// with that slot: hand it on. Returns false if nobody has it.
    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool;
}
