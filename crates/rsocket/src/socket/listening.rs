//! Listeners.

use super::{Family, Socket, channel};
use crate::error::{errno, of};
use crate::protocol::Greeting;
use crate::stream::Stream;
use converb::cm::{Event, EventKind, Identifier, Parameters};
use std::io;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Socket {
    /// Listens for up to `backlog` connections that nobody has accepted (listen(2)); 0 means as many
    /// as possible.
    ///
    /// # Errors
    /// `EADDRINUSE`, `EINVAL` for a socket with a stream.
    pub fn listen(&self, backlog: usize) -> io::Result<()> {
        if self.stream.get().is_some() {
            return Err(errno(libc::EINVAL));
        }
        if self.is_listening.load(Ordering::Acquire) {
            return Ok(());
        }
        if self.identifier.local().is_none() && self.family == Family::V6 {
            self.bind(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0))?;
        }
        self.identifier.listen(backlog).map_err(of)?;
        self.is_listening.store(true, Ordering::Release);
        Ok(())
    }

    pub(super) fn is_listening(&self) -> bool {
        self.is_listening.load(Ordering::Acquire)
    }

    /// The next connection (accept(2)).
    ///
    /// # Errors
    /// `EAGAIN` where it does not wait, `EINVAL` for who does not listen.
    pub fn accept(&self, nonblocking: bool) -> io::Result<Arc<Self>> {
        if !self.is_listening() {
            return Err(errno(libc::EINVAL));
        }
        loop {
            match self.events.next(|_| ()) {
                Ok(event) => {
                    // One that comes to nothing is no reason to stop listening.
                    if let Some(socket) = self.take(&event.follow()) {
                        socket.set_nonblocking(nonblocking);
                        return Ok(socket);
                    }
                }
                Err(error) if error.errno() != libc::EAGAIN => return Err(of(error)),
                Err(error) if self.is_nonblocking() => return Err(of(error)),
                Err(_) => self.wait_for_events()?,
            }
        }
    }

    /// A socket for a request, if that is one.
    fn take(&self, event: &Event) -> Option<Arc<Self>> {
        if event.kind != EventKind::ConnectRequest {
            return None;
        }
        let identifier = &event.identifier;
        let accepted = self.agree(identifier, &event.parameters);
        if accepted.is_err() {
            let _ = identifier.reject(&[]);
            identifier.close();
        }
        accepted.ok()
    }

    fn agree(&self, identifier: &Arc<Identifier>, said: &Parameters) -> io::Result<Arc<Self>> {
        let Parameters::Connection(said) = said else { return Err(errno(libc::EPROTO)) };
        let greeting = Greeting::from_bytes(&said.private_data).map_err(|_| errno(libc::EPROTO))?;
        let events = channel()?;
        let choices = self.choices().clone();
        let stream = Stream::accept(identifier, &events, choices.settings.clone(), greeting)?;
        let socket = Self::of(self.family, events, Arc::clone(identifier), choices, false);
        socket.stream.get_or_init(|| stream);
        Ok(socket)
    }
}
