//! Who owns UDP port 4791 of a network namespace, and how processes share it.
//!
//! This crate owns the slots: the SO_REUSEPORT group of sockets and its selector, the vault that
//! keeps the group alive without its agent, the agent's process with its protocol, and a member's
//! side of it ([`Membership`]). It never looks into a member's packets, and receives only those of
//! members that are of another user than the agent, which the agent carries to them in the one
//! thread that this crate starts; all others go from the kernel to the process. It sets no option
//! of their slots' sockets beyond what makes them slots.
//!
//! The command `converb agent` calls [`serve_from_command_line`] for `serve` with the arguments
//! after that word, [`status`] for `status`, and [`stop`] for `stop [--force]`;
//! `converb devices` calls [`device_counters`], `converb explain --last` calls [`failures`].
//! `converb run` sets [`PROGRAM_VARIABLE`].
//!
//! What comes for queue pair 1 it hands to the member whose it is; `services.rs` has who serves
//! what.
//!
//! Read `group.rs`, `selector.rs` and `vault.rs` next, then `server/mod.rs` for the agent and
//! `membership/mod.rs` with `membership/takeover.rs` for its members; `start.rs` shows how the
//! agent gets out of a program that knows nothing of it.

mod command;
mod counters;
mod error;
mod failures;
mod greeting;
mod group;
#[cfg(any(test, fuzzing))]
mod hostile;
mod identity;
mod limit;
mod membership;
mod name;
mod option;
mod process;
mod random;
mod selector;
mod server;
mod services;
mod slots;
mod start;
mod status;
mod table;
mod transfer;
mod vault;

pub mod protocol;

pub use command::{CommandError, IDLE_VARIABLE, serve_from_command_line};
pub use counters::{COUNTERS_MAX, CounterPage, DEVICES_MAX};
pub use error::JoinError;
pub use failures::{FAILURE_WORDS, FAILURES_MAX, FOLLOWS, FailureWords};
pub use group::{PORT, SLOTS_MAX};
#[cfg(fuzzing)]
pub use hostile::{message as read_hostile_message, page as read_hostile_page};
pub use membership::{
    CarriedBy, JoinOptions, Letter, Membership, NotServed, PROGRAM_VARIABLE, Standing, Undelivered,
};
pub use protocol::{LETTER_BYTES_MAX, ManagementDatagram};
pub use selector::QPN_BITS_IN_SLOT;
pub use server::{Inherited, Report, ServeError, ServeOptions, serve};
pub use services::{At, Service};
pub use status::{DeviceCounters, Status, Stopped, device_counters, failures, status, stop};
pub use transfer::{receive as receive_descriptors, send as send_descriptors};
