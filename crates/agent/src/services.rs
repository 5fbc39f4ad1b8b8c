//! Who serves which service: the service IDs that members have taken for themselves, as sockets
//! take ports, so that what asks for one finds its process.
//!
//! The rules are those of rdma_bind_addr(3) and bind(2): an address and a port belong to one, all
//! addresses overlap with each, and where all that share one want to share it none may listen.

use converb_cm::message::ServiceId;
use core::net::Ipv6Addr;
use std::collections::BTreeMap;

/// A service that a member has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its number. Where the low 16 bits, the port, are 0 one is picked.
    pub id: ServiceId,
    /// At which of the host's addresses.
    pub at: At,
    /// Whether requests go to the member, or it has only kept the service from others.
    pub is_listening: bool,
    /// Whether others that say so, too, may have it as long as nobody listens (SO_REUSEADDR).
    pub is_shared: bool,
}

/// Where a service is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At all addresses of these families.
    All {
        /// IPv4.
        v4: bool,
        /// IPv6.
        v6: bool,
    },
    /// At this one; IPv4 in its v4-mapped form.
    One {
        /// The address.
        ip: Ipv6Addr,
        /// The interface of a link-local address, 0 for others.
        scope: u32,
    },
}

impl At {
    fn takes(self, ip: Ipv6Addr, scope: u32) -> bool {
        match self {
            Self::All { v4, v6 } => {
                let is_v4 = ip.to_ipv4_mapped().is_some();
                is_v4 && v4 || !is_v4 && v6
            }
            Self::One { ip: own, scope: of } => own == ip && of == scope,
        }
    }

    fn overlaps(self, other: Self) -> bool {
        match (self, other) {
            (Self::One { ip, scope }, at) | (at, Self::One { ip, scope }) => at.takes(ip, scope),
            (Self::All { v4, v6 }, Self::All { v4: other_v4, v6: other_v6 }) => {
                v4 && other_v4 || v6 && other_v6
            }
        }
    }
}

/// Why a member does not get a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTaken {
    /// Another one has it.
    InUse,
    /// It has as many as it may.
    TooMany,
}

#[derive(Clone, Copy, Debug)]
struct Taken {
    /// The number of the member that has it, and that one's name for it.
    member: u64,
    token: u32,
    service: Service,
}

/// All services.
#[derive(Debug, Default)]
pub struct Services {
    taken: BTreeMap<ServiceId, Vec<Taken>>,
    /// How many each member has.
    counts: BTreeMap<u64, usize>,
}

/// So many may one member have.
const SERVICES_MAX: usize = 16_384;
/// The ports that are picked, as the kernel does by default.
const PICKED: core::ops::RangeInclusive<u16> = 32_768..=60_999;

impl Services {
    /// Gives a service to a member, or changes one that it has at the same place; which one it is,
    /// with its port. `random` says where to begin to look for a port, unless one was picked for
    /// this `token` of the member's already.
    ///
    /// # Errors
    /// Why it does not get it.
    pub fn take(
        &mut self,
        member: u64,
        token: u32,
        service: Service,
        random: u64,
    ) -> Result<ServiceId, NotTaken> {
        let service = if service.id.0 & 0xffff == 0 {
            let before = self.picked(member, token);
            let id = before.or_else(|| self.pick(service, random)).ok_or(NotTaken::InUse)?;
            Service { id, ..service }
        } else {
            service
        };
        if self.is_in_use(Some(member), service) {
            return Err(NotTaken::InUse);
        }
        let taken = Taken { member, token, service };
        let has_it = |other: &&mut Taken| other.member == member && other.service.at == service.at;
        let of_id = self.taken.entry(service.id).or_default();
        if let Some(own) = of_id.iter_mut().find(has_it) {
            *own = taken;
            return Ok(service.id);
        }
        let count = self.counts.entry(member).or_default();
        if *count >= SERVICES_MAX {
            return Err(NotTaken::TooMany);
        }
        *count += 1;
        of_id.push(taken);
        Ok(service.id)
    }

