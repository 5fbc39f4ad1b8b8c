//! Which world a seed is played in.

use crate::connections;
use crate::run::{Outcome, run};
use crate::scenario::Kind;
use crate::trace::Trace;

/// A world, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Programs that use verbs; without a kind the seed chooses it.
    Verbs(Option<Kind>),
    /// Programs that connect.
    Connections,
}

const CONNECTIONS: &str = "connections";

impl Subject {
    /// What every seed is played as unless somebody chooses.
    pub const ALL: [Self; 2] = [Self::Verbs(None), Self::Connections];

    /// Its name on the command line, if there it has to be chosen.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Self::Verbs(Some(kind)) => Some(kind.name()),
            Self::Verbs(None) => None,
            Self::Connections => Some(CONNECTIONS),
        }
    }

    /// What has this name.
    ///
    /// # Errors
    /// Which names there are.
    pub fn named(name: &str) -> Result<Self, String> {
        if name == CONNECTIONS {
            return Ok(Self::Connections);
        }
        let kind = Kind::named(name).map_err(|why| format!("{why}, {CONNECTIONS}"))?;
        Ok(Self::Verbs(Some(kind)))
    }

    /// Plays a seed.
    pub fn play(self, seed: u64, trace: &Trace) -> Outcome {
        match self {
            Self::Verbs(kind) => run(seed, kind, trace),
            Self::Connections => connections::run(seed, trace),
        }
    }
}
