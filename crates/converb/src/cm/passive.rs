//! The side that is asked: listeners, and what they decide.

use super::active::limited;
use super::address::served_at;
use super::event::ConnectionParameters;
use super::identifier::{Identifier, State};
use crate::attributes::DeviceAttributes;
use crate::error::Error;
use converb_cm::manager::Listener;
use converb_cm::message::{
    FailoverAccepted, PrivateData, Reason, Reply, ServiceReply, ServiceStatus,
};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// How many requests may wait for a listener that does not say how many, or says more.
const BACKLOG_MAX: usize = 4096;

impl Identifier {
    /// Is told of requests from now on, of which up to `backlog` may wait for a decision; 0 means as
    /// many as possible (rdma_listen(3)). Who is not bound gets all addresses and some port.
    ///
    /// # Errors
    /// `EADDRINUSE` if another listens at the same port; `Invalid` for who has a peer.
    pub fn listen(self: &Arc<Self>, backlog: usize) -> Result<(), Error> {
        if self.lock().state == State::Idle {
            self.bind(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?;
        }
        let (local, service) = {
            let inner = self.lock();
            let local = inner.local.filter(|_| inner.state == State::Bound);
            let local = local.ok_or(Error::Invalid("the identifier has a peer, or listens"))?;
            (local, self.service_at(&inner, local, true))
        };
        let switchboard = self.lock().join()?;
        // Before the agent knows: it may have a request to hand over at once.
        switchboard.with(|core, _| {
            let mut inner = self.lock();
            let listener = core.manager.listen(Listener {
                service_id: service.id,
                place: served_at(local, inner.only_own_family).1,
                backlog: if backlog == 0 { BACKLOG_MAX } else { backlog.min(BACKLOG_MAX) },
            });
            inner.listener = Some(listener);
            inner.state = State::Listening;
            core.listeners.insert(listener, Arc::clone(self));
        });
        match switchboard.take_port(self, service) {
            Ok(service) => {
                self.lock().port = Some(service);
                Ok(())
            }
            Err(error) => {
                switchboard.with(|core, _| {
                    let mut inner = self.lock();
                    if let Some(listener) = inner.listener.take() {
                        core.manager.close_listener(listener);
                        core.listeners.remove(&listener);
                    }
                    inner.state = State::Bound;
                });
                Err(error)
            }
        }
    }

    /// Agrees to a connection, or says which queue pair serves by datagrams (rdma_accept(3)). A queue
    /// pair of the identifier's is ready for the peer before that hears of it.
    ///
    /// # Errors
    /// `Invalid` unless a peer has asked and waits.
    pub fn accept(self: &Arc<Self>, parameters: &ConnectionParameters) -> Result<(), Error> {
        if self.is_for_datagrams() {
            return self.answer(parameters);
        }
        let (switchboard, name) = self.named()?;
        let reply = {
            let mut inner = self.lock();
            if inner.state != State::Asked {
                return Err(Error::Invalid("no peer waits for that"));
            }
            let by_peer = (inner.terms.responder_resources, inner.terms.initiator_depth);
            let most = DeviceAttributes::ALL.max_reads;
            let parameters = limited(parameters, most, Some(by_peer))?;
            let private_data = PrivateData::new(&parameters.private_data)
                .map_err(|_| Error::Invalid("the private data is too long"))?;
            inner.terms.responder_resources = parameters.responder_resources;
            inner.terms.initiator_depth = parameters.initiator_depth;
            let (local_qpn, srq) = inner.of_queue_pair(&parameters);
            let device = inner.device.as_ref().ok_or(Error::Empty)?;
            Reply {
                enhanced: inner.local_ece,
                local_qpn,
                starting_psn: inner.terms.send_psn,
                responder_resources: parameters.responder_resources,
                initiator_depth: parameters.initiator_depth,
                target_ack_delay: DeviceAttributes::ALL.ack_delay,
                failover_accepted: FailoverAccepted::NOT_SUPPORTED,
                end_to_end_flow_control: parameters.flow_control,
                rnr_retry_count: parameters.rnr_retry_count & 7,
                srq,
                local_ca_guid: device.node_guid(),
                private_data,
                ..Reply::default()
            }
        };
        if let Err(error) = self.make_ready() {
            self.fail_queue_pair();
            return Err(error);
        }
        switchboard.attempt(|core, now| {
            let mut inner = self.lock();
            core.manager
                .decide(name, |connection, out| connection.reply(reply, now, out))
                .map_err(|_| Error::Invalid("the peer has given up"))?;
            inner.state = State::Accepted;
            Ok(())
        })
    }

    /// Refuses, or gives up what is half made (rdma_reject(3)).
    ///
    /// # Errors
    /// `Invalid` unless there is something to refuse, or for more than 148 bytes of private data (136
    /// where datagrams are meant).
    pub fn reject(&self, private_data: &[u8]) -> Result<(), Error> {
        self.reject_for(Reason::CONSUMER_REJECT, private_data)
    }

    /// The same, for what was offered beyond the specification (rdma_reject_ece(3)).
    ///
    /// # Errors
    /// As for [`reject`](Self::reject).
    pub fn reject_offer(&self, private_data: &[u8]) -> Result<(), Error> {
        self.reject_for(Reason::VENDOR_OPTION_NOT_SUPPORTED, private_data)
    }

    fn reject_for(&self, reason: Reason, private_data: &[u8]) -> Result<(), Error> {
        let too_long = |_| Error::Invalid("the private data is too long");
        let (switchboard, name) = self.named()?;
        let refused = if self.is_for_datagrams() {
            let private_data = PrivateData::new(private_data).map_err(too_long)?;
            let status = ServiceStatus::REJECTED;
            let reply = ServiceReply { status, private_data, ..ServiceReply::default() };
            switchboard.with(|core, now| core.manager.answer(name, reply, now))
        } else {
            let private_data = PrivateData::new(private_data).map_err(too_long)?;
            switchboard.with(|core, now| core.reject(name, reason, private_data, now))
        };
        match refused {
            Some(Ok(())) => {
                self.lock().state = State::Over;
                Ok(())
            }
            _ => Err(Error::Invalid("there is nothing to refuse")),
        }
    }
}
