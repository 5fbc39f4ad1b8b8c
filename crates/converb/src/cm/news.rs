//! What the connection manager has to tell, as events of identifiers.

use super::active::random_psn;
use super::address::{device_of, of_packet};
use super::event::{ConnectionParameters, DatagramParameters, Event, EventKind, Parameters};
use super::identifier::{Identifier, State};
use super::switchboard::Core;
use crate::runtime::Driver;
use converb_cm::connection::Event as Happening;
use converb_cm::manager::News;
use converb_cm::message::{
    IpHeader, PrivateData, Reason, Reply, Request, ServiceReply, ServiceRequest, ServiceStatus,
    TransportServiceType,
};
use converb_driver::Port;
use converb_engine::AddressVector;
use converb_engine::iba::{Mtu, Service};
use std::sync::Arc;

/// Tells the identifier that the news are about.
pub(super) fn deliver(core: &mut Core, news: News, driver: &Driver) {
    match news {
        News::Requested { listener, id, request, path } => {
            if let Err(reason) = requested(core, listener, id, &request, path) {
                let _ = core.reject(id, reason, PrivateData::EMPTY, driver.port().now());
            }
        }
        News::Asked { listener, id, request, path } => {
            if asked(core, listener, id, &request, path).is_err() {
                core.manager.release_resolution(id, driver.port().now());
            }
        }
        News::Resolved { id, reply } => {
            if let Some(identifier) = core.named.get(&id) {
                resolved(identifier, reply.as_deref());
            }
        }
        News::Happened { id, event } => {
            if let Some(identifier) = core.named.get(&id) {
                happened(identifier, event);
            }
        }
    }
}

/// A new identifier for who asks a listener, with its event.
fn arrived(
    core: &mut Core,
    listener: u32,
    id: u32,
    source_port: u16,
    path: AddressVector,
) -> Option<(Arc<Identifier>, Arc<Identifier>)> {
    let listener = Arc::clone(core.listeners.get(&listener)?);
    let asked = listener.lock();
    let new = Identifier::new(&asked.channel, listener.space(), listener.service());
    let local = of_packet(path.local, asked.local.map_or(0, |local| local.port()));
    {
        let mut inner = new.lock();
        inner.device = Some(device_of(local).ok()?);
        inner.local = Some(local);
        inner.peer = Some(of_packet(path.remote, source_port));
        inner.state = State::Asked;
        inner.name = Some(id);
        inner.traffic_class = asked.traffic_class;
        inner.terms.path = Some(AddressVector { traffic_class: asked.traffic_class, ..path });
        inner.terms.mtu = inner.device.as_ref()?.port().active_mtu;
        inner.join().ok()?;
        inner.terms.send_psn = random_psn().ok()?;
        if let Some(timeout) = asked.ack_timeout {
            (inner.ack_timeout, inner.terms.timeout) = (Some(timeout), timeout);
        }
    }
    drop(asked);
    core.named.insert(id, Arc::clone(&new));
    Some((listener, new))
}

/// REQ.
fn requested(
    core: &mut Core,
    listener: u32,
    id: u32,
    request: &Request,
    path: AddressVector,
) -> Result<(), Reason> {
    let (header, words) = IpHeader::parse(request.private_data.as_bytes())
        .map_err(|_| Reason::UNSUPPORTED_REQUEST)?;
    let service = core.listeners.get(&listener).map(|listener| listener.service());
    let wanted = match service {
        Some(Service::ReliableConnection) => TransportServiceType::RELIABLE_CONNECTION,
        Some(Service::UnreliableConnection) => TransportServiceType::UNRELIABLE_CONNECTION,
        _ => return Err(Reason::INVALID_SERVICE_ID),
    };
    if request.transport_service_type != wanted {
        return Err(Reason::INVALID_TRANSPORT_SERVICE_TYPE);
    }
    let mtu =
        Mtu::from_code(request.path_packet_payload_mtu.into()).ok_or(Reason::INVALID_PATH_MTU)?;
    let (listener, new) =
        arrived(core, listener, id, header.source_port, path).ok_or(Reason::NO_RESOURCES)?;
    let parameters = ConnectionParameters {
        private_data: words.to_vec(),
        // What the peer wants to have in flight is for us to answer, and the other way round.
        responder_resources: request.initiator_depth,
        initiator_depth: request.responder_resources,
        flow_control: request.end_to_end_flow_control,
        retry_count: request.retry_count,
        rnr_retry_count: request.rnr_retry_count,
        has_shared_receives: request.srq,
        qpn: request.local_qpn,
    };
    {
        let mut inner = new.lock();
        inner.remote_ece = request.enhanced;
        let terms = &mut inner.terms;
        terms.remote_qpn = request.local_qpn;
        terms.receive_psn = request.starting_psn;
        terms.mtu = terms.mtu.min(mtu);
        terms.responder_resources = request.initiator_depth;
        terms.initiator_depth = request.responder_resources;
        terms.retry_count = request.retry_count;
        terms.rnr_retry_count = request.rnr_retry_count;
        if inner.ack_timeout.is_none() && request.primary.local_ack_timeout != 0 {
            inner.terms.timeout = request.primary.local_ack_timeout;
        }
    }
    announce(listener, &new, Parameters::Connection(parameters));
    Ok(())
}

