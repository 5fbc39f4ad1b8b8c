//! `struct rdma_cm_id`, and `struct rdma_event_channel`.

use super::queue_pair::{RELIABLE_CONNECTION, UNRELIABLE_DATAGRAM, service};
use super::{DeviceObject, ProtectionDomainObject, QueuePairObject, c_object};
use crate::guard::Errno;
use crate::layout::*;
use crate::{address, socket_address};
use converb::cm::{EventChannel, Identifier, PortSpace};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// An event channel as programs see it.
#[repr(C)]
pub(crate) struct EventChannelObject {
    public: UnsafeCell<rdma_event_channel>,
    channel: Arc<EventChannel>,
}

c_object!(EventChannelObject, rdma_event_channel);

impl EventChannelObject {
    pub(crate) fn allocate() -> Result<*mut rdma_event_channel, Errno> {
        let channel = EventChannel::new()?;
        let public = UnsafeCell::new(rdma_event_channel { fd: channel.descriptor().as_raw_fd() });
        Ok(Self { public, channel }.into_pointer())
    }

    pub(crate) fn channel(&self) -> &Arc<EventChannel> {
        &self.channel
    }
}

/// An identifier as programs see it.
#[repr(C)]
pub(crate) struct IdentifierObject {
    public: UnsafeCell<rdma_cm_id>,
    identifier: Arc<Identifier>,
    own: Mutex<Own>,
    /// Events that the program has and has not acknowledged.
    unacknowledged: Mutex<u32>,
    acknowledged: Condvar,
}

c_object!(IdentifierObject, rdma_cm_id);

/// What an identifier keeps for the program.
#[derive(Default)]
pub(crate) struct Own {
    /// The channel is ours: calls wait for what comes of them.
    pub(crate) is_synchronous: bool,
    /// With what the queue pairs of those are created that ask this listener (rdma_create_ep(3)).
    pub(crate) initial: Option<ibv_qp_init_attr>,
    /// What is said to the peer if the program says nothing itself.
    pub(crate) words: Vec<u8>,
    /// Whether the completion queues in the public part were made by us.
    pub(crate) has_send_queue: bool,
    pub(crate) has_receive_queue: bool,
    path_record: Option<Box<ibv_sa_path_rec>>,
    /// What the program had put there when it was looked at last.
    queue_pair: Option<*mut ibv_qp>,
}

// SAFETY: the pointers inside are the program's, which says by its calls when they are used.
unsafe impl Send for Own {}

/// `enum rdma_port_space`.
pub(crate) fn port_space(code: c_int) -> Result<PortSpace, Errno> {
    match code {
        0x0106 => Ok(PortSpace::Tcp),
        0x0111 => Ok(PortSpace::Udp),
        0x013f => Ok(PortSpace::Ib),
        // RDMA_PS_IPOIB is of InfiniBand's networks.
        0x0002 => Err(Errno::NOT_SUPPORTED),
        _ => Err(Errno(libc::EPROTONOSUPPORT)),
    }
}

/// The kind of queue pair that belongs to a port space, unless the program says another one.
pub(crate) fn queue_pair_kind(space: PortSpace) -> c_int {
    match space {
        PortSpace::Udp => UNRELIABLE_DATAGRAM,
        PortSpace::Tcp | PortSpace::Ib => RELIABLE_CONNECTION,
    }
}

impl IdentifierObject {
    /// A new identifier. Without a channel it gets one of its own, and is synchronous.
    ///
    /// # Safety
    /// The channel is null or alive.
    pub(crate) unsafe fn allocate(
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        space: c_int,
        kind: Option<c_int>,
    ) -> Result<*mut rdma_cm_id, Errno> {
        let ports = port_space(space)?;
        let kind = kind.unwrap_or(queue_pair_kind(ports));
        let service = service(kind)?;
        let is_synchronous = channel.is_null();
        let channel = if is_synchronous { EventChannelObject::allocate()? } else { channel };
        // SAFETY: the channel is alive.
        let inner = unsafe { EventChannelObject::from_pointer(channel) }.channel();
        let identifier = Identifier::new(inner, ports, service);
        let pointer = Self::of(identifier, channel, context, space, kind);
        // SAFETY: it was made above.
        unsafe { Self::from_pointer(pointer) }.own().is_synchronous = is_synchronous;
        Ok(pointer)
    }

    /// The identifier of a request that came to a listener.
    ///
    /// # Safety
    /// The listener is alive.
    pub(crate) unsafe fn of_request(
        identifier: Arc<Identifier>,
        listener: *mut rdma_cm_id,
    ) -> *mut rdma_cm_id {
        // SAFETY: the caller's promise.
        let (channel, context, space, kind) = unsafe {
            ((*listener).channel, (*listener).context, (*listener).ps, (*listener).qp_type)
        };
        Self::of(identifier, channel, context, space, kind)
    }

    fn of(
        identifier: Arc<Identifier>,
        channel: *mut rdma_event_channel,
        context: *mut c_void,
        space: c_int,
        kind: c_int,
    ) -> *mut rdma_cm_id {
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let mut public: rdma_cm_id = unsafe { core::mem::zeroed() };
        public.channel = channel;
        public.context = context;
        public.ps = space;
        public.qp_type = kind;
        let pointer = Self {
            public: UnsafeCell::new(public),
            identifier,
            own: Mutex::default(),
            unacknowledged: Mutex::new(0),
            acknowledged: Condvar::new(),
        }
        .into_pointer();
        // SAFETY: it was made above.
        let object = unsafe { Self::from_pointer(pointer) };
        object.identifier.set_number(pointer.expose_provenance() as u64);
        pointer
    }

