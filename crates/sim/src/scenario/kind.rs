//! What a scenario is about; most seeds leave the choice to themselves.

use crate::dice::Dice;

/// What a scenario is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reliable connections: SEND, WRITE, READ.
    Reliable,
    /// The same with atomics, of several requesters on the same words.
    Atomic,
    /// Unreliable connections.
    Unreliable,
    /// Unreliable datagrams between several queue pairs.
    Datagram,
    /// Connections of both kinds whose receives come from shared queues.
    Shared,
    /// Programs that answer each message with one of their own.
    Conversation,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Reliable,
        Self::Atomic,
        Self::Unreliable,
        Self::Datagram,
        Self::Shared,
        Self::Conversation,
    ];

    /// What the scenario of a seed is about unless somebody chooses otherwise.
    pub fn of(seed: u64) -> Self {
        match Dice::new(seed ^ 0x006b_696e_6400).below(11) {
            0..4 => Self::Reliable,
            4 => Self::Atomic,
            5..7 => Self::Unreliable,
            7 => Self::Datagram,
            8 => Self::Conversation,
            _ => Self::Shared,
        }
    }

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reliable => "reliable",
            Self::Atomic => "atomic",
            Self::Unreliable => "unreliable",
            Self::Datagram => "datagram",
            Self::Shared => "shared",
            Self::Conversation => "conversation",
        }
    }

    /// The kind of this name.
    ///
    /// # Errors
    /// Which names there are.
    pub fn named(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name);
            format!("no such kind of scenario; there are {}", names.join(", "))
        })
    }

    /// Whether nothing in it is acknowledged.
    pub const fn is_unreliable(self) -> bool {
        matches!(self, Self::Unreliable | Self::Datagram)
    }
}
