//! The agent's process: serves the members of one network namespace.
//!
//! One thread, one epoll, and a second thread once another user's program has joined: `carrying`
//! hands over what arrives for those, `carried` says what they get. `start` gets the port and the name, or takes both over from an agent
//! that died; `events` waits; `visitors` greets whoever connects; `members` is the list of those
//! who own slots, and what happens when they go, `rejoin` brings some back; `offer` is what these share, their rings among
//! it; `observe` answers questions; `management` looks at what arrives at slot 0, `dispatch` says whose it is; `report` tells
//! the program that started this process how it went.

mod carried;
mod carrying;
mod dispatch;
mod events;
mod farewells;
mod heirs;
mod held;
mod holder;
mod management;
mod members;
mod observe;
mod offer;
mod queued;
mod rejoin;
mod report;
mod start;
mod visitors;

pub use holder::is_port_in_use;
pub use report::{Outcome, Report};
pub use start::{Inherited, ServeError, ServeOptions, serve};

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::counters::Totals;
use crate::failures::History;
use crate::group::{self, SLOTS_MAX, SLOTS_STEP};
use crate::services::Services;
use crate::slots::Slots;
use crate::table::Table;
use crate::vault::Vault;
use carrying::Carriage;
use farewells::Farewells;
use held::Held;
use management::Management;
use members::Member;
use queued::Queued;
use visitors::Visitor;

/// Everything the agent knows.
struct Agent {
    epoll: OwnedFd,
    listener: OwnedFd,
    vault: Vault,
    table: Table,
    totals: Totals,
    history: History,
    slots: Slots,
    management: Management,
    /// What members serve.
    services: Services,
    /// By a number that is never used again.
    members: BTreeMap<u64, Member>,
    /// Connections that have not become members.
    visitors: BTreeMap<u64, Visitor>,
    /// From the first member on whose datagrams are carried.
    carriage: Option<Carriage>,
    held: Held,
    queued: Queued,
    farewells: Farewells,
    last_number: u64,
    started: Instant,
    idle_since: Duration,
    idle_limit: Duration,
    /// Until when not to try to add slots, after the kernel has refused.
    no_growth_until: Duration,
    is_successor: bool,
    is_stopping: bool,
}

impl Agent {
    /// Time since the agent started: all its times are such.
    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    /// Whether the group could be larger but for the kernel's limits.
    fn cannot_grow(&self) -> bool {
        self.no_growth_until > self.now()
    }

    /// Adds slots to the group. The order matters for a successor of an agent that dies between
    /// two steps: parked slots exist for everybody, and sockets that are not parked yet are the
    /// group's last, so that their end shifts no index. Only then may packets go there.
    fn grow(&mut self) -> Result<(), Errno> {
        let total = self.slots.total();
        let count = SLOTS_STEP.min(SLOTS_MAX - total);
        if count == 0 || !total.is_multiple_of(SLOTS_STEP) || self.cannot_grow() {
            return Err(Errno::NOSPC);
        }
        let result = group::extend(count)
            .and_then(|sockets| self.vault.park(total, &sockets))
            .and_then(|()| group::select(self.management.socket(), total + count));
        if result.is_err() {
            self.no_growth_until = self.now() + GROWTH_RETRY;
            return result;
        }
        self.slots.extend(count);
        // A table that cannot be written only costs a successor some knowledge.
        let _ = self.table.set_total(self.slots.total());
        Ok(())
    }
}

const GROWTH_RETRY: Duration = Duration::from_secs(10);
