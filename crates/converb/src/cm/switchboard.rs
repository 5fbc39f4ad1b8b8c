//! All connections of a process: between its identifiers, its connection manager and the network.
//!
//! One lock, taken before that of an identifier, is held while the manager decides, while what it
//! says leaves, and while identifiers get its news: so messages and events keep their order.

use super::Identifier;
use super::news;
use super::ports::Ports;
use crate::error::Error;
use crate::runtime::{Driver, Runtime};
use converb_agent::{ManagementDatagram, Membership};
use converb_cm::connection::WrongState;
use converb_cm::manager::Manager;
use converb_cm::message::{AdditionalInformation, PrivateData, Reason};
use converb_cm::packet::{self, GENERAL_SERVICES, PACKET_BYTES};
use converb_driver::Port;
use converb_engine::Time;
use converb_wire::Psn;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The connections of a process.
pub(crate) struct Switchboard {
    core: Mutex<Core>,
    /// Until when the thread that stands by waits.
    waits_until: AtomicU64,
    pub(super) ports: Ports,
    /// The last port that was picked for who asks.
    last_port: AtomicU16,
}

/// What the lock guards.
pub(super) struct Core {
    pub(super) manager: Manager,
    /// By the manager's names.
    pub(super) listeners: BTreeMap<u32, Arc<Identifier>>,
    /// By the manager's names, which connections and questions have together.
    pub(super) named: BTreeMap<u32, Arc<Identifier>>,
    /// Of the next packet of queue pair 1.
    psn: Psn,
}

/// Ports of those who only ask: nobody comes to them, so they are known to this process alone.
const PICKED: core::ops::RangeInclusive<u16> = 32_768..=60_999;

impl Switchboard {
    pub(crate) fn new(slot: u16, random: u64) -> Self {
        Self {
            core: Mutex::new(Core {
                manager: Manager::new(slot, random as u32),
                listeners: BTreeMap::new(),
                named: BTreeMap::new(),
                psn: Psn::new((random >> 32) as u32),
            }),
            ports: Ports::default(),
            last_port: AtomicU16::new((random >> 48) as u16),
            waits_until: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something, and what follows from it.
    pub(super) fn with<T>(&self, what: impl FnOnce(&mut Core, Time) -> T) -> Option<T> {
        let runtime = Runtime::current()?;
        let mut core = self.lock();
        let result = what(&mut core, runtime.driver().port().now());
        core.settle(runtime.driver(), runtime.membership());
        let deadline = core.manager.deadline();
        if deadline.nanoseconds() < self.waits_until.load(Ordering::Relaxed) {
            runtime.membership().wake();
        }
        Some(result)
    }

    /// The same for what may fail.
    ///
    /// # Errors
    /// What it says; `Empty` in a process that has no connections.
    pub(super) fn attempt<T>(
        &self,
        what: impl FnOnce(&mut Core, Time) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.with(what).unwrap_or(Err(Error::Empty))
    }

    /// Takes what has come for queue pair 1, and does what is due.
    pub(crate) fn serve(&self, membership: &Membership, driver: &Driver) {
        let datagrams = membership.take_management();
        let now = driver.port().now();
        if datagrams.is_empty() && self.waits_until.load(Ordering::Relaxed) > now.nanoseconds() {
            return;
        }
        let mut core = self.lock();
        for datagram in datagrams {
            core.manager.handle(&datagram.mad, datagram.way_to_source(HOP_LIMIT), now);
            core.settle(driver, membership);
        }
        core.manager.expire(now);
        core.settle(driver, membership);
    }

    /// A port for who asks.
    pub(super) fn pick_port(&self) -> u16 {
        let length = PICKED.end() - PICKED.start() + 1;
        PICKED.start() + self.last_port.fetch_add(1, Ordering::Relaxed) % length
    }

    /// How long nothing will be due, for the thread that is about to wait; at most `most`.
    pub(crate) fn rest(&self, most: Duration, runtime: &Runtime) -> Duration {
        let driver = runtime.driver();
        // What did not fit into the connection to the agent fits soon.
        let most = if runtime.membership().finish_testament() { most } else { most.min(SOON) };
        let core = self.lock();
        let now = driver.port().now();
        let until = core.manager.deadline().min(now + most);
        self.waits_until.store(until.nanoseconds(), Ordering::Relaxed);
        until.since(now)
    }
}

const SOON: Duration = Duration::from_millis(10);

/// Of packets between communication managers.
pub(super) const HOP_LIMIT: u8 = 64;

impl Core {
    /// Refuses a connection, or gives one up that is half made.
    ///
    /// # Errors
    /// There is nothing (more) to refuse.
    pub(super) fn reject(
        &mut self,
        name: u32,
        reason: Reason,
        private_data: PrivateData<148>,
        now: Time,
    ) -> Result<(), WrongState> {
        self.manager.decide(name, |connection, out| {
            connection.reject(reason, AdditionalInformation::EMPTY, private_data, now, out)
        })
    }

    /// Lets messages leave and identifiers know.
    fn settle(&mut self, driver: &Driver, membership: &Membership) {
        loop {
            while let Some((path, mad)) = self.manager.take_message() {
                let psn = self.psn;
                self.psn = psn.plus(1);
                // What finds no room is lost, and asked for again.
                driver.send_packet(&path, GENERAL_SERVICES, PACKET_BYTES, |place| {
                    packet::emit(&mad, psn, place);
                });
            }
            let Some(news) = self.manager.take_news() else { break };
            news::deliver(self, news, driver);
        }
        while let Some((id, words)) = self.manager.take_testament(driver.port().now()) {
            let words = words.map(|(path, mad)| ManagementDatagram {
                source: path.remote,
                local: path.local,
                traffic_class: path.traffic_class,
                hop_limit: path.hop_limit,
                mad: Box::new(mad),
            });
            membership.bequeath(id, words);
        }
    }
}
