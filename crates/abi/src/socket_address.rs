//! Socket addresses as C programs have them.

use crate::guard::Errno;
use core::mem::{MaybeUninit, offset_of};
use libc::{sa_family_t, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// The address of InfiniBand ports, which names no IP address.
pub(crate) const AF_IB: libc::c_int = 27;

/// The address that a program passes; `None` for null.
///
/// # Safety
/// The pointer is null, or to an address as long as its family says.
pub(crate) unsafe fn read(address: *const sockaddr) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise; programs align their addresses as they like.
    unsafe {
        let family = address.byte_add(offset_of!(sockaddr, sa_family)).cast::<sa_family_t>();
        match family.read_unaligned().into() {
            libc::AF_INET => {
                let v4 = address.cast::<sockaddr_in>().read_unaligned();
                let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
                Ok(Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port))))
            }
            libc::AF_INET6 => {
                let v6 = address.cast::<sockaddr_in6>().read_unaligned();
                let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
                let port = u16::from_be(v6.sin6_port);
                let all = SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id);
                Ok(Some(all.into()))
            }
            AF_IB => Err(Errno::NOT_SUPPORTED),
            _ => Err(Errno(libc::EAFNOSUPPORT)),
        }
    }
}

/// An address in room for every family.
pub(crate) fn write(address: SocketAddr) -> sockaddr_storage {
    // SAFETY: all fields are integers, for which zero is a value.
    let mut storage: sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
    let place = &raw mut storage;
    match address {
        SocketAddr::V4(v4) => {
            let written = sockaddr_in {
                sin_family: libc::AF_INET as sa_family_t,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: u32::from(*v4.ip()).to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the room is larger than any address, and aligned for all.
            unsafe { place.cast::<sockaddr_in>().write(written) };
        }
        SocketAddr::V6(v6) => {
            let written = sockaddr_in6 {
                sin6_family: libc::AF_INET6 as sa_family_t,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the room is larger than any address, and aligned for all.
            unsafe { place.cast::<sockaddr_in6>().write(written) };
        }
    }
    storage
}

/// How many bytes of [`write`]'s the address is.
pub(crate) fn length(address: SocketAddr) -> usize {
    match address {
        SocketAddr::V4(_) => size_of::<sockaddr_in>(),
        SocketAddr::V6(_) => size_of::<sockaddr_in6>(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_c() {
        for text in ["10.1.2.3:80", "[2001:db8::1]:65535", "[fe80::1%3]:1"] {
            let address: SocketAddr = text.parse().unwrap();
            let storage = write(address);
            // SAFETY: the storage holds an address.
            assert_eq!(unsafe { read((&raw const storage).cast()) }, Ok(Some(address)), "{text}");
        }
        // SAFETY: null is none.
        assert_eq!(unsafe { read(core::ptr::null()) }, Ok(None));
        let mut storage = write("1.2.3.4:5".parse().unwrap());
        storage.ss_family = AF_IB as sa_family_t;
        // SAFETY: the family is looked at first.
        assert_eq!(unsafe { read((&raw const storage).cast()) }, Err(Errno::NOT_SUPPORTED));
    }
}
