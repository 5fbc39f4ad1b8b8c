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
}

impl Action {
    /// Whether it ends a receive of the peer when it succeeds.
    pub const fn consumes_receive(self) -> bool {
        matches!(self, Self::Send(_) | Self::Write(_, Some(_)))
    }

    /// Whether it is a READ.
    pub const fn is_read(self) -> bool {
        matches!(self, Self::ReadWindow(_) | Self::ReadArchive(_))
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
}

/// A send work request.
#[derive(Clone, Debug)]
pub struct WorkPlan {
    /// What it asks for.
    pub action: Action,
    /// The lengths of its pieces.
    pub pieces: Vec<u32>,
    /// Where its pieces are, one after the other, in the source area (READ: the results area).
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
