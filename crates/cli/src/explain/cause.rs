//! The cause of one failure in words, with its own numbers.

use converb::iba::{Cause, Failure, Side};
use converb::{Address, Opcode};

/// What happened in this failure, in a sentence.
pub(super) fn sentence(failure: &Failure) -> String {
    let psn = psn(failure);
    match failure.cause {
        Cause::LocalKeyUnknown { key, address, length } => format!(
            "lkey {key:#x}, for {length} bytes at {address:#x}, is of no region of this process"
        ),
        Cause::LocalMemoryGone { address } => {
            format!("registered memory at {address:#x} is gone (unmapped or read-only)")
        }
        Cause::ReceiveTooShort { room, message } => {
            format!("receive of {room} bytes, message of at least {message}")
        }
        Cause::DatagramTooLong { length, limit } => {
            format!("datagram of {length} bytes, the port's MTU is {limit}")
        }
        Cause::NoDestination {} => "the datagram has no address handle".to_owned(),
        Cause::NoReadDepth {} => "max_rd_atomic of this queue pair is 0".to_owned(),
        Cause::LocalKeyOtherDomain { key } => {
            format!("lkey {key:#x} belongs to another protection domain than the queue pair")
        }
        Cause::LocalNoAccess { key, needed, allowed } => format!(
            "the region of lkey {key:#x} lacks {}; it allows {}",
            rights(needed & !allowed),
            rights(allowed)
        ),
        Cause::LocalOutOfBounds { key, address, length, start, end } => format!(
            "{length} bytes at {address:#x} with lkey {key:#x}: {}",
            bounds(address, length, start, end)
        ),
        Cause::PeerInvalidRequest { key, address, length } => {
            nak(&psn, "Invalid Request", key, address, length)
        }
        Cause::PeerAccess { key, address, length } => {
            nak(&psn, "Remote Access Error", key, address, length)
        }
        Cause::PeerOperation { key, address, length } => {
            nak(&psn, "Remote Operational Error", key, address, length)
        }
        Cause::NoAnswer { retries, timeout_ns, timeout } => format!(
            "no ACK for PSN {psn} after {retries} retries of {} (timeout {timeout}) to {}",
            duration(timeout_ns),
            address(&failure.address)
        ),
        Cause::NoReceive { retries, delay_ns } => format!(
            "RNR retries exhausted (rnr_retry {retries}): the peer had no receive for PSN {psn}, \
             and asked to wait {}",
            duration(delay_ns)
        ),
        Cause::ResponseLength { length, expected } => {
            format!("the response with PSN {psn} has {length} bytes instead of {expected}")
        }
        Cause::ResponseKind {} => {
            format!("the response with PSN {psn} is not one to the request of that number")
        }
        Cause::Flushed { wr_id, status, cause, is_ours } => {
            let name = super::status_name(status);
            let cause = super::cause_name(cause);
            if is_ours == 1 {
                format!("flushed after work request {wr_id:#x} failed with {name} ({cause})")
            } else {
                format!("flushed after a peer's request was refused ({cause})")
            }
        }
        Cause::FlushedByProgram {} => {
            "flushed: the program moved the queue pair to the error state".to_owned()
        }
        Cause::CompletionQueueFull {} => {
            "a completion queue was full, so a completion is lost".to_owned()
        }
        _ => of_peers_request(failure),
    }
}

/// The same of what a peer's request was refused for.
fn of_peers_request(failure: &Failure) -> String {
    let request = request(failure);
    let psn = psn(failure);
    match failure.cause {
        Cause::RemoteKeyUnknown { key, address, length } => format!(
            "{request} of {length} bytes at {address:#x} with rkey {key:#x}: no region has that key"
        ),
        Cause::RemoteKeyOtherDomain { key, address, length } => format!(
            "{request} of {length} bytes at {address:#x} with rkey {key:#x}: the region is of \
             another protection domain than the queue pair"
        ),
        Cause::RemoteNoAccess { key, address, length, needed, allowed } => format!(
            "{request} of {length} bytes at {address:#x} with rkey {key:#x}: the region lacks {}; \
             it allows {}",
            rights(needed & !allowed),
            rights(allowed)
        ),
        Cause::RemoteOutOfBounds { key, address, length, start, end } => format!(
            "{request} of {length} bytes at {address:#x} with rkey {key:#x}: {}",
            bounds(address, length, start, end)
        ),
        Cause::QueuePairForbids { needed, allowed } => format!(
            "{request}: the queue pair's qp_access_flags lack {}; they allow {}",
            rights(needed & !allowed),
            rights(allowed)
        ),
        Cause::RemoteMemoryGone { address } => {
            format!("{request}: registered memory at {address:#x} is gone (unmapped or read-only)")
        }
        Cause::InvalidateRefused { key } => {
            format!("SEND with invalidate of key {key:#x}, which is no memory window")
        }
        Cause::PacketOutOfPlace {} => {
            format!("packet {} with PSN {psn} does not follow the one before it", opcode(failure))
        }
        Cause::PacketSize { length, mtu } => format!(
            "packet {} with PSN {psn} has {length} bytes; the path MTU here is {mtu}",
            opcode(failure)
        ),
        Cause::WriteLength { length, announced } => {
            format!("WRITE of {announced} bytes brought {length}")
        }
        Cause::TooManyReads { limit } => {
            format!("{request}: max_dest_rd_atomic of this queue pair is {limit}")
        }
        Cause::ReadTooLong { length, limit } => {
            format!("READ of {length} bytes; a message has {limit} at most")
        }
        Cause::AtomicMisaligned { address } => {
            format!("atomic at {address:#x}, which is no multiple of 8")
        }
        Cause::NoRequest {} => {
            format!("packet {} with PSN {psn} is no request of this service", opcode(failure))
        }
        _ => failure.cause.name().to_owned(),
    }
}

