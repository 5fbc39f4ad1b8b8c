//! The port: slot sockets to receive by, senders, and what they share.

use super::arriving::Arriving;
use super::destination::Destinations;
use super::error::PortError;
use super::faults::{ArrivingFaults, DepartingFaults};
use super::incoming::Incoming;
use super::mending::Mending;
use super::outgoing::{Departure, Outgoing};
use super::recorder::Recorder;
use super::relay::Relay;
use super::sender::Senders;
use super::settings::Settings;
use super::waiting::{SLOTS_MAX, Waker, Watched};
use crate::capture::Capture;
use crate::clock;
use crate::counters::Counters;
use crate::fault::{Faults, NEVER};
use crate::kept::Kept;
use crate::memory::ProgramMemory;
use crate::random::random;
use crate::signal::EventSignal;
use crate::socket::{Family, family_of, local_port, open_sender, prepare_slot_socket};
use converb_driver::{Interest, Port, Received, Sent, Woken};
use converb_engine::Time;
use converb_wire::ROCE_V2_PORT;
use core::sync::atomic::AtomicU64;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// A slot of ours.
#[derive(Debug)]
pub struct Slot {
    /// The high 10 bits of the queue pair numbers that are received here.
    pub index: u16,
    /// The member of the group of sockets that the kernel gives packets for them to.
    pub socket: OwnedFd,
}

/// RoCEv2 over UDP sockets.
pub struct UdpPort {
    pub(super) sockets: Vec<Arriving>,
    slots: Vec<u16>,
    pub(super) departure: Arc<Departure>,
    pub(super) counters: Arc<Counters>,
    pub(super) waker: Arc<Waker>,
    pub(super) settings: Settings,
    /// When packets that were delayed on purpose come in next.
    arriving_due: Arc<AtomicU64>,
    pub(super) relay: OnceLock<Box<dyn Relay>>,
    pub(super) mending: Mending,
    memory: ProgramMemory,
    receive_buffer_bytes: usize,
}

impl UdpPort {
    /// A port that receives by these slots. Their sockets are bound already; they are neither
    /// connected nor bound to a device here, which would take them out of their group.
    ///
    /// # Errors
    /// When a descriptor is no UDP socket, the kernel lacks an option without which the invariant
    /// CRC cannot be checked, or there are no descriptors left. `INVAL`: more than 32 slots. When
    /// the settings name a file that cannot be written.
    pub fn new(slots: Vec<Slot>, settings: Settings) -> Result<Self, PortError> {
        let mut receive_buffer_bytes = usize::MAX;
        let mut sockets = Vec::with_capacity(slots.len());
        for slot in slots {
            let Slot { index, socket } = slot;
            let bytes = prepare_slot_socket(socket.as_fd(), settings.receive_buffer_bytes_max)?;
            receive_buffer_bytes = receive_buffer_bytes.min(bytes);
            let port = local_port(socket.as_fd())?;
            sockets.push(Arriving::by_socket(Slot { index, socket }, port));
        }
        Self::over(sockets, receive_buffer_bytes, settings)
    }

    /// Keeps places for slots that others own now, as far as there is room: see
    /// [`occupy`](Self::occupy).
    pub fn keep_places(&mut self, slots: impl IntoIterator<Item = u16>) {
        let Some(port) = self.sockets.first().map(|first| first.port) else { return };
        for index in slots {
            let is_known = self.sockets.iter().any(|arriving| arriving.index == index);
            if !is_known && self.sockets.len() < SLOTS_MAX {
                self.sockets.push(Arriving::vacant(index, port));
            }
        }
    }

