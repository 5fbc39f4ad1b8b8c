//! The ports of a process's identifiers. The agent knows which process has one, and here it is known
//! which identifiers of the process.

use super::identifier::Identifier;
use super::switchboard::Switchboard;
use crate::error::Error;
use crate::runtime::Runtime;
use converb_agent::{NotServed, Service};
use std::io;
use std::sync::{Mutex, PoisonError};

/// Who has which port.
#[derive(Default)]
pub(super) struct Ports(Mutex<Vec<(usize, Service)>>);

impl Switchboard {
    /// Takes a port for an identifier, or changes how it has it; which one it is. Waits for the agent.
    ///
    /// # Errors
    /// `EADDRINUSE`; `ENOBUFS` for too many; `EAGAIN` if there is no agent for too long.
    pub(super) fn take_port(
        &self,
        identifier: &Identifier,
        service: Service,
    ) -> Result<Service, Error> {
        let owner = core::ptr::from_ref(identifier).addr();
        let mut ports = self.ports.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refuse = |code| Error::system("take a port")(io::Error::from_raw_os_error(code));
        let excludes = |(of, other): &(usize, Service)| {
            let may_share = [other, &service].iter().all(|one| one.is_shared && !one.is_listening);
            *of != owner && is_same(other, &service) && !may_share
        };
        if ports.iter().any(excludes) {
            return Err(refuse(libc::EADDRINUSE));
        }
        let service =
            Runtime::get()?.membership().serve(service).map_err(|reason| match reason {
                NotServed::InUse => refuse(libc::EADDRINUSE),
                NotServed::TooMany => refuse(libc::ENOBUFS),
                NotServed::NoAnswer => refuse(libc::EAGAIN),
            })?;
        ports.retain(|(of, other)| *of != owner || !is_same(other, &service));
        ports.push((owner, service));
        Ok(service)
    }

    /// The identifier has its port no more.
    pub(super) fn give_back(&self, identifier: &Identifier, service: Service) {
        let owner = core::ptr::from_ref(identifier).addr();
        let mut ports = self.ports.0.lock().unwrap_or_else(PoisonError::into_inner);
        ports.retain(|(of, other)| *of != owner || !is_same(other, &service));
        let is_last = !ports.iter().any(|(_, other)| is_same(other, &service));
        if let Some(runtime) = Runtime::current().filter(|_| is_last) {
            runtime.membership().serve_no_more(service);
        }
    }
}

/// Whether both are one port at one place.
fn is_same(one: &Service, other: &Service) -> bool {
    (one.id, one.at) == (other.id, other.at)
}