/// Which packet decided it, as far as one did.
pub(super) fn packet(failure: &Failure) -> Option<String> {
    let psn = failure.psn?;
    let from = if failure.opcode.is_some() { "from" } else { "to" };
    let name = failure.opcode.map_or_else(String::new, |opcode| format!("{opcode}, "));
    Some(format!(
        "{name}PSN {:#x}, {from} QPN {:#x} at {}",
        psn.value(),
        failure.peer.value(),
        address(&failure.address)
    ))
}

fn psn(failure: &Failure) -> String {
    failure.psn.map_or_else(|| "?".to_owned(), |psn| format!("{:#x}", psn.value()))
}

fn nak(psn: &str, what: &str, key: u64, address: u64, length: u64) -> String {
    let about = if key == 0 {
        format!("a SEND of {length} bytes")
    } else {
        format!("{length} bytes at {address:#x} with rkey {key:#x}")
    };
    format!("the peer NAKed PSN {psn} with {what}: {about}")
}

/// How the range misses the region.
fn bounds(address: u64, length: u64, start: u64, end: u64) -> String {
    if address < start {
        format!("before the region's start {start:#x}")
    } else if address >= end {
        format!("behind the region's end {end:#x}")
    } else {
        format!("{} beyond the region's end {end:#x}", (address + length).saturating_sub(end))
    }
}

/// What the peer asked for, by its packet.
fn request(failure: &Failure) -> &'static str {
    use converb::CompletionKind as K;
    let name = failure.opcode.and_then(Opcode::name).unwrap_or("");
    for (part, word) in [
        ("WRITE", "WRITE"),
        ("READ", "READ"),
        ("COMPARE_SWAP", "compare-and-swap"),
        ("FETCH_ADD", "fetch-and-add"),
        ("SEND", "SEND"),
    ] {
        if name.contains(part) {
            return word;
        }
    }
    match (failure.side, failure.kind) {
        (Side::Receive, _) => "request",
        (_, K::Read) => "READ",
        (_, K::Write) => "WRITE",
        _ => "SEND",
    }
}

fn opcode(failure: &Failure) -> String {
    failure.opcode.map_or_else(|| "?".to_owned(), |opcode| opcode.to_string())
}

/// The names of access flags, as `enum ibv_access_flags` has them.
fn rights(flags: u64) -> String {
    let names = ["LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC"];
    let names: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| flags >> bit & 1 == 1)
        .map(|(_, name)| *name)
        .collect();
    if names.is_empty() { "only local reading".to_owned() } else { names.join(", ") }
}

/// An address as people write it.
pub(super) fn address(address: &Address) -> String {
    match address {
        Address::Udp { ip, scope: 0 } => ip.to_canonical().to_string(),
        Address::Udp { ip, scope } => format!("{ip}%{scope}"),
        Address::Ethernet(mac) => mac.map(|byte| format!("{byte:02x}")).join(":"),
        Address::Lid(lid) => format!("LID {lid}"),
    }
}

fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0 => "no time".to_owned(),
        1..1_000_000 => format!("{} us", nanoseconds / 1000),
        1_000_000..10_000_000_000 => format!("{} ms", nanoseconds / 1_000_000),
        _ => format!("{} s", nanoseconds / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use converb::{CompletionKind, Psn, Qpn, Status};

    fn failure(cause: Cause) -> Failure {
        Failure {
            has_completion: true,
            wr_id: 1,
            status: Status::RetryExceeded,
            kind: CompletionKind::Write,
            side: Side::Send,
            cause,
            psn: Some(Psn::new(0x12ab)),
            opcode: None,
            peer: Qpn::new(5),
            address: Address::Udp {
                ip: std::net::Ipv4Addr::new(10, 0, 0, 2).to_ipv6_mapped(),
                scope: 0,
            },
            count: 1,
        }
    }

    #[test]
    fn every_cause_has_words_and_advice() {
        for &(number, name) in Cause::ALL {
            let about = super::super::check::text(number)
                .unwrap_or_else(|| panic!("{name} is not explained"));
            assert!(!about.meaning.is_empty() && !about.advice.is_empty(), "{name}");
            let cause = Cause::from_numbers(number, [9, 8, 7, 6, 5]).unwrap();
            assert!(sentence(&failure(cause)) != name, "{name} has no sentence");
        }
    }

    #[test]
    fn a_vanished_peer_is_named_with_the_limits() {
        let cause = Cause::NoAnswer { retries: 7, timeout_ns: 134_217_728, timeout: 15 };
        assert_eq!(
            sentence(&failure(cause)),
            "no ACK for PSN 0x12ab after 7 retries of 134 ms (timeout 15) to 10.0.0.2"
        );
    }

    #[test]
    fn ranges_are_compared_with_the_region() {
        assert_eq!(bounds(0xff, 8, 0x100, 0x200), "before the region's start 0x100");
        assert_eq!(bounds(0x1fc, 8, 0x100, 0x200), "4 beyond the region's end 0x200");
        assert_eq!(bounds(0x200, 8, 0x100, 0x200), "behind the region's end 0x200");
    }
}
