//! The receiving half of an unreliable datagram queue pair: 40 bytes that say who sent it, then
//! the data (IBA 9.8.3, 11.4.1.2).

use crate::address::Address;
use crate::completion::{Completion, CompletionKind, Extra, Status};
use crate::counters::Counters;
use crate::iba::arrival::Arrival;
use crate::iba::cause::Failure;
use crate::iba::delivery::OpenReceive;
use crate::iba::environment::Environment;
use crate::iba::local_error::local_error;
use crate::iba::outbox::Outbox;
use crate::iba::queue_pair::Identity;
use crate::memory::Memory;
use converb_wire::{IpProtocol, Ipv4, Packet, Udp};

/// What precedes the data of every datagram.
const GRH_LENGTH: usize = 40;

/// The receiving half of an unreliable datagram queue pair.
#[derive(Debug, Default)]
pub(in crate::iba) struct DatagramReceiver {
    receive: OpenReceive,
}

impl DatagramReceiver {
    /// The receive that was taken and not completed, to be flushed.
    pub(in crate::iba) fn take_open_receive(&mut self) -> Option<u64> {
        self.receive.close()
    }

    /// A packet of `length` bytes from the BTH to the pad.
    pub(in crate::iba) fn handle_packet<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        outbox: &mut Outbox,
        packet: &Packet<'_>,
        length: usize,
        arrival: &Arrival,
    ) {
        let Some(deth) = packet.deth() else {
            return Counters::count(&env.counters.dropped_malformed);
        };
        if deth.queue_key != identity.queue_key
            && !crate::planted::is(crate::planted::Planted::WrongQueueKeyDelivered)
        {
            return Counters::count(&env.counters.dropped_wrong_queue_key);
        }
        if !self.receive.open(env) {
            return Counters::count(&env.counters.dropped_no_receive);
        }
        let payload = packet.payload();
        let total = (GRH_LENGTH + payload.len()) as u32;
        let mut completion = Completion {
            status: Status::Success,
            kind: CompletionKind::Receive,
            byte_length: total,
            extra: packet.immediate().map_or(Extra::None, |value| Extra::Immediate(value.0)),
            qpn: identity.qpn,
            source_qpn: deth.source,
            with_grh: true,
            solicited: packet.bth().solicited,
            ..Completion::default()
        };
        let header = global_route(arrival, length);
        let placed = self
            .receive
            .place(env, 0, &header)
            .and_then(|()| self.receive.place(env, GRH_LENGTH as u32, payload));
        if let Err(error) = placed {
            let status = local_error(error);
            completion.status = status;
            let cause = self.receive.explain(env, 0, total as usize, error);
            outbox.failed = true;
            let failure = Failure {
                peer: deth.source,
                address: arrival.source,
                ..identity.refused(status, cause, packet)
            };
            return self.receive.fail(outbox, completion, failure);
        }
        self.receive.complete(outbox, completion);
    }
}

/// The global route header as RoCEv2 gives it to programs (IBA annex A17): an IPv6 header, or 20
/// bytes of zero and an IPv4 header, whose checksum tells readers that it is one.
fn global_route(arrival: &Arrival, packet: usize) -> [u8; GRH_LENGTH] {
    let mut header = [0; GRH_LENGTH];
    let (Address::Udp { ip: source, .. }, Address::Udp { ip: local, .. }) =
        (arrival.source, arrival.local)
    else {
        return header;
    };
    // The invariant CRC follows the packet.
    let length = (Udp::LENGTH + packet + 4) as u16;
    match (source.to_ipv4_mapped(), local.to_ipv4_mapped()) {
        (Some(source), Some(local)) => {
            let mut ip = Ipv4::new(source, local, IpProtocol::UDP, length);
            ip.type_of_service = arrival.traffic_class;
            ip.time_to_live = arrival.hop_limit;
            ip.checksum = ip.right_checksum();
            ip.emit(&mut header[20..]);
        }
        _ => {
            let class = u32::from(arrival.traffic_class) << 20;
            header[..4].copy_from_slice(&(6 << 28 | class).to_be_bytes());
            header[4..6].copy_from_slice(&length.to_be_bytes());
            header[6] = IpProtocol::UDP.0;
            header[7] = arrival.hop_limit;
            header[8..24].copy_from_slice(&source.octets());
            header[24..40].copy_from_slice(&local.octets());
        }
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn an_ipv4_sender_shows_in_the_second_half() {
        let udp =
            |last| Address::Udp { ip: Ipv4Addr::new(10, 0, 0, last).to_ipv6_mapped(), scope: 0 };
        let arrival = Arrival { source: udp(1), local: udp(2), traffic_class: 0x20, hop_limit: 64 };
        let header = global_route(&arrival, 28);
        // IP, UDP, the packet and its CRC.
        assert_eq!(header[22..24], [0, 20 + 8 + 28 + 4]);
        assert_eq!(header[..20], [0; 20]);
        assert_eq!(header[20], 0x45);
        assert_eq!(header[32..40], [10, 0, 0, 1, 10, 0, 0, 2]);
        let sum: u32 = header[20..40]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn an_ipv6_sender_shows_in_the_whole() {
        let ip = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        let udp = |last| Address::Udp { ip: ip(last), scope: 0 };
        let arrival = Arrival { source: udp(1), local: udp(2), traffic_class: 0, hop_limit: 9 };
        let header = global_route(&arrival, 28);
        assert_eq!(header[4..6], [0, 8 + 28 + 4]);
        assert_eq!(header[0] >> 4, 6);
        assert_eq!(header[7], 9);
        assert_eq!(header[8..24], ip(1).octets());
        assert_eq!(header[24..40], ip(2).octets());
    }
}
