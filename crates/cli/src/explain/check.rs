//! Every check that can fail, in general: what it is, and what to do.

use converb::iba::Cause;

/// What a check is, and what to do when it fails, whatever the numbers are.
pub(super) struct CauseText {
    pub(super) name: &'static str,
    pub(super) meaning: &'static str,
    pub(super) advice: &'static str,
}

const SG_LIST: &str = "compare the work request's sg_list with what ibv_reg_mr was given";
const ASK_PEER: &str = "run `converb explain --last` where the peer runs: it knows which check \
                        failed";

/// What is known about a cause, by its number (`vendor_err`).
pub(super) fn text(number: u32) -> Option<CauseText> {
    let cause = Cause::from_numbers(number, [0; Cause::NUMBERS_MAX])?;
    let (meaning, advice) = of_own_work(cause).or_else(|| of_peers_request(cause))?;
    Some(CauseText { name: cause.name(), meaning, advice })
}

/// What this side's own work failed of.
fn of_own_work(cause: Cause) -> Option<(&'static str, &'static str)> {
    Some(match cause {
        Cause::LocalKeyUnknown { .. } => (
            "no region has the local key of a scatter-gather entry",
            "use the lkey of a region that is registered, and deregister it only when its work is \
             complete",
        ),
        Cause::LocalMemoryGone { .. } => (
            "registered local memory is gone: unmapped, or read-only",
            "deregister memory before it is unmapped, and only when its work is complete",
        ),
        Cause::ReceiveTooShort { .. } => (
            "a receive is shorter than the message",
            "post receives as long as the longest message; for UD 40 bytes more",
        ),
        Cause::DatagramTooLong { .. } => (
            "a datagram is longer than the port's active MTU",
            "send less at a time; `converb devices` shows the path MTU",
        ),
        Cause::NoDestination {} => {
            ("a datagram has no address handle", "set wr.ud.ah of every UD send")
        }
        Cause::NoReadDepth {} => (
            "a READ or atomic on a queue pair whose max_rd_atomic is 0",
            "set max_rd_atomic when going to RTS",
        ),
        Cause::LocalKeyOtherDomain { .. } => (
            "the local region belongs to another protection domain than the queue pair",
            "register the memory in the queue pair's protection domain",
        ),
        Cause::LocalNoAccess { .. } => (
            "the local region does not allow this",
            "receives, READs and atomics need IBV_ACCESS_LOCAL_WRITE",
        ),
        Cause::LocalOutOfBounds { .. } => {
            ("a scatter-gather entry does not lie in its region", SG_LIST)
        }
        Cause::PeerInvalidRequest { .. } => ("the peer answered NAK Invalid Request", ASK_PEER),
        Cause::PeerAccess { .. } => ("the peer answered NAK Remote Access Error", ASK_PEER),
        Cause::PeerOperation { .. } => ("the peer answered NAK Remote Operational Error", ASK_PEER),
        Cause::NoAnswer { .. } => (
            "no acknowledgement came, after all retries",
            "check that the peer's program lives and its queue pair is not in error, that its \
             address answers, and that UDP port 4791 is open in both directions; else raise \
             timeout and retry_cnt",
        ),
        Cause::NoReceive { .. } => (
            "the peer had no receive posted, after all RNR retries",
            "post receives before the peer may send; rnr_retry 7 tries for ever",
        ),
        Cause::ResponseLength { .. } => (
            "a response is of another length than its request asked for",
            "compare path_mtu on both sides",
        ),
        Cause::ResponseKind {} => (
            "a response does not belong to the request that it answers",
            "look at the packets with Wireshark: the peer, or somebody else, answers wrongly",
        ),
        Cause::Flushed { .. } => (
            "flushed, for something else on this queue pair had failed before",
            "look at that failure; this one only follows",
        ),
        Cause::FlushedByProgram {} => (
            "flushed, for the program moved the queue pair to the error state",
            "nothing, if that was meant",
        ),
        Cause::CompletionQueueFull {} => (
            "the queue pair failed, for a completion queue was full",
            "make the completion queue as large as all work that may be outstanding on it",
        ),
        _ => return None,
    })
}

/// What a peer's request was refused for.
fn of_peers_request(cause: Cause) -> Option<(&'static str, &'static str)> {
    Some(match cause {
        Cause::RemoteKeyUnknown { .. } => (
            "a peer used a remote key that no region here has",
            "check how the rkey gets to the peer, and that the region is not deregistered while \
             the peer uses it",
        ),
        Cause::RemoteKeyOtherDomain { .. } => (
            "a peer used a key of another protection domain than the queue pair's",
            "register the memory in the queue pair's protection domain",
        ),
        Cause::RemoteNoAccess { .. } => (
            "a peer wants what the region does not allow",
            "register the region with the right that is missing",
        ),
        Cause::RemoteOutOfBounds { .. } => (
            "a peer wants bytes that do not lie in the region",
            "check address and length that the peer uses against the region",
        ),
        Cause::QueuePairForbids { .. } => (
            "a peer wants what the queue pair's qp_access_flags do not allow",
            "set qp_access_flags when going to INIT or RTR",
        ),
        Cause::RemoteMemoryGone { .. } => (
            "memory that a peer may use is gone: unmapped, or read-only",
            "deregister memory before it is unmapped",
        ),
        Cause::InvalidateRefused { .. } => (
            "a SEND with invalidate names a key that is no memory window",
            "let the peer use a plain SEND",
        ),
        Cause::PacketOutOfPlace {} => (
            "a packet does not follow the one before it",
            "look at the packets with Wireshark: the peer sends messages that do not hold together",
        ),
        Cause::PacketSize { .. } => {
            ("a packet's payload does not fit the path MTU", "use the same path_mtu on both sides")
        }
        Cause::WriteLength { .. } => (
            "a WRITE brought more or less than it had announced",
            "look at the packets with Wireshark: the peer sends messages that do not hold together",
        ),
        Cause::TooManyReads { .. } => (
            "more READs and atomics at a time than max_dest_rd_atomic allows",
            "the peer's max_rd_atomic must not be larger than this side's max_dest_rd_atomic",
        ),
        Cause::ReadTooLong { .. } => {
            ("a READ is longer than any message may be", "let the peer read less at a time")
        }
        Cause::AtomicMisaligned { .. } => (
            "an atomic at an address that is no multiple of 8",
            "align the 8 bytes of atomics, in the region's own addresses too",
        ),
        Cause::NoRequest {} => (
            "a packet that is no request of this service, or lacks a header",
            "look at the packets with Wireshark: the peer is not what this side takes it for",
        ),
        _ => return None,
    })
}
