//! The side that asks: from an address to a connection.

use super::EventKind;
use super::address::{device_of, mapped, on_wire, source_for};
use super::event::ConnectionParameters;
use super::identifier::{Identifier, Inner, State};
use super::switchboard::{Core, HOP_LIMIT};
use crate::attributes::DeviceAttributes;
use crate::device::Device;
use crate::error::Error;
use crate::runtime::Runtime;
use converb_cm::message::{
    self, IpAddresses, IpHeader, Path, PrivateData, ServiceId, TransportServiceType,
};
use converb_driver::Port;
use converb_engine::AddressVector;
use converb_engine::iba::Service;
use converb_wire::{Gid, Lid, Psn};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

/// How long a peer's manager may take: 1.07 s, as a code. One whose program takes longer says so.
pub(super) const RESPONSE_TIMEOUT: u8 = 18;
/// How often a message is sent again, 4 bits.
pub(super) const MANAGER_RETRIES: u8 = 15;
/// The only partition.
pub(super) const PARTITION_KEY: u16 = 0xffff;
/// On Ethernet there are no local identifiers.
const NO_LID: Lid = Lid(0xffff);

impl Identifier {
    /// Finds the device behind which the peer is, and our own address towards it
    /// (rdma_resolve_addr(3)). What comes of it is an event.
    ///
    /// # Errors
    /// `Invalid` if it has a peer already, and as for [`bind`](Self::bind) if `source` is given.
    pub fn resolve_address(
        self: &Arc<Self>,
        source: Option<SocketAddr>,
        peer: SocketAddr,
    ) -> Result<(), Error> {
        let state = self.lock().state;
        if !matches!(state, State::Idle | State::Bound) {
            return Err(Error::Invalid("the identifier has resolved an address already"));
        }
        if let Some(source) = source.filter(|_| state == State::Idle) {
            if source.port() != 0 {
                self.bind(source)?;
            } else if !source.ip().is_unspecified() {
                device_of(source)?;
                self.lock().local = Some(source);
            }
        }
        let mut inner = self.lock();
        match find_way(&inner, peer) {
            Ok((device, local, peer)) => {
                inner.device = Some(device);
                (inner.local, inner.peer) = (Some(local), Some(peer));
                inner.state = State::AddressResolved;
                self.settle_way(&mut inner)?;
                self.tell(&inner, EventKind::AddressResolved, 0);
            }
            Err(error) => self.tell(&inner, EventKind::AddressError, -error.errno()),
        }
        Ok(())
    }

    /// Everything that the addresses decide.
    fn settle_way(&self, inner: &mut Inner) -> Result<(), Error> {
        let (Some(local), Some(peer)) = (inner.local, inner.peer) else { return Ok(()) };
        if local.port() == 0 {
            let port = inner.join()?.pick_port();
            inner.local.iter_mut().for_each(|local| local.set_port(port));
        }
        inner.terms.path = Some(AddressVector {
            local: on_wire(local),
            remote: on_wire(peer),
            traffic_class: inner.traffic_class,
            hop_limit: HOP_LIMIT,
            flow_label: 0,
            service_level: 0,
        });
        if let Some(device) = &inner.device {
            inner.terms.mtu = device.port().active_mtu;
        }
        inner.terms.send_psn = random_psn()?;
        Ok(())
    }

    /// Finds the route to the peer, which the addresses have decided (rdma_resolve_route(3)). It is
    /// told by an event.
    ///
    /// # Errors
    /// `Invalid` before the address is resolved.
    pub fn resolve_route(self: &Arc<Self>) -> Result<(), Error> {
        let mut inner = self.lock();
        if inner.state != State::AddressResolved {
            return Err(Error::Invalid("the identifier has not resolved an address"));
        }
        inner.state = State::RouteResolved;
        self.tell(&inner, EventKind::RouteResolved, 0);
        Ok(())
    }

    /// Asks for a connection, or for the peer's queue pair for datagrams (rdma_connect(3)). What
    /// comes of it is an event.
    ///
    /// # Errors
    /// `Invalid` before the route is resolved, or for parameters beyond their ranges.
    pub fn connect(self: &Arc<Self>, parameters: &ConnectionParameters) -> Result<(), Error> {
        if self.is_for_datagrams() {
            return self.ask(parameters);
        }
        let parameters = &limited(parameters, DeviceAttributes::ALL.max_reads, None)?;
        let switchboard = self.lock().join()?;
        switchboard.attempt(|core, now| {
            let mut inner = self.lock();
            if inner.state != State::RouteResolved {
                return Err(Error::Invalid("the identifier has not resolved a route"));
            }
            let request = self.request(&mut inner, parameters)?;
            let path = inner.terms.path.ok_or(Error::Empty)?;
            let name = core
                .manager
                .connect(request, path, now)
                .map_err(|_| Error::TooMany("connections"))?;
            self.begin_asking(core, &mut inner, name);
            Ok(())
        })
    }

    /// The peer has been asked, under this name.
    pub(super) fn begin_asking(self: &Arc<Self>, core: &mut Core, inner: &mut Inner, name: u32) {
        inner.name = Some(name);
        inner.state = State::Asking;
        core.named.insert(name, Arc::clone(self));
    }

