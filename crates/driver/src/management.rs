//! Packets that no queue pair of the driver sends: those of the management that stands beside it.

use crate::driver::Driver;
use crate::facade::Facade;
use crate::port::Port;
use converb_engine::{AddressVector, PacketSink};
use converb_wire::Qpn;

impl<P: Port, S: Facade> Driver<P, S> {
    /// Sends one packet of `length` bytes, from the BTH on and without the invariant CRC, which
    /// `write` fills in. It goes behind what waits for the network already; false if there was no
    /// room for it.
    pub fn send_packet(
        &self,
        path: &AddressVector,
        destination: Qpn,
        length: usize,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let mut batch = self.outlet.batch(&self.port);
        let place = batch.begin(path, destination, length);
        let has_room = place.is_some();
        if let Some(place) = place {
            write(place);
            batch.finish();
            self.outlet.send(&self.port, &mut batch);
        }
        self.outlet.give_back(batch);
        has_room
    }
}