    /// Takes a service back from a member.
    pub fn give_back(&mut self, member: u64, id: ServiceId, at: At) {
        let Some(of_id) = self.taken.get_mut(&id) else { return };
        let before = of_id.len();
        of_id.retain(|taken| taken.member != member || taken.service.at != at);
        if of_id.len() < before
            && let Some(count) = self.counts.get_mut(&member)
        {
            *count -= 1;
        }
        if of_id.is_empty() {
            self.taken.remove(&id);
        }
    }

    /// Takes back all that a member has.
    pub fn forget(&mut self, member: u64) {
        if self.counts.remove(&member).is_some() {
            self.taken.retain(|_, of_id| {
                of_id.retain(|taken| taken.member != member);
                !of_id.is_empty()
            });
        }
    }

    /// For how many of them somebody listens.
    pub fn listeners(&self) -> usize {
        self.taken.values().flatten().filter(|taken| taken.service.is_listening).count()
    }

    /// The member that listens for a service at one of the host's addresses: who serves at that
    /// address goes before who serves at all.
    pub fn find(&self, id: ServiceId, ip: Ipv6Addr, scope: u32) -> Option<u64> {
        let listening = || {
            let of_id = self.taken.get(&id).map(Vec::as_slice).unwrap_or_default();
            of_id.iter().filter(move |taken| {
                taken.service.is_listening && taken.service.at.takes(ip, scope)
            })
        };
        let one = listening().find(|taken| matches!(taken.service.at, At::One { .. }));
        one.or_else(|| listening().next()).map(|taken| taken.member)
    }

    /// Whether somebody has it, other than `member` at the same place.
    fn is_in_use(&self, member: Option<u64>, service: Service) -> bool {
        let of_id = self.taken.get(&service.id).map(Vec::as_slice).unwrap_or_default();
        of_id.iter().any(|Taken { member: of, service: other, .. }| {
            let is_itself = Some(*of) == member && other.at == service.at;
            let may_share = other.is_shared
                && service.is_shared
                && !other.is_listening
                && !service.is_listening;
            !is_itself && !may_share && other.at.overlaps(service.at)
        })
    }

    fn picked(&self, member: u64, token: u32) -> Option<ServiceId> {
        let mut all = self.taken.values().flatten();
        let found = all.find(|taken| taken.member == member && taken.token == token);
        found.map(|taken| taken.service.id)
    }

