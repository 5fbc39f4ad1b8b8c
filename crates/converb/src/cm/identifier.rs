//! Identifiers: one end of a connection, a listener, or who speaks by datagrams
//! (`struct rdma_cm_id`).

use super::address::{self, device_of};
use super::event::{ConnectionParameters, Event};
use super::switchboard::Switchboard;
use super::{EventChannel, EventKind};
use crate::device::Device;
use crate::error::Error;
use crate::memory_region::RuntimeRef;
use crate::queue_pair::QueuePair;
use crate::runtime::Runtime;
use converb_agent::Service;
use converb_cm::message::{self, EnhancedConnection};
use converb_engine::AddressVector;
use converb_engine::iba;
use converb_wire::{Psn, Qpn};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Whose ports an identifier's are (`enum rdma_port_space`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortSpace {
    /// Of connections.
    Tcp,
    /// Of datagrams.
    Udp,
    /// Of either.
    Ib,
}

impl PortSpace {
    pub(super) const fn on_wire(self) -> message::PortSpace {
        match self {
            Self::Tcp => message::PortSpace::TCP,
            Self::Udp => message::PortSpace::UDP,
            Self::Ib => message::PortSpace::IB,
        }
    }
}

/// What a program may ask of an identifier (rdma_set_option(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The IP traffic class of its packets.
    TypeOfService(u8),
    /// Whether others that say so, too, may have the same port while nobody listens.
    ReuseAddress(bool),
    /// Whether all addresses of IPv6 are no addresses of IPv4.
    OnlyOwnFamily(bool),
    /// The queue pair's ACK timeout, 5 bits.
    AckTimeout(u8),
}

/// One end of a connection, a listener, or who speaks by datagrams.
#[derive(Debug)]
pub struct Identifier {
    space: PortSpace,
    service: iba::Service,
    /// The program's name for it, 0 for none.
    number: AtomicU64,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) state: State,
    pub(super) channel: Arc<EventChannel>,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) device: Option<Arc<Device>>,
    /// The port that the agent has given.
    pub(super) port: Option<Service>,
    /// Our manager's names for it.
    pub(super) listener: Option<u32>,
    pub(super) name: Option<u32>,
    /// The program's to destroy.
    queue_pair: Weak<QueuePair>,
    pub(super) terms: Terms,
    pub(super) traffic_class: u8,
    pub(super) is_reusing: bool,
    pub(super) only_own_family: bool,
    pub(super) ack_timeout: Option<u8>,
    /// What is offered to the peer beyond the specification, and what that has offered.
    pub(super) local_ece: EnhancedConnection,
    pub(super) remote_ece: EnhancedConnection,
    /// The runtime that it belongs to since it has a port or a peer.
    runtime: Option<RuntimeRef>,
}

/// How far an identifier has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Idle,
    Bound,
    Listening,
    AddressResolved,
    RouteResolved,
    /// We have asked.
    Asking,
    /// We have been asked.
    Asked,
    /// It is accepted, here or there.
    Accepted,
    Connected,
    /// Nothing more comes of it, but its end.
    Over,
}

/// What both ends of a connection agree on.
#[derive(Clone, Debug)]
pub(super) struct Terms {
    pub(super) path: Option<AddressVector>,
    pub(super) mtu: iba::Mtu,
    pub(super) remote_qpn: Qpn,
    /// Of the first packet that we send.
    pub(super) send_psn: Psn,
    /// Of the first packet that comes.
    pub(super) receive_psn: Psn,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) retry_count: u8,
    pub(super) rnr_retry_count: u8,
    /// The code of the ACK timeout.
    pub(super) timeout: u8,
    pub(super) queue_key: u32,
}

/// The key of queue pairs for datagrams whose programs name none (`RDMA_UDP_QKEY`).
pub(super) const USUAL_QUEUE_KEY: u32 = 0x0123_4567;
/// A peer that does not acknowledge for half a second is asked again: what Linux takes for RoCE.
pub(super) const USUAL_ACK_TIMEOUT: u8 = 17;

