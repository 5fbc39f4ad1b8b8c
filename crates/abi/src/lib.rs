//! libibverbs.so.1 and librdmacm.so.1 as one drop-in library over the `converb` crate.
//!
//! This crate owns the C boundary: the exported symbols with their versions (`symbols/`), the
//! layouts of what crosses it (`layout/`), and one thin function for each verb (`entry/`), which
//! guards against panics, turns pointers into safe types and calls ordinary Rust. It never decides
//! anything about RDMA: that is `converb` and what is below it. Nothing runs before the first call
//! and nothing at exit; the library is never unmapped. Read `symbols/mod.rs` next, then
//! `entry/mod.rs`.

// Without the exports, nothing calls the entry points.
#![cfg_attr(test, allow(dead_code))]

mod address;
mod async_event;
mod attributes;
mod builder;
mod complain;
mod completion_flags;
mod copies;
mod describe;
mod device_list;
mod entry;
mod extended_attributes;
mod extended_poll;
mod guard;
mod layout;
mod objects;
mod polling;
mod posting;
mod program_lock;
mod rate;
mod send_requests;
mod socket_address;
mod sysfs;
mod wording;

/// The versioned definitions. A test binary is no shared library and cannot have them.
#[cfg(not(test))]
mod exports {
    include!(concat!(env!("OUT_DIR"), "/exports.rs"));
}