    /// The REQ.
    fn request(
        &self,
        inner: &mut Inner,
        parameters: &ConnectionParameters,
    ) -> Result<message::Request, Error> {
        let (qpn, srq) = inner.of_queue_pair(parameters);
        let device = inner.device.as_ref().ok_or(Error::Empty)?;
        let local_ca_guid = device.node_guid();
        inner.terms.retry_count = parameters.retry_count & 7;
        let terms = &inner.terms;
        let path = terms.path.ok_or(Error::Empty)?;
        Ok(message::Request {
            enhanced: inner.local_ece,
            service_id: self.peers_service(inner)?,
            local_ca_guid,
            local_qpn: qpn,
            responder_resources: parameters.responder_resources,
            initiator_depth: parameters.initiator_depth,
            remote_cm_response_timeout: RESPONSE_TIMEOUT,
            transport_service_type: match self.service() {
                Service::UnreliableConnection => TransportServiceType::UNRELIABLE_CONNECTION,
                _ => TransportServiceType::RELIABLE_CONNECTION,
            },
            end_to_end_flow_control: parameters.flow_control,
            starting_psn: terms.send_psn,
            local_cm_response_timeout: RESPONSE_TIMEOUT,
            retry_count: parameters.retry_count & 7,
            partition_key: PARTITION_KEY,
            path_packet_payload_mtu: terms.mtu as u8,
            rnr_retry_count: parameters.rnr_retry_count & 7,
            max_cm_retries: MANAGER_RETRIES,
            srq,
            primary: described(&path, terms.timeout),
            private_data: self.private_data(inner, &parameters.private_data)?,
            ..message::Request::default()
        })
    }

    /// The service that a peer is asked for.
    pub(super) fn peers_service(&self, inner: &Inner) -> Result<ServiceId, Error> {
        let peer = inner.peer.ok_or(Error::Empty)?;
        Ok(ServiceId::ip(self.space().on_wire(), peer.port()))
    }

    /// The program's words behind the addresses (IBA A11.4).
    pub(super) fn private_data<const LIMIT: usize>(
        &self,
        inner: &Inner,
        words: &[u8],
    ) -> Result<PrivateData<LIMIT>, Error> {
        let (local, peer) = inner.local.zip(inner.peer).ok_or(Error::Empty)?;
        let header = IpHeader {
            minor_version: 0,
            source_port: local.port(),
            addresses: match (canonical(local), canonical(peer)) {
                (IpAddr::V4(source), IpAddr::V4(destination)) => {
                    IpAddresses::V4 { source, destination }
                }
                (source, destination) => {
                    IpAddresses::V6 { source: mapped(source), destination: mapped(destination) }
                }
            },
        };
        header.before(words).map_err(|_| Error::Invalid("the private data is too long"))
    }

    /// Tells the peer that its acceptance is good, where no queue pair of the identifier's follows by
    /// itself (rdma_establish(3)).
    ///
    /// # Errors
    /// `Invalid` unless the peer has accepted.
    pub fn establish(&self) -> Result<(), Error> {
        let (switchboard, name) = self.named()?;
        switchboard.attempt(|core, now| {
            let mut inner = self.lock();
            core.manager
                .decide(name, |connection, out| connection.ready(PrivateData::EMPTY, now, out))
                .map_err(|_| Error::Invalid("the peer has not accepted"))?;
            inner.state = State::Connected;
            Ok(())
        })
    }
}

/// The device that leads to a peer, our own address towards it, and the peer's.
fn find_way(
    inner: &Inner,
    peer: SocketAddr,
) -> Result<(Arc<Device>, SocketAddr, SocketAddr), Error> {
    let bound = inner.local.filter(|local| !local.ip().is_unspecified());
    let mut local = source_for(peer, bound).map_err(Error::system("find a route"))?;
    if let Some(own) = inner.local {
        local.set_port(own.port());
    }
    let mut peer = peer;
    if peer.ip().is_unspecified() {
        // As with connect(2): this host.
        peer.set_ip(local.ip());
    }
    Ok((device_of(local)?, local, peer))
}

/// The parameters with numbers where they ask for as many READs as there may be: as the peer can
/// have, and as the device can.
///
/// # Errors
/// `Invalid` for more than the device can have.
pub(super) fn limited(
    parameters: &ConnectionParameters,
    device: u8,
    peer: Option<(u8, u8)>,
) -> Result<ConnectionParameters, Error> {
    let (answered, asked) = peer.unwrap_or((device, device));
    let limit = |wanted: u8, by_peer: u8| match wanted {
        ConnectionParameters::ALL_READS => Ok(by_peer.min(device)),
        wanted if wanted > device => {
            Err(Error::Invalid("more READs at a time than the device can have"))
        }
        wanted => Ok(wanted),
    };
    Ok(ConnectionParameters {
        responder_resources: limit(parameters.responder_resources, answered)?,
        initiator_depth: limit(parameters.initiator_depth, asked)?,
        ..parameters.clone()
    })
}

pub(super) fn random_psn() -> Result<Psn, Error> {
    Ok(Psn::new(Runtime::get()?.driver().port().random() as u32))
}

fn described(path: &AddressVector, timeout: u8) -> Path {
    let gid = |address| match address {
        converb_engine::Address::Udp { ip, .. } => Gid(Ipv6Addr::octets(&ip)),
        _ => Gid::default(),
    };
    Path {
        local_lid: NO_LID,
        remote_lid: NO_LID,
        local_gid: gid(path.local),
        remote_gid: gid(path.remote),
        flow_label: path.flow_label,
        packet_rate: RATE_40_GIGABITS,
        traffic_class: path.traffic_class,
        hop_limit: path.hop_limit,
        service_level: path.service_level,
        subnet_local: false,
        local_ack_timeout: timeout,
    }
}

/// `IBV_RATE_40_GBPS`: there is no rate to keep to, and this is of the kind that Linux names.
const RATE_40_GIGABITS: u8 = 7;

fn canonical(address: SocketAddr) -> IpAddr {
    address.ip().to_canonical()
}