    /// Receives by slot `index` as well from now on; one thread at a time says so. New queue pairs
    /// get no numbers of it.
    ///
    /// # Errors
    /// `INVAL`: there is no place for it, or it is no slot's socket.
    pub fn occupy(&self, index: u16, socket: OwnedFd) -> Result<(), Errno> {
        let place = self.sockets.iter().find(|arriving| arriving.index == index);
        let vacant = place.filter(|arriving| arriving.is_vacant()).ok_or(Errno::INVAL)?;
        vacant.occupy(socket, self.settings.receive_buffer_bytes_max)?;
        self.waker.wake();
        Ok(())
    }

    /// Whether it receives by slot `index`.
    pub fn receives_by(&self, index: u16) -> bool {
        self.sockets.iter().any(|arriving| arriving.index == index && !arriving.is_vacant())
    }

    /// A port that receives what the agent carries to it: each socket is one end of a pair that a
    /// [`Carrier`](crate::Carrier) feeds. `receive_buffer_bytes` is what the slots' own sockets
    /// have room for.
    ///
    /// # Errors
    /// When there are no descriptors left. `INVAL`: more than 32 slots. When the settings name a
    /// file that cannot be written.
    pub fn carried(
        slots: Vec<Slot>,
        receive_buffer_bytes: usize,
        settings: Settings,
    ) -> Result<Self, PortError> {
        let arriving = |slot| Arriving::by_agent(slot, ROCE_V2_PORT);
        Self::over(slots.into_iter().map(arriving).collect(), receive_buffer_bytes, settings)
    }

    /// Another agent carries now: packets for slot `index` come by `socket` from now on.
    ///
    /// # Errors
    /// `INVAL`: nobody carries for this port, or it has no such slot.
    pub fn renew(&self, index: u16, socket: OwnedFd) -> Result<(), Errno> {
        let arriving = self.sockets.iter().find(|arriving| arriving.index == index);
        let carried = arriving.filter(|arriving| !arriving.is_own()).ok_or(Errno::INVAL)?;
        carried.replace(socket, None)?;
        self.waker.wake();
        Ok(())
    }

    fn over(
        sockets: Vec<Arriving>,
        receive_buffer_bytes: usize,
        settings: Settings,
    ) -> Result<Self, PortError> {
        if sockets.len() > SLOTS_MAX {
            return Err(Errno::INVAL.into());
        }
        // A slot's own socket also stands in for senders; one of a pair cannot.
        let own = sockets.first().filter(|arriving| arriving.is_own());
        let own = own.and_then(|first| Some((first.socket.get()?, first.port)));
        let family = match own {
            Some((socket, _)) => family_of(socket)?,
            None if open_sender(Family::Dual, 0).is_ok() => Family::Dual,
            None => Family::Inet4,
        };
        let fallback =
            own.and_then(|(socket, port)| Some((socket.try_clone_to_owned().ok()?, port)));
        let counters = Arc::new(Counters::default());
        let waker = Arc::new(Waker::new()?);
        let capture = settings.capture.as_deref().map(open_capture).transpose()?;
        let recorder = Recorder::new(capture.map(Arc::new), Arc::clone(&counters));
        let Faults { seed, send, .. } = settings.faults;
        let faults = (!send.is_none()).then(|| DepartingFaults::new(send, seed));
        let departure = Departure {
            senders: Senders::new(family, fallback),
            destinations: Destinations::default(),
            counters: Arc::clone(&counters),
            destination_port: settings.destination_port,
            // What happens to packets happens to each by itself.
            is_plain: !settings.is_segmenting || faults.is_some(),
            faults,
            recorder,
            waker: Arc::clone(&waker),
        };
        Ok(Self {
            slots: sockets.iter().map(|arriving| arriving.index).collect(),
            sockets,
            departure: Arc::new(departure),
            counters,
            waker,
            settings,
            arriving_due: Arc::new(AtomicU64::new(NEVER)),
            relay: OnceLock::new(),
            mending: Mending::default(),
            memory: ProgramMemory::new(),
            receive_buffer_bytes,
        })
    }

    /// Gives the port the way to the other processes of this host. Only the first one counts.
    pub fn set_relay(&self, relay: Box<dyn Relay>) {
        let _ = self.relay.set(relay);
    }

