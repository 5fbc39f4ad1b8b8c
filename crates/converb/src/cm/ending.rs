//! How connections and identifiers end.

use super::identifier::{Identifier, State};
use super::switchboard::Switchboard;
use crate::error::Error;
use converb_cm::message::PrivateData;
use std::sync::Arc;

impl Identifier {
    /// Ends the connection, or agrees that it ends (rdma_disconnect(3)); its queue pair fails what is
    /// under way. An event tells when the peer knows.
    ///
    /// # Errors
    /// `Invalid` if there has never been one.
    pub fn disconnect(&self) -> Result<(), Error> {
        let (switchboard, name) = self.named()?;
        self.fail_queue_pair();
        switchboard.with(|core, now| {
            let ended = core.manager.decide(name, |connection, out| {
                connection.disconnect(PrivateData::EMPTY, now, out)
            });
            if ended.is_err() {
                // Either the peer ends it already, or it has ended.
                let _ = core.manager.decide(name, |connection, out| {
                    connection.confirm_disconnect(PrivateData::EMPTY, now, out)
                });
            }
        });
        Ok(())
    }

    /// Says that the queue pair has heard its peer, who is ready then, whatever became of the message
    /// that says so (rdma_notify(3)).
    ///
    /// # Errors
    /// `Invalid` if there is no connection to come.
    pub fn heard(&self) -> Result<(), Error> {
        let (switchboard, name) = self.named()?;
        switchboard.with(|core, _| {
            let _ = core.manager.decide(name, |connection, out| {
                connection.heard(out);
                Ok(())
            });
        });
        Ok(())
    }

    /// Lets go of everything: the port is free, the peer is told, and what nobody has read yet is
    /// forgotten (rdma_destroy_id(3)). The queue pair stays as it is.
    pub fn close(&self) {
        let Some(switchboard) = self.lock().joined() else {
            let inner = self.lock();
            inner.channel.withdraw(self);
            return;
        };
        let (port, channel) = {
            let mut inner = self.lock();
            inner.state = State::Over;
            (inner.port.take(), Arc::clone(&inner.channel))
        };
        let withdrawn = switchboard.with(|core, now| {
            let (listener, name) = {
                let mut inner = self.lock();
                (inner.listener.take(), inner.name.take())
            };
            if let Some(listener) = listener {
                core.manager.close_listener(listener);
                core.listeners.remove(&listener);
            }
            if let Some(name) = name {
                core.named.remove(&name);
                self.release(core, name, now);
            }
            // Under the lock nothing comes after this.
            channel.withdraw(self)
        });
        // Who had asked a listener that is gone is told so.
        for event in withdrawn.into_iter().flatten() {
            if !core::ptr::eq(Arc::as_ptr(&event.identifier), self) {
                event.identifier.close();
            }
        }
        if let Some(port) = port {
            switchboard.give_back(self, port);
        }
    }

    fn release(&self, core: &mut super::switchboard::Core, name: u32, now: converb_engine::Time) {
        if self.is_for_datagrams() {
            core.manager.release_resolution(name, now);
        } else {
            core.manager.release(name, now);
        }
    }

    /// The connection or question that it is part of.
    ///
    /// # Errors
    /// `Invalid` if there is none, `Forked`.
    pub(super) fn named(&self) -> Result<(&'static Switchboard, u32), Error> {
        let mut inner = self.lock();
        let name = inner.name.ok_or(Error::Invalid("the identifier has no connection"))?;
        Ok((inner.join()?, name))
    }
}
