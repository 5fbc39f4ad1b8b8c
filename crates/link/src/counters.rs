//! What a port counts: packets and bytes, and why packets were dropped.

use core::sync::atomic::{AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[doc = $help:literal])+ $name:ident,)+) => {
        /// What a port has counted since it was made. Every count only grows (and wraps at 2^64).
        #[derive(Debug, Default)]
        #[repr(C, align(64))]
        pub struct Counters {
            $($(#[doc = $help])+ pub $name: Counter,)+
        }

        impl Counters {
            /// The counts, each with its name and its meaning in a few words.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($help),+).trim_ascii(), self.$name.value()),)+]
                    .into_iter()
            }
        }
    };
}

counters! {
    /// Packets received whose checks all passed.
    received_packets,
    /// Their bytes, from BTH to invariant CRC.
    received_bytes,
    /// Calls that received one or more packets.
    received_batches,
    /// Received packets of other processes' slots that were handed on to them.
    passed_on_packets,
    /// Packets of ours that other processes received and handed on to us.
    taken_over_packets,
    /// Calls that looked for packets, in vain or not.
    receive_calls,
    /// Calls that sent packets.
    send_calls,
    /// Calls that waited for something to happen.
    wait_calls,
    /// Packets that the network took.
    sent_packets,
    /// Their bytes, from BTH to invariant CRC.
    sent_bytes,
    /// Sends of several packets that the kernel cut up (GSO).
    sent_super_packets,
    /// Destinations where the kernel refused to cut up sends; packets go out one by one there.
    segmentation_refused,
    /// Times that the network took no more packets for the moment.
    send_full,
    /// Dropped on receipt: the invariant CRC was wrong.
    dropped_bad_icrc,
    /// Dropped on receipt: an IPv4 Identification that this source does not use.
    dropped_identification,
    /// Dropped on receipt: too short for a BTH and the invariant CRC.
    dropped_short,
    /// Dropped on receipt: cut off, or without the address it was sent to.
    dropped_incomplete,
    /// Dropped by the kernel: the receive buffer was full.
    dropped_overflow,
    /// Dropped on sending: larger than the interface's MTU.
    dropped_too_big,
    /// Dropped on sending: no route, or the peer's host or network is not reachable.
    dropped_unreachable,
    /// Dropped on sending: a local rule or the peer refused it.
    dropped_refused,
    /// Dropped on sending: an interface's queue was full, or the kernel had no memory.
    dropped_queue_full,
    /// Dropped on sending: any other error, such as a source address that is no longer ours.
    dropped_send_error,
    /// Dropped on purpose (`converb run --fault`).
    fault_dropped,
    /// Doubled on purpose.
    fault_duplicated,
    /// Overtaken by others on purpose.
    fault_reordered,
    /// Damaged on purpose.
    fault_corrupted,
    /// Delayed on purpose.
    fault_delayed,
    /// Dropped because too many packets were being delayed on purpose.
    fault_overflow,
    /// Packets written to the capture file (`converb run --capture`), dropped ones too.
    captured_packets,
    /// Times that writing the capture file failed; it ends there.
    capture_failed,
    /// Calls that failed because the program has closed our descriptors.
    descriptors_lost,
    /// Times that all descriptors which the program had closed were replaced.
    descriptors_replaced,
}

/// One count.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `count`. Of zero it costs nothing.
    pub fn add(&self, count: u64) {
        if count != 0 {
            self.0.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The count now.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_listed_by_name() {
        let counters = Counters::default();
        counters.dropped_short.add(2);
        counters.dropped_short.add(0);
        let (_, help, value) =
            counters.iter().find(|(name, ..)| *name == "dropped_short").expect("listed");
        assert_eq!(value, 2);
        assert!(help.starts_with("Dropped on receipt"), "{help}");
        assert_eq!(counters.iter().map(|(.., value)| value).sum::<u64>(), 2);
    }
}