    /// Sends what is delayed on purpose now, since the process ends. Waits for no lock of ours
    /// that a thread could hold for long.
    pub fn send_delayed(&self) {
        if let Some(faults) = &self.departure.faults {
            faults.flush_all(&self.departure);
        }
        self.departure.recorder.flush();
    }

    /// What this port has counted.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Closes all descriptors in a fork child, where they would keep the parent's slots open after
    /// its end. For ever: what is called on the port afterwards fails as if the program had
    /// closed them. Takes no lock, for a fork child may find any lock taken.
    pub fn abandon_in_child(&'static self) {
        for arriving in &self.sockets {
            arriving.socket.clear();
        }
        self.departure.senders.descriptors().for_each(Kept::clear);
        self.waker.descriptor().clear();
        self.departure.recorder.descriptor().into_iter().for_each(Kept::clear);
    }

    fn watched<'a>(&'a self, signal: Option<BorrowedFd<'a>>) -> Watched<'a> {
        Watched {
            waker: &self.waker,
            sockets: &self.sockets,
            relay: self.relay.get().map(Box::as_ref),
            signal,
            counters: &self.counters,
            departure: &self.departure,
            arriving_due: &self.arriving_due,
        }
    }
}

fn open_capture(file: &Path) -> Result<Capture, PortError> {
    Capture::open(file).map_err(|error| PortError::Capture { file: file.into(), error })
}

impl Port for UdpPort {
    type Outgoing = Outgoing;
    type Incoming = Incoming;
    type Memory = ProgramMemory;
    type Signal = EventSignal;

    fn new_outgoing(&self) -> Outgoing {
        Outgoing::new(Arc::clone(&self.departure))
    }

    fn new_incoming(&self) -> Incoming {
        let Faults { seed, receive, .. } = self.settings.faults;
        let faults = (!receive.is_none())
            .then(|| ArrivingFaults::new(receive, seed, Arc::clone(&self.arriving_due)));
        Incoming::new(faults, self.departure.recorder.clone())
    }

    fn is_empty(&self, batch: &Outgoing) -> bool {
        batch.is_empty()
    }

    fn send(&self, batch: &mut Outgoing) -> Sent {
        batch.send()
    }

    fn receive(&self, batch: &mut Incoming) -> bool {
        self.departure.flush_if_due();
        let mut has_received = batch.receive(&self.sockets, &self.counters);
        if let Some(relay) = self.relay.get() {
            has_received |= batch.take_over(relay.as_ref(), &self.counters);
        }
        has_received |= batch.release_delayed();
        has_received
    }

    fn next<'a>(&self, batch: &'a mut Incoming) -> Option<Received<'a>> {
        batch.next(&self.sockets, &self.counters)
    }

    fn wait(&self, interest: Interest) -> Woken {
        self.wait_on(&self.watched(None), interest)
    }

    fn wait_with(&self, signal: &EventSignal, interest: Interest) -> Woken {
        self.wait_on(&self.watched(Some(signal.as_fd())), interest)
    }

    fn wake(&self) {
        self.waker.wake();
    }

    #[inline]
    fn mend(&self) {
        if self.has_lost_descriptors() {
            self.mend_now();
        }
    }

    fn doubt(&self) {
        let _ = self.doubt_descriptors();
    }

    fn memory(&self) -> &ProgramMemory {
        &self.memory
    }

    fn now(&self) -> Time {
        Time::from_nanoseconds(clock::now())
    }

    fn slots(&self) -> &[u16] {
        &self.slots
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }

    fn random(&self) -> u64 {
        random()
    }

    fn pass_on(&self, slot: u16, packet: &Received<'_>) -> bool {
        let passed = self.relay.get().is_some_and(|relay| relay.pass_on(slot, packet));
        self.counters.passed_on_packets.add(u64::from(passed));
        passed
    }
}