    fn pick(&self, service: Service, random: u64) -> Option<ServiceId> {
        let count = u64::from(PICKED.end() - PICKED.start()) + 1;
        (0..count)
            .map(|step| {
                let port = u64::from(*PICKED.start()) + random.wrapping_add(step) % count;
                ServiceId(service.id.0 | port)
            })
            .find(|&id| !self.is_in_use(None, Service { id, is_shared: false, ..service }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: u64 = 0x0106_0000;
    const BOTH: At = At::All { v4: true, v6: true };
    const V4: At = At::All { v4: true, v6: false };
    const V6: At = At::All { v4: false, v6: true };

    fn ip(text: &str) -> Ipv6Addr {
        text.parse().unwrap()
    }

    fn one(text: &str) -> At {
        At::One { ip: ip(text), scope: 0 }
    }

    fn service(port: u64, at: At) -> Service {
        Service { id: ServiceId(TCP | port), at, is_listening: true, is_shared: false }
    }

    #[test]
    fn a_port_belongs_to_one_where_addresses_overlap() {
        let mut services = Services::default();
        let mut take = |member, port, at| services.take(member, 0, service(port, at), 0).is_ok();
        assert!(take(1, 7, V4) && take(2, 7, V6), "two families");
        assert!(
            !take(3, 7, BOTH) && !take(3, 7, one("::ffff:10.0.0.1")) && !take(3, 7, one("fd00::1"))
        );
        assert!(take(3, 8, one("::ffff:10.0.0.1")) && take(4, 8, one("::ffff:10.0.0.2")));
        assert!(!take(5, 8, V4) && take(5, 8, V6) && !take(6, 8, one("fd00::1")));
        let scoped = |scope| At::One { ip: ip("fe80::1"), scope };
        assert!(take(1, 9, scoped(2)) && take(2, 9, scoped(3)) && !take(3, 9, scoped(3)));
        assert!(!take(3, 7, V4) && take(3, 70, BOTH));
        services.forget(1);
        assert!(services.take(3, 0, service(7, V4), 0).is_ok());
    }

    #[test]
    fn who_serves_an_address_goes_before_who_serves_all() {
        let mut services = Services::default();
        let shared = |at, is_listening| Service { is_shared: true, is_listening, ..service(7, at) };
        services.take(1, 0, shared(BOTH, false), 0).unwrap();
        services.take(2, 0, shared(one("::ffff:10.0.0.1"), false), 0).unwrap();
        assert_eq!(services.find(ServiceId(TCP | 7), ip("::ffff:10.0.0.1"), 0), None);
        // Who listens does not share.
        assert_eq!(
            services.take(2, 0, shared(one("::ffff:10.0.0.1"), true), 0),
            Err(NotTaken::InUse)
        );
        services.give_back(1, ServiceId(TCP | 7), BOTH);
        services.take(2, 0, shared(one("::ffff:10.0.0.1"), true), 0).unwrap();
        assert_eq!(services.take(1, 0, shared(BOTH, false), 0), Err(NotTaken::InUse));
        assert_eq!(services.find(ServiceId(TCP | 7), ip("::ffff:10.0.0.1"), 0), Some(2));
        assert_eq!(services.find(ServiceId(TCP | 7), ip("::ffff:10.0.0.2"), 0), None);
        assert_eq!(services.find(ServiceId(TCP | 8), ip("::ffff:10.0.0.1"), 0), None);
    }

    #[test]
    fn ports_are_picked_until_there_are_none() {
        let any = service(0, V4);
        let (mut services, mut token) = (Services::default(), 0);
        let mut take = |member, service, random| {
            token += 1;
            let taken = services.take(member, token, service, random);
            // Who says it again gets the same.
            assert_eq!(services.take(member, token, service, random + 9), taken);
            taken
        };
        assert_eq!(take(1, any, 0), Ok(ServiceId(TCP | 32_768)));
        assert_eq!(take(2, any, 0), Ok(ServiceId(TCP | 32_769)));
        assert_eq!(take(2, any, 28_231), Ok(ServiceId(TCP | 60_999)));
        assert_eq!(take(2, any, 28_231), Ok(ServiceId(TCP | 32_770)), "it goes round");
        // The other family's are free, and shared ones are picked for one alone.
        assert_eq!(take(3, service(0, V6), 0), Ok(ServiceId(TCP | 32_768)));
        let shared = Service { is_shared: true, is_listening: false, ..any };
        assert_eq!(take(4, shared, 0), Ok(ServiceId(TCP | 32_771)));
        assert_eq!(take(5, shared, 0), Ok(ServiceId(TCP | 32_772)));
    }

    #[test]
    fn one_member_cannot_take_all() {
        let mut services = Services::default();
        for port in 1..=SERVICES_MAX as u64 {
            services.take(1, 0, service(port, V4), 0).unwrap();
        }
        assert_eq!(services.take(1, 0, service(20_000, V4), 0), Err(NotTaken::TooMany));
        // What it has it may change.
        let bound = Service { is_listening: false, ..service(5, V4) };
        assert!(services.take(1, 0, bound, 0).is_ok());
        assert_eq!(services.find(ServiceId(TCP | 5), ip("::ffff:10.0.0.1"), 0), None);
        assert!(services.take(2, 0, service(20_000, V4), 0).is_ok());
    }
}
