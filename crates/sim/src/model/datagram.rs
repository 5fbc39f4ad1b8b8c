//! Unreliable datagrams: each arrives whole or not at all, behind the header that says who sent
//! it, and only if it brings the receiver's Q_Key (IBA 9.8.3).
//!
//! Their receiver does not look at packet numbers, and nothing is promised about order or
//! repetition: a datagram may arrive as often as the network delivers it, which is twice where the
//! network doubles packets, and in the order in which it does.

use super::{Circumstances, Model, Outcome};
use crate::scenario::{Action, Destination, OWN_KEY, ROUTE_LENGTH, Scenario};
use crate::world::address;
use converb_engine::iba::Service;
use converb_engine::{Address, Completion};
use converb_wire::{IpProtocol, Ipv4, Ipv6, Udp};

/// What the network puts around the data of a datagram, behind the IP header: UDP, BTH, DETH and
/// the invariant CRC.
const AROUND: usize = Udp::LENGTH + 12 + 8 + 4;

impl Model {
    /// A receive ended with success: it holds a datagram of whom it names.
    pub(super) fn check_datagram(
        &mut self,
        end: usize,
        (queue, index): (usize, usize),
        completion: &Completion,
        around: &Circumstances<'_>,
    ) -> Result<(), String> {
        let named = |sender: &usize| {
            self.ends[*sender].qpn == completion.source_qpn.value()
                && self.service(*sender) == Service::UnreliableDatagram
        };
        let sender = (0..self.ends.len()).find(named).ok_or("it names no sender")?;
        if !completion.with_grh {
            return Err("it tells of no GRH".into());
        }
        if self.ends[queue].receives[index].bad_key {
            return Err("success in spite of a key that nobody has".into());
        }
        let whole = self.buffer((queue, index), around.memory);
        let Some(whole) = whole.get(..completion.byte_length as usize) else {
            return Err("it is longer than its receive".into());
        };
        let Some((route, data)) = whole.split_at_checked(ROUTE_LENGTH as usize) else {
            return Err("it is shorter than a GRH".into());
        };
        let is_it = |&work: &usize| {
            self.may_arrive(sender, work, end)
                && self.fits(sender, work, ROUTE_LENGTH, completion)
                && self.payload(sender, work) == data
        };
        let posted = self.ends[sender].outcomes.len();
        let first = self.first_in_order(sender, end);
        let Some(work) = (first..posted).find(is_it) else {
            return Err(format!(
                "it is none of the datagrams from work {first} to {posted} of end {sender} that \
                 may come"
            ));
        };
        self.check_route(sender, work, end, route)?;
        let whole = whole.to_vec();
        self.keep_received((queue, index), &whole);
        self.ends[sender].arrivals[work] += 1;
        self.ends[end].consumed += 1;
        Ok(())
    }

    /// Whether a datagram may arrive at an end once more.
    fn may_arrive(&self, sender: usize, work: usize, end: usize) -> bool {
        let state = &self.ends[sender];
        let copies = if self.scenario.weather.duplicate == 0 { 1 } else { 2 };
        state.arrivals[work] < copies && self.is_addressed(sender, work, end)
    }

    /// Whether a datagram goes to an end and will be let in.
    pub(super) fn is_addressed(&self, sender: usize, work: usize, end: usize) -> bool {
        let plan = &self.ends[sender].works[work];
        let fits = |to: Destination| to.end == end && self.has_right_key(sender, to);
        plan.fault.is_none() && plan.to.is_some_and(fits)
    }

    fn has_right_key(&self, sender: usize, to: Destination) -> bool {
        let ends = &self.scenario.ends;
        let sent = if to.queue_key & OWN_KEY == 0 { to.queue_key } else { ends[sender].queue_key };
        sent == ends[to.end].queue_key
    }

    /// Where no packet overtakes another, datagrams from one queue pair to another do not either.
    fn first_in_order(&self, sender: usize, end: usize) -> usize {
        let weather = &self.scenario.weather;
        if weather.reorder != 0 || weather.duplicate != 0 {
            return 0;
        }
        let state = &self.ends[sender];
        let last = (0..state.works.len())
            .rfind(|&work| state.arrivals[work] != 0 && self.is_addressed(sender, work, end));
        last.map_or(0, |last| last + 1)
    }

    /// The 40 bytes in front of a datagram (IBA annex A17): an IPv6 header, or in their second
    /// half an IPv4 header.
    fn check_route(
        &self,
        sender: usize,
        work: usize,
        end: usize,
        route: &[u8],
    ) -> Result<(), String> {
        let plan = &self.ends[sender].works[work];
        let family = self.scenario.family;
        let node = |end: usize| family.address(address(self.scenario.ends[end].node));
        let (Address::Udp { ip: source, .. }, Address::Udp { ip: destination, .. }) =
            (node(sender), node(end))
        else {
            return Ok(());
        };
        let data = plan.length() as usize;
        let immediate = if matches!(plan.action, Action::Send(Some(_))) { 4 } else { 0 };
        let length = AROUND + immediate + data.next_multiple_of(4);
        let got = match (source.to_ipv4_mapped(), destination.to_ipv4_mapped()) {
            (Some(source), Some(destination)) => {
                if route[..20] != [0; 20] {
                    return Err(format!("its first 20 bytes are not zero: {route:02x?}"));
                }
                let ip = Ipv4::parse(&route[20..]).map(|(ip, _)| ip);
                ip.map(|ip| {
                    let ends = ip.source == source && ip.destination == destination;
                    let is_whole = usize::from(ip.total_length) == Ipv4::LENGTH + length;
                    let is_right = ip.checksum == ip.right_checksum();
                    ends && is_whole
                        && is_right
                        && (ip.type_of_service, ip.time_to_live, ip.protocol)
                            == (0x60, 64, IpProtocol::UDP)
                })
            }
            _ => Ipv6::parse(route).map(|(ip, _)| {
                let ends = ip.source == source && ip.destination == destination;
                ends && usize::from(ip.payload_length) == length
                    && (ip.traffic_class, ip.hop_limit, ip.next_header)
                        == (0x60, 64, IpProtocol::UDP)
            }),
        };
        match got {
            Some(true) => Ok(()),
            _ => Err(format!("its route is not that of work {work} of end {sender}: {route:02x?}")),
        }
    }

    /// How many datagrams the nodes must have refused for their Q_Key: at least, and at most.
    pub(super) fn refused_keys(&self, node: usize) -> (u64, u64) {
        let (mut least, mut most) = (0, 0);
        let copies = if self.scenario.weather.duplicate == 0 { 1 } else { 2 };
        for (sender, state) in self.ends.iter().enumerate() {
            for (index, outcome) in state.outcomes.iter().enumerate() {
                let work = &state.works[index];
                let Some(to) = work.to.filter(|_| work.fault.is_none()) else { continue };
                if self.scenario.ends[to.end].node != node || self.has_right_key(sender, to) {
                    continue;
                }
                most += copies;
                let is_sent = !matches!(outcome, Outcome::Failed(_));
                if is_sent && self.scenario.loses_nothing() && !self.looks_dead(to.end) {
                    least += 1;
                }
            }
        }
        (least, most)
    }

    /// Whom a work goes to.
    pub(super) fn goes_to(&self, sender: usize, work: usize) -> usize {
        Scenario::target(sender, &self.ends[sender].works[work])
    }
}
