//! What the transport saw, in numbers that outlive nothing but are read by everyone.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts of what happened to packets and requests; each only grows.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Counters {
            /// All names and values, in a fixed order.
            pub fn snapshot(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
                [$((stringify!($name), self.$name.load(Relaxed))),*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets that a requester sent again.
    retransmitted_packets,
    /// Requests that came a second time.
    duplicate_requests,
    /// Requests that came before their turn.
    out_of_sequence_requests,
    /// Negative acknowledgements sent for a missing packet.
    sequence_naks_sent,
    /// Negative acknowledgements received for a missing packet.
    sequence_naks_received,
    /// "Receiver not ready" sent.
    rnr_naks_sent,
    /// "Receiver not ready" received.
    rnr_naks_received,
    /// Local ACK timeouts.
    ack_timeouts,
    /// Probes of a lost tail.
    tail_probes,
    /// Requests refused for lack of a right.
    access_errors,
    /// Requests refused as invalid.
    invalid_requests,
    /// Dropped: shorter than its headers, or an unknown opcode.
    dropped_malformed,
    /// Dropped: no queue pair has this number.
    dropped_unknown_queue_pair,
    /// Dropped: the queue pair's state takes no packets.
    dropped_wrong_state,
    /// Dropped: the opcode does not belong to the queue pair's service.
    dropped_wrong_service,
    /// Dropped: it did not come from the connection's peer.
    dropped_wrong_source,
    /// Dropped: the partition key is not ours.
    dropped_wrong_partition,
    /// Dropped: the Q_Key is not the queue pair's (UD).
    dropped_wrong_queue_key,
    /// Dropped: no receive was posted (UC and UD).
    dropped_no_receive,
    /// Dropped: a part of a message whose beginning or middle is missing (UC).
    dropped_incomplete_message,
    /// Dropped: an answer to nothing that is outstanding.
    dropped_stale_response,
    /// Dropped: no room to keep it or to queue its answer.
    dropped_no_room,
    /// Congestion notifications received.
    congestion_notifications,
}

impl Counters {
    /// One more.
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }
}
