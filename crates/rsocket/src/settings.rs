//! How large a stream's buffers and queues are, and what the administrator says about it.

use crate::protocol::usual_mappings;
use std::sync::OnceLock;
use std::time::Duration;

/// Where the administrator says it: a file for each setting, with a number in it.
const FOLDER: &str = "/etc/rdma/rsocket";

/// What a stream is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the receive buffer, of which the peer is told one half at a time.
    pub receive_bytes: usize,
    /// Bytes of the send buffer.
    pub send_bytes: usize,
    /// How many messages with data may be on their way.
    pub send_requests: u16,
    /// How many may wait to be read.
    pub receive_requests: u16,
    /// Up to how many bytes are copied into the work request itself.
    pub inline_bytes: usize,
    /// How many mappings the peer may make.
    pub mappings: u32,
    /// How long to look for what is awaited before sleeping.
    pub polling: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            receive_bytes: 1 << 17,
            send_bytes: 1 << 17,
            send_requests: 384,
            receive_requests: 384,
            inline_bytes: 64,
            mappings: 0,
            polling: Duration::from_micros(10),
        }
    }
}

/// Fewest and most messages of a queue. The queue pair has some more work requests than that.
const REQUESTS: core::ops::RangeInclusive<u32> = 16..=16_000;
/// Buffers of a stream are at least two pages and at most a gigabyte.
const BYTES: core::ops::RangeInclusive<u64> = 8_192..=1 << 30;
/// What work requests may carry.
const INLINE_MAX: u64 = 1024;

impl Settings {
    /// Those of new sockets: the administrator's, where he says something, else the usual ones.
    pub fn usual() -> Self {
        static USUAL: OnceLock<Settings> = OnceLock::new();
        USUAL.get_or_init(|| Self::said_by(read)).clone()
    }

    fn said_by(read: impl Fn(&str) -> Option<u64>) -> Self {
        let mut said = Self::default();
        if let Some(bytes) = read("mem_default") {
            said.set_receive_bytes(bytes);
        }
        if let Some(bytes) = read("wmem_default") {
            said.set_send_bytes(bytes);
        }
        if let Some(count) = read("sqsize_default") {
            said.set_send_requests(count.min(u32::MAX.into()) as u32);
        }
        if let Some(count) = read("rqsize_default") {
            said.set_receive_requests(count.min(u32::MAX.into()) as u32);
        }
        if let Some(bytes) = read("inline_default") {
            said.set_inline_bytes(bytes);
        }
        if let Some(count) = read("iomap_size") {
            said.set_mappings(count.min(u32::MAX.into()) as u32);
        }
        if let Some(microseconds) = read("polling_time") {
            // Longer than a second is no polling before waiting any more.
            said.polling = Duration::from_micros(microseconds.min(1_000_000));
        }
        said
    }

    /// Of the receive buffer, within its limits.
    pub fn set_receive_bytes(&mut self, bytes: u64) {
        self.receive_bytes = limited(bytes) & !1;
    }

    /// Of the send buffer, within its limits.
    pub fn set_send_bytes(&mut self, bytes: u64) {
        self.send_bytes = limited(bytes);
    }

    /// Within their limits.
    pub fn set_send_requests(&mut self, count: u32) {
        self.send_requests = count.clamp(*REQUESTS.start(), *REQUESTS.end()) as u16;
    }

    /// Within their limits.
    pub fn set_receive_requests(&mut self, count: u32) {
        self.receive_requests = count.clamp(*REQUESTS.start(), *REQUESTS.end()) as u16;
    }

    /// Within their limits.
    pub fn set_inline_bytes(&mut self, bytes: u64) {
        self.inline_bytes = bytes.min(INLINE_MAX) as usize;
    }

    /// As many as the protocol can say, and not more than `count`.
    pub fn set_mappings(&mut self, count: u32) {
        self.mappings = usual_mappings(count);
    }
}

fn limited(bytes: u64) -> usize {
    bytes.clamp(*BYTES.start(), *BYTES.end()) as usize
}

/// A setting's file; `None` where there is none, or no number in it.
fn read(name: &str) -> Option<u64> {
    std::fs::read_to_string(format!("{FOLDER}/{name}")).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_administrator_is_heard_within_limits() {
        let said = Settings::said_by(|name| match name {
            "mem_default" => Some(1_000_001),
            "wmem_default" => Some(1),
            "sqsize_default" => Some(1 << 40),
            "rqsize_default" => Some(1),
            "inline_default" => Some(0),
            "iomap_size" => Some(7),
            "polling_time" => Some(25),
            other => panic!("nobody knows {other}"),
        });
        let expected = Settings {
            receive_bytes: 1_000_000,
            send_bytes: 8_192,
            send_requests: 16_000,
            receive_requests: 16,
            inline_bytes: 0,
            mappings: 7,
            polling: Duration::from_micros(25),
        };
        assert_eq!(said, expected);
        assert_eq!(Settings::said_by(|_| None), Settings::default());
    }
}