    /// The program's pointer to an identifier; null if it has none yet.
    pub(crate) fn pointer_of(identifier: &Identifier) -> *mut rdma_cm_id {
        core::ptr::with_exposed_provenance_mut(identifier.number() as usize)
    }

    pub(crate) fn identifier(&self) -> &Arc<Identifier> {
        &self.identifier
    }

    pub(crate) fn own(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes into the public part what is known by now: addresses, the device, its port.
    pub(crate) fn publish(&self) -> Result<(), Errno> {
        let public = self.public.get();
        let identifier = &self.identifier;
        // SAFETY: the program reads these after the call or the event that changes them.
        let route = unsafe { &mut (*public).route };
        if let Some(local) = identifier.local() {
            route.addr.src_storage = socket_address::write(local);
        }
        if let Some(peer) = identifier.peer() {
            route.addr.dst_storage = socket_address::write(peer);
        }
        let Some(device) = identifier.device() else { return Ok(()) };
        let shared = DeviceObject::of(device).shared()?;
        // SAFETY: as above.
        unsafe {
            (*public).verbs = shared.context;
            (*public).port_num = converb::PORT;
            if (*public).pd.is_null() {
                (*public).pd = shared.domain;
            }
        }
        if let Some(path) = identifier.path() {
            route.addr.addr.sgid = address::gid_of(&path.local);
            route.addr.addr.dgid = address::gid_of(&path.remote);
            route.addr.addr.pkey = PARTITION_KEY.to_be();
        }
        Ok(())
    }

    /// Writes the path that the route takes.
    pub(crate) fn publish_path(&self) {
        let (Some(path), Some(device)) = (self.identifier.path(), self.identifier.device()) else {
            return;
        };
        let record = ibv_sa_path_rec {
            dgid: address::gid_of(&path.remote),
            sgid: address::gid_of(&path.local),
            dlid: 0,
            slid: 0,
            raw_traffic: 0,
            flow_label: path.flow_label.to_be(),
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
            reversible: 1,
            numb_path: 1,
            pkey: PARTITION_KEY.to_be(),
            sl: path.service_level,
            mtu_selector: EXACTLY,
            mtu: device.port().active_mtu as u8,
            rate_selector: EXACTLY,
            rate: 0,
            packet_life_time_selector: EXACTLY,
            // An ACK comes after a packet's life and another's.
            packet_life_time: self.identifier.ack_timeout().saturating_sub(1),
            preference: 0,
        };
        let mut own = self.own();
        let place = own.path_record.insert(Box::new(record));
        let public = self.public.get();
        // SAFETY: the program reads these after the event that changes them.
        unsafe {
            (*public).route.path_rec = &raw mut **place;
            (*public).route.num_paths = 1;
        }
    }

    /// Tells the identifier which queue pair the program has put into the public part. One that it
    /// has destroyed may still stand there, so it is looked at only when it is another one.
    ///
    /// # Safety
    /// A queue pair that was put there since the last call is alive.
    pub(crate) unsafe fn take_queue_pair(&self) {
        // SAFETY: the program does not change it during a call.
        let queue_pair = unsafe { (*self.public.get()).qp };
        let mut own = self.own();
        if own.queue_pair.replace(queue_pair) == Some(queue_pair) {
            return;
        }
        let inner = (!queue_pair.is_null()).then(|| {
            // SAFETY: the caller's promise.
            unsafe { QueuePairObject::from_smaller(queue_pair) }.queue_pair()
        });
        self.identifier.attach(inner);
    }

    /// Keeps the public state of the queue pair true.
    pub(crate) fn publish_state(&self) {
        let Some(inner) = self.identifier.queue_pair() else { return };
        // SAFETY: the program does not change it during a call.
        let queue_pair = unsafe { (*self.public.get()).qp };
        if self.own().queue_pair == Some(queue_pair) {
            // SAFETY: it is the one that is attached, which lives.
            unsafe { (*queue_pair).state = inner.state() as c_int };
        }
    }

    /// The program destroys its queue pair.
    pub(crate) fn lose_queue_pair(&self) {
        self.own().queue_pair = None;
        self.identifier.attach(None);
    }

    /// An event is about to be given to the program.
    pub(crate) fn claim(&self) {
        *self.unacknowledged.lock().unwrap_or_else(PoisonError::into_inner) += 1;
    }

    /// The program has acknowledged an event.
    pub(crate) fn acknowledge(&self) {
        let mut left = self.unacknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.saturating_sub(1);
        self.acknowledged.notify_all();
    }

    /// Waits until the program has acknowledged all its events.
    pub(crate) fn wait_acknowledged(&self) {
        let left = self.unacknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.acknowledged.wait_while(left, |left| *left > 0);
        drop(all.unwrap_or_else(PoisonError::into_inner));
    }

    /// The protection domain that a program means: its own, or that of the device.
    ///
    /// # Safety
    /// The domain is null or alive.
    pub(crate) unsafe fn domain(&self, domain: *mut ibv_pd) -> Result<*mut ibv_pd, Errno> {
        let public = self.public.get();
        // SAFETY: the program does not change them during a call.
        let (verbs, usual) = unsafe { ((*public).verbs, (*public).pd) };
        let domain = if domain.is_null() { usual } else { domain };
        if domain.is_null() || verbs.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the caller's promise.
        if unsafe { ProtectionDomainObject::from_pointer(domain) }.context_pointer() != verbs {
            return Err(Errno::INVALID);
        }
        Ok(domain)
    }
}

/// The only partition.
const PARTITION_KEY: u16 = 0xffff;
/// A selector of path records: the value and nothing else.
const EXACTLY: u8 = 2;
