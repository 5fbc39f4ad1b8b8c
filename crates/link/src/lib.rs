//! Everything that does I/O: UDP sockets, program memory, rings between processes, descriptors.
//!
//! This crate owns the system calls of the data path. It implements the driver's `Port` over the
//! sockets of one or more slots ([`UdpPort`]), the engine's `Memory` over the memory of the very
//! process it runs in ([`ProgramMemory`]), and the signals that completion channels raise. It
//! never creates a slot or talks to the agent (slot sockets come in as descriptors), never
//! connects a slot socket or binds it to a device, never starts a thread, and knows nothing of
//! queue pairs beyond the number that picks a slot. For processes that may not have their slot's
//! socket the agent receives with [`Carrier`]. Read `udp/port.rs` next, then
//! `udp/outgoing.rs` and `udp/incoming.rs` for the life of a packet, `socket/` for what is asked
//! of the kernel, one feature a file.

mod capture;
mod carried;
mod clock;
mod counters;
mod descriptor;
mod fault;
mod file_size;
mod journal;
mod kept;
mod memory;
mod random;
mod ring;
mod signal;
mod socket;
mod udp;

pub mod thread;

#[cfg(fuzzing)]
pub use carried::hostile::play as play_hostile_agent;
pub use carried::{Carried, Carrier, Space};
pub use counters::{Counter, Counters};
pub use descriptor::raise;
pub use fault::{Delay, Faults, InvalidFaults, Rate, Rates};
pub use file_size::without_size_signal;
pub use journal::SharedJournal;
pub use kept::Kept;
pub use memory::ProgramMemory;
#[cfg(fuzzing)]
pub use ring::hostile::play as play_hostile_ring;
pub use ring::{Others, Peers, RingDescriptors, RingReceiver, RingSender};
pub use signal::EventSignal;
pub use socket::{Family, prepare_slot_socket};
pub use udp::{
    CAPTURE_VARIABLE, FAULT_VARIABLE, Incoming, InvalidSetting, Outgoing, PortError, Relay,
    Relayed, Settings, Slot, SlotSource, UdpPort,
};
