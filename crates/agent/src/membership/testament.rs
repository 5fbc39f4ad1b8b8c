//! What the agent is to say to the peers of our connections when we are no more.
//!
//! It is said to the agent by the member's own connection, and again to each successor. What does not
//! fit into the connection just now is said later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::Membership;
use crate::protocol::{ManagementDatagram, Request};
use crate::transfer;

/// What is to be said for each connection.
#[derive(Debug, Default)]
pub struct Testament(Mutex<Will>);

#[derive(Debug, Default)]
struct Will {
    words: BTreeMap<u32, ManagementDatagram>,
    /// The connections of which the agent does not know how it stands.
    unsaid: BTreeSet<u32>,
}

impl Testament {
    fn lock(&self) -> MutexGuard<'_, Will> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Membership {
    /// Has these words said to a connection's peer, `source` in them, when this process is no more, or
    /// nothing. Does not wait for the agent.
    pub fn bequeath(&self, connection: u32, words: Option<ManagementDatagram>) {
        let mut will = self.testament.lock();
        match words {
            Some(words) => {
                will.words.insert(connection, words);
            }
            None => {
                will.words.remove(&connection);
            }
        }
        will.unsaid.insert(connection);
        self.say_will(&mut will);
    }

    /// Says what the agent has not been told yet; whether that was all.
    pub fn finish_testament(&self) -> bool {
        let mut will = self.testament.lock();
        self.say_will(&mut will);
        will.unsaid.is_empty()
    }

    /// Tells an agent that does not know us.
    pub(super) fn bequeath_again(&self) {
        let mut will = self.testament.lock();
        will.unsaid = will.words.keys().copied().collect();
        self.say_will(&mut will);
    }

    fn say_will(&self, will: &mut Will) {
        let Some(connection) = self.connection.get() else { return };
        while let Some(&id) = will.unsaid.first() {
            let request = match will.words.get(&id) {
                Some(words) => Request::Remember { id, words: words.clone() },
                None => Request::Forget { id },
            };
            if transfer::send(connection, &request.emit(), &[]).is_err() {
                return;
            }
            will.unsaid.remove(&id);
        }
    }
}
