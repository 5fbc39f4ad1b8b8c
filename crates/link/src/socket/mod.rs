//! What is asked of the kernel's UDP, one feature a file: its value, its probe, its call.
//!
//! Nothing here knows of packets, slots or queue pairs. Ancillary data is written and read as
//! plain bytes (`control.rs`), so `unsafe` is confined to the calls themselves (`batch.rs`,
//! `option.rs`). System calls of the data path go through `syscall(2)`: unlike the C library's
//! `sendmsg` and `recvmsg` it is no cancellation point, so a thread that the program cancels
//! never dies while it holds one of our locks.

mod batch;
mod control;
mod gro;
mod gso;
mod hop_limit;
mod name;
mod option;
mod options;
mod overflow;
mod pktinfo;
mod tos;

pub(crate) use batch::{Arrival, SendBatch, receive, receive_split};
pub(crate) use control::{Control, Entries};
pub(crate) use gro::segment_bytes;
pub(crate) use gso::{segmentation, segments_max};
pub(crate) use hop_limit::{USUAL as USUAL_HOP_LIMIT, hop_limit, hop_limit_of};
pub(crate) use name::{Endpoint, SocketName, parse as parse_name};
pub use options::{Family, prepare_slot_socket};
pub(crate) use options::{family_of, local_port, open_sender};
pub(crate) use overflow::{overflow_count, overflows_so_far};
pub(crate) use pktinfo::{local_address, source_address};
pub(crate) use tos::{traffic_class, traffic_class_of};
