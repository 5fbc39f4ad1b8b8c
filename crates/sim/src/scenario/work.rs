//! What one work request of a scenario does.

/// What a send work request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// SEND, perhaps with immediate data.
    Send(Option<u32>),
    /// WRITE into the peer's window from this offset on, perhaps with immediate data.
    Write(u64, Option<u32>),
    /// READ from the peer's window.
    ReadWindow(u64),
    /// READ from the peer's archive, which nobody changes.
    ReadArchive(u64),
    /// Add to one of the words of the peer's node.
    FetchAdd {
        /// Which.
        word: usize,
        /// How much.
        add: u64,
    },
    /// Put `swap` into one of the words of the peer's node if it is `compare`.
    CompareSwap {
        /// Which.
        word: usize,
        /// What it has to be.
        compare: u64,
        /// What it becomes.
        swap: u64,
    },
}

impl Action {
    /// Whether it ends a receive of the peer when it succeeds.
    pub const fn consumes_receive(self) -> bool {
        matches!(self, Self::Send(_) | Self::Write(_, Some(_)))
    }

    /// Whether the peer answers with data: a READ or an atomic.
    pub const fn returns_data(self) -> bool {
        matches!(self, Self::ReadWindow(_) | Self::ReadArchive(_)) || self.word().is_some()
    }

    /// The word that an atomic works on.
    pub const fn word(self) -> Option<usize> {
        match self {
            Self::FetchAdd { word, .. } | Self::CompareSwap { word, .. } => Some(word),
            _ => None,
        }
    }

    /// The immediate data.
    pub const fn immediate(self) -> Option<u32> {
        match self {
            Self::Send(immediate) | Self::Write(_, immediate) => immediate,
            _ => None,
        }
    }
}

/// What is wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A remote key that nobody has.
    UnknownKey,
    /// The range ends this many bytes behind the peer's region.
    OutOfBounds(u64),
    /// A region that does not allow it.
    NoAccess,
    /// A local key that nobody has.
    LocalKey,
    /// The peer's receive is shorter than the message.
    ReceiveTooShort,
    /// The peer's receive names a local key that nobody has.
    ReceiveKey,
    /// An atomic's address is not a multiple of eight.
    Misaligned,
    /// The SEND asks to invalidate a key that is no memory window's.
    Invalidates,
    /// A datagram is longer than the port's MTU.
    TooLong,
    /// A datagram has no address handle.
    NoDestination,
}

/// Marks a Q_Key that means the sender's own (IBA 10.2.5).
pub const OWN_KEY: u32 = 1 << 31;
/// Bytes that precede a datagram in its receive.
pub const ROUTE_LENGTH: u32 = 40;

/// Where a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destination {
    /// The end.
    pub end: usize,
    /// The Q_Key that it is sent with; with the highest bit set the sender's own is meant.
    pub queue_key: u32,
}

/// A send work request.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// What it asks for.
    pub action: Action,
    /// The lengths of its pieces.
    pub pieces: Vec<u32>,
    /// Where its pieces are, one after the other, in the source area (READs and atomics: the
    /// results area).
    pub offset: u64,
    /// Whether its bytes are copied while posting.
    pub inline: bool,
    /// Whether it asks for a completion.
    pub signaled: bool,
    /// Whether it waits for earlier READs.
    pub fence: bool,
    /// Whether it asks for a solicited event.
    pub solicited: bool,
    /// What is wrong with it.
    pub fault: Option<Fault>,
    /// Where it goes, if it is a datagram.
    pub to: Option<Destination>,
}

impl WorkPlan {
    /// Bytes of the message.
    pub fn length(&self) -> u32 {
        self.pieces.iter().sum()
    }
}

/// A receive work request.
#[derive(Clone, Debug)]
pub struct ReceivePlan {
    /// The lengths of its pieces.
    pub pieces: Vec<u32>,
    /// Where they are, one after the other, in the results area.
    pub offset: u64,
    /// Whether it names a local key that nobody has.
    pub bad_key: bool,
}

impl ReceivePlan {
    /// Bytes that fit.
    pub fn capacity(&self) -> u32 {
        self.pieces.iter().sum()
    }
}