impl Default for Terms {
    fn default() -> Self {
        Self {
            path: None,
            mtu: iba::Mtu::default(),
            remote_qpn: Qpn::new(0),
            send_psn: Psn::new(0),
            receive_psn: Psn::new(0),
            responder_resources: 0,
            initiator_depth: 0,
            retry_count: 7,
            rnr_retry_count: 7,
            timeout: USUAL_ACK_TIMEOUT,
            queue_key: USUAL_QUEUE_KEY,
        }
    }
}

impl Identifier {
    /// A new identifier, whose events go to `channel`.
    pub fn new(channel: &Arc<EventChannel>, space: PortSpace, service: iba::Service) -> Arc<Self> {
        Arc::new(Self {
            space,
            service,
            number: AtomicU64::new(0),
            inner: Mutex::new(Inner {
                state: State::Idle,
                channel: Arc::clone(channel),
                local: None,
                peer: None,
                device: None,
                port: None,
                listener: None,
                name: None,
                queue_pair: Weak::new(),
                terms: Terms::default(),
                traffic_class: 0,
                is_reusing: false,
                only_own_family: false,
                ack_timeout: None,
                local_ece: EnhancedConnection::default(),
                remote_ece: EnhancedConnection::default(),
                runtime: None,
            }),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whose ports it has.
    pub fn space(&self) -> PortSpace {
        self.space
    }

    /// Which service its queue pair gives.
    pub fn service(&self) -> iba::Service {
        self.service
    }

    pub(super) fn is_for_datagrams(&self) -> bool {
        self.service == iba::Service::UnreliableDatagram
    }

    /// The program's name for it.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }

    /// Gives it the program's name.
    pub fn set_number(&self, number: u64) {
        self.number.store(number, Ordering::Release);
    }

    /// Our own address, once it is bound or resolved.
    pub fn local(&self) -> Option<SocketAddr> {
        self.lock().local
    }

    /// The peer's address.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.lock().peer
    }

    /// The device, once an address has decided about it.
    pub fn device(&self) -> Option<Arc<Device>> {
        self.lock().device.clone()
    }

    /// The way to the peer, once there is one.
    pub fn path(&self) -> Option<AddressVector> {
        self.lock().terms.path
    }

    /// The code of the ACK timeout that its queue pair has, or will have.
    pub fn ack_timeout(&self) -> u8 {
        self.lock().terms.timeout
    }

    /// Changes how it behaves.
    ///
    /// # Errors
    /// `Invalid` for what cannot be changed any more.
    pub fn set(&self, setting: Setting) -> Result<(), Error> {
        let mut inner = self.lock();
        match setting {
            Setting::TypeOfService(class) => {
                inner.traffic_class = class;
                if let Some(path) = &mut inner.terms.path {
                    path.traffic_class = class;
                }
            }
            Setting::ReuseAddress(_) | Setting::OnlyOwnFamily(_)
                if !matches!(inner.state, State::Idle | State::Bound) =>
            {
                return Err(Error::Invalid("the identifier is in use already"));
            }
            Setting::OnlyOwnFamily(_) if inner.state != State::Idle => {
                return Err(Error::Invalid("the identifier is bound already"));
            }
            Setting::ReuseAddress(is_reusing) => inner.is_reusing = is_reusing,
            Setting::OnlyOwnFamily(only) => inner.only_own_family = only,
            Setting::AckTimeout(timeout) => {
                if timeout > 31 {
                    return Err(Error::Invalid("an ACK timeout has 5 bits"));
                }
                inner.ack_timeout = Some(timeout);
                inner.terms.timeout = timeout;
            }
        }
        Ok(())
    }

    /// The queue pair that follows the connection from now on, for as long as it lives; or none.
    pub fn attach(&self, queue_pair: Option<&Arc<QueuePair>>) {
        self.lock().queue_pair = queue_pair.map(Arc::downgrade).unwrap_or_default();
    }

    /// The queue pair that follows the connection.
    pub fn queue_pair(&self) -> Option<Arc<QueuePair>> {
        self.lock().queue_pair.upgrade()
    }

    /// Offers the peer what two adapters of one vendor can do beyond the specification, with the next
    /// request or answer (rdma_set_local_ece(3)).
    pub fn offer(&self, enhanced: EnhancedConnection) {
        self.lock().local_ece = enhanced;
    }

    /// What the peer has offered (rdma_get_remote_ece(3)).
    pub fn offered(&self) -> EnhancedConnection {
        self.lock().remote_ece
    }

    /// Takes an address and a port (rdma_bind_addr(3)).
    ///
    /// # Errors
    /// `Invalid` if it has one, `ENODEV` if no device has the address, `EADDRINUSE`.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Error> {
        let device = if address.ip().is_unspecified() { None } else { Some(device_of(address)?) };
        let service = {
            let inner = self.lock();
            if inner.state != State::Idle {
                return Err(Error::Invalid("the identifier is bound already"));
            }
            self.service_at(&inner, address, false)
        };
        let runtime = Runtime::get()?;
        let service = runtime.connections().take_port(self, service)?;
        let mut inner = self.lock();
        let mut address = address;
        address.set_port(service.id.ip_port().map_or(0, |(_, port)| port));
        inner.local = Some(address);
        inner.device = device;
        inner.port = Some(service);
        inner.runtime = Some(RuntimeRef(runtime));
        inner.state = State::Bound;
        Ok(())
    }

    pub(super) fn service_at(&self, inner: &Inner, at: SocketAddr, is_listening: bool) -> Service {
        Service {
            id: message::ServiceId::ip(self.space.on_wire(), at.port()),
            at: address::served_at(at, inner.only_own_family).0,
            is_listening,
            is_shared: inner.is_reusing,
        }
    }

    /// Has the events that come from now on, and those that wait, in another channel
    /// (rdma_migrate_id(3)).
    pub fn migrate(&self, channel: &Arc<EventChannel>) {
        // With the lock nothing is pushed meanwhile.
        let mut inner = self.lock();
        if Arc::ptr_eq(&inner.channel, channel) {
            return;
        }
        for event in inner.channel.withdraw(self) {
            if !core::ptr::eq(Arc::as_ptr(&event.identifier), self) {
                event.identifier.lock().channel = Arc::clone(channel);
            }
            channel.push(event);
        }
        inner.channel = Arc::clone(channel);
    }

    /// The channel that its events go to.
    pub fn channel(&self) -> Arc<EventChannel> {
        Arc::clone(&self.lock().channel)
    }

    pub(super) fn tell(self: &Arc<Self>, inner: &Inner, kind: EventKind, status: i32) {
        inner.channel.push(Event::new(kind, self).with_status(status));
    }
}

impl Inner {
    /// The process's connections, which it is part of from now on.
    ///
    /// # Errors
    /// `Forked` in a child of the process that it belongs to, or why the network cannot be joined.
    pub(super) fn join(&mut self) -> Result<&'static Switchboard, Error> {
        let runtime = match &self.runtime {
            Some(RuntimeRef(runtime)) => runtime,
            None => Runtime::get()?,
        };
        runtime.check()?;
        self.runtime = Some(RuntimeRef(runtime));
        Ok(runtime.connections())
    }

    /// The process's connections, if it is part of them.
    pub(super) fn joined(&self) -> Option<&'static Switchboard> {
        let RuntimeRef(runtime) = self.runtime.as_ref()?;
        runtime.is_ours().then(|| runtime.connections())
    }

    /// What a queue pair of its own says better than the program.
    pub(super) fn of_queue_pair(&self, parameters: &ConnectionParameters) -> (Qpn, bool) {
        match self.queue_pair.upgrade() {
            Some(own) => (own.qpn(), own.options().shared_receives.is_some()),
            None => (parameters.qpn, parameters.has_shared_receives),
        }
    }
}
