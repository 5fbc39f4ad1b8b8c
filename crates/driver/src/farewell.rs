//! The last word of a connection on a network that loses packets.
//!
//! A program leaves when it has got its last message; if the ACK of that is lost nobody is there
//! to send it again, and the peer takes a connection that did all its work for broken. So where
//! packets have been lost before, the last ACK is said several times. A peer ignores what it
//! knows already (IBA 9.7.5.1.1: an acknowledgement of what was acknowledged is dropped).

use crate::driver::Driver;
use crate::facade::{Facade, Mutex, RwLock};
use crate::port::Port;
use crate::queue_pair::Protocol;

impl<P: Port, S: Facade> Driver<P, S> {
    /// Says it for a queue pair that ends, with its protocol lock held.
    pub(crate) fn say_farewell(&self, protocol: &Protocol) {
        if protocol.queue_pair.needs_farewell(&protocol.path) {
            let mut batch = self.outlet.batch(&self.port);
            protocol.queue_pair.write_farewell(&mut batch);
            self.outlet.send(&self.port, &mut batch);
            self.outlet.give_back(batch);
        }
    }

    /// Says it for all queue pairs of a process that is about to end. Waits for no lock.
    pub fn say_farewells(&self) {
        let Some(table) = self.table.try_read() else { return };
        for handle in table.iter() {
            if let Some(protocol) = handle.protocol.try_lock() {
                self.say_farewell(&protocol);
            }
        }
    }
}
