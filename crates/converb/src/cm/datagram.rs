//! Datagrams: which queue pair of a peer's serves is asked and answered (IBA 12.11), and then there
//! is no connection.

use super::active::{MANAGER_RETRIES, PARTITION_KEY, RESPONSE_TIMEOUT};
use super::event::ConnectionParameters;
use super::identifier::{Identifier, State};
use crate::error::Error;
use converb_cm::message::{PrivateData, ServiceReply, ServiceRequest, ServiceStatus};
use converb_wire::ack_timeout;
use std::sync::Arc;

impl Identifier {
    /// SIDR_REQ.
    pub(super) fn ask(self: &Arc<Self>, parameters: &ConnectionParameters) -> Result<(), Error> {
        let switchboard = self.lock().join()?;
        switchboard.attempt(|core, now| {
            let mut inner = self.lock();
            if inner.state != State::RouteResolved {
                return Err(Error::Invalid("the identifier has not resolved a route"));
            }
            let request = ServiceRequest {
                partition_key: PARTITION_KEY,
                service_id: self.peers_service(&inner)?,
                private_data: self.private_data(&inner, &parameters.private_data)?,
                ..ServiceRequest::default()
            };
            let path = inner.terms.path.ok_or(Error::Empty)?;
            let interval = ack_timeout(RESPONSE_TIMEOUT).unwrap_or_default();
            let name = core
                .manager
                .resolve(request, path, interval, MANAGER_RETRIES, now)
                .map_err(|_| Error::TooMany("questions"))?;
            self.begin_asking(core, &mut inner, name);
            Ok(())
        })
    }

    /// SIDR_REP.
    pub(super) fn answer(&self, parameters: &ConnectionParameters) -> Result<(), Error> {
        let private_data = PrivateData::new(&parameters.private_data)
            .map_err(|_| Error::Invalid("the private data is too long"))?;
        let (switchboard, name) = self.named()?;
        switchboard.attempt(|core, now| {
            let mut inner = self.lock();
            let (qpn, _) = inner.of_queue_pair(parameters);
            let reply = ServiceReply {
                status: ServiceStatus::VALID,
                enhanced: inner.local_ece,
                qpn,
                qkey: inner.terms.queue_key,
                private_data,
                ..ServiceReply::default()
            };
            core.manager
                .answer(name, reply, now)
                .map_err(|_| Error::Invalid("no peer waits for that"))?;
            inner.state = State::Accepted;
            Ok(())
        })
    }
}
