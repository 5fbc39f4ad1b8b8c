//! Writing down what a program sent and received, for Wireshark (`converb run --capture`).
//!
//! `pcapng.rs` is the format, `file.rs` the file, which the processes of a program share. What
//! the kernel keeps to itself, IP and UDP headers, is made up from what is known of it.

mod file;
mod pcapng;

pub(crate) use file::Capture;
pub(crate) use pcapng::{Direction, Record};