/// SIDR_REQ.
fn asked(
    core: &mut Core,
    listener: u32,
    id: u32,
    request: &ServiceRequest,
    path: AddressVector,
) -> Result<(), Reason> {
    let (header, words) = IpHeader::parse(request.private_data.as_bytes())
        .map_err(|_| Reason::UNSUPPORTED_REQUEST)?;
    let (listener, new) =
        arrived(core, listener, id, header.source_port, path).ok_or(Reason::NO_RESOURCES)?;
    let parameters = DatagramParameters {
        private_data: words.to_vec(),
        path,
        qpn: converb_wire::Qpn::new(0),
        queue_key: 0,
    };
    announce(listener, &new, Parameters::Datagram(parameters));
    Ok(())
}

fn announce(listener: Arc<Identifier>, new: &Arc<Identifier>, parameters: Parameters) {
    let channel = listener.channel();
    let event = Event::new(EventKind::ConnectRequest, new);
    channel.push(Event { listener: Some(listener), parameters, ..event });
}

/// SIDR_REP, or none.
fn resolved(identifier: &Arc<Identifier>, reply: Option<&ServiceReply>) {
    let mut inner = identifier.lock();
    inner.state = State::Over;
    let Some(reply) = reply else {
        identifier.tell(&inner, EventKind::Unreachable, -libc::ETIMEDOUT);
        return;
    };
    if reply.status != ServiceStatus::VALID {
        let event = Event::new(EventKind::Unreachable, identifier);
        let words = event.with_status(reply.status.0.into());
        inner.channel.push(words.with_words(reply.private_data.as_bytes()));
        return;
    }
    inner.state = State::Connected;
    inner.remote_ece = reply.enhanced;
    let Some(path) = inner.terms.path else { return };
    let event = Event::new(EventKind::Established, identifier);
    let parameters = DatagramParameters {
        private_data: reply.private_data.as_bytes().to_vec(),
        path,
        qpn: reply.qpn,
        queue_key: reply.qkey,
    };
    inner.channel.push(Event { parameters: Parameters::Datagram(parameters), ..event });
}

fn happened(identifier: &Arc<Identifier>, happening: Happening) {
    let mut inner = identifier.lock();
    let event = |kind| Event::new(kind, identifier);
    let event = match happening {
        Happening::Replied(reply) => {
            inner.remote_ece = reply.enhanced;
            inner.terms.remote_qpn = reply.local_qpn;
            inner.terms.receive_psn = reply.starting_psn;
            inner.terms.rnr_retry_count = reply.rnr_retry_count;
            inner.terms.responder_resources = reply.initiator_depth;
            inner.terms.initiator_depth = reply.responder_resources;
            inner.state = State::Accepted;
            event(EventKind::ConnectResponse).with(accepted(&reply))
        }
        Happening::Ready(words) => {
            inner.state = State::Connected;
            event(EventKind::Established).with_words(words.as_bytes())
        }
        Happening::Rejected(reject) => {
            let was_connected = inner.state == State::Connected;
            inner.state = State::Over;
            // Who was ready here has not been heard there: a connection has ended.
            let kind = if was_connected { EventKind::Disconnected } else { EventKind::Rejected };
            let status = if was_connected { 0 } else { i32::from(reject.reason.0) };
            event(kind).with_status(status).with_words(reject.private_data.as_bytes())
        }
        Happening::Unreachable => {
            inner.state = State::Over;
            event(EventKind::Unreachable).with_status(-libc::ETIMEDOUT)
        }
        Happening::DisconnectRequested(words) => {
            inner.state = State::Over;
            event(EventKind::Disconnected).with_words(words.as_bytes())
        }
        Happening::Disconnected(words) => {
            inner.state = State::Over;
            event(EventKind::Disconnected).with_words(words.as_bytes())
        }
        Happening::TimeWaitOver => event(EventKind::TimeWaitExit),
    };
    inner.channel.push(event);
}

/// What a REP says, from our view.
fn accepted(reply: &Reply) -> ConnectionParameters {
    ConnectionParameters {
        private_data: reply.private_data.as_bytes().to_vec(),
        responder_resources: reply.initiator_depth,
        initiator_depth: reply.responder_resources,
        flow_control: reply.end_to_end_flow_control,
        retry_count: 0,
        rnr_retry_count: reply.rnr_retry_count,
        has_shared_receives: reply.srq,
        qpn: reply.local_qpn,
    }
}
