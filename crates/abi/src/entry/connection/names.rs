//! From names to addresses (rdma_getaddrinfo(3)): libc's own, in the words of rdma_cm.

use crate::guard;
use crate::layout::rdma_addrinfo;
use crate::objects::{UNRELIABLE_DATAGRAM, port_space, queue_pair_kind};
use crate::socket_address::{self, AF_IB};
use core::ffi::{c_char, c_int};
use core::ptr::null_mut;
use libc::{addrinfo, sockaddr, sockaddr_storage, socklen_t};

/// `RAI_*`.
pub(super) const PASSIVE: c_int = 1;
const NUMERIC_HOST: c_int = 1 << 1;
const FAMILY: c_int = 1 << 3;
/// `RDMA_PS_TCP` and `RDMA_PS_UDP`.
const SPACE_OF_STREAMS: c_int = 0x0106;
const SPACE_OF_DATAGRAMS: c_int = 0x0111;

/// Returns 0, or -1 with `errno`; what only names can be wrong about is `EINVAL`.
pub(crate) unsafe extern "C" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const rdma_addrinfo,
    found: *mut *mut rdma_addrinfo,
) -> c_int {
    guard::number(|| {
        // SAFETY: the program passes null or whole hints, and a place for the pointer.
        unsafe {
            // SAFETY: all fields are integers and pointers, for which zero is a value.
            let none = core::mem::zeroed();
            let hints = hints.as_ref().copied().unwrap_or(none);
            *found = look_up(node, service, &hints)?;
        }
        Ok(0)
    })
}

/// # Safety
/// The names are null or end with zero, and the addresses in the hints are whole.
unsafe fn look_up(
    node: *const c_char,
    service: *const c_char,
    hints: &rdma_addrinfo,
) -> Result<*mut rdma_addrinfo, guard::Errno> {
    if hints.ai_family == AF_IB {
        return Err(guard::Errno::NOT_SUPPORTED);
    }
    if node.is_null()
        && service.is_null()
        && hints.ai_dst_addr.is_null()
        && hints.ai_src_addr.is_null()
    {
        return Err(guard::Errno::INVALID);
    }
    let space = match (hints.ai_port_space, hints.ai_qp_type) {
        (0, UNRELIABLE_DATAGRAM) => SPACE_OF_DATAGRAMS,
        (0, _) => SPACE_OF_STREAMS,
        (space, _) => space,
    };
    let ports = port_space(space)?;
    let kind = if hints.ai_qp_type == 0 { queue_pair_kind(ports) } else { hints.ai_qp_type };
    let is_passive = hints.ai_flags & PASSIVE != 0;
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut first: rdma_addrinfo = unsafe { core::mem::zeroed() };
    first.ai_flags = hints.ai_flags & PASSIVE;
    first.ai_port_space = space;
    first.ai_qp_type = kind;
    // SAFETY: the caller's promise.
    let (own, peer) = unsafe {
        (socket_address::read(hints.ai_src_addr)?, socket_address::read(hints.ai_dst_addr)?)
    };
    let looked_up = if node.is_null() && service.is_null() {
        if is_passive { own } else { peer }
    } else {
        // SAFETY: the caller's promise.
        Some(unsafe { resolve(node, service, hints, space) }?)
    };
    let (own, peer) = if is_passive { (looked_up, None) } else { (own, looked_up) };
    first.ai_family = match looked_up {
        Some(std::net::SocketAddr::V6(_)) => libc::AF_INET6,
        _ => libc::AF_INET,
    };
    (first.ai_src_addr, first.ai_src_len) = owned(own);
    (first.ai_dst_addr, first.ai_dst_len) = owned(peer);
    Ok(Box::into_raw(Box::new(first)))
}

/// # Safety
/// The names are null or end with zero.
unsafe fn resolve(
    node: *const c_char,
    service: *const c_char,
    hints: &rdma_addrinfo,
    space: c_int,
) -> Result<std::net::SocketAddr, guard::Errno> {
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut wanted: addrinfo = unsafe { core::mem::zeroed() };
    wanted.ai_flags = if hints.ai_flags & PASSIVE != 0 { libc::AI_PASSIVE } else { 0 };
    if hints.ai_flags & NUMERIC_HOST != 0 {
        wanted.ai_flags |= libc::AI_NUMERICHOST;
    }
    if hints.ai_flags & FAMILY != 0 || hints.ai_family != 0 {
        wanted.ai_family = hints.ai_family;
    }
    wanted.ai_socktype = match space {
        SPACE_OF_DATAGRAMS => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    };
    let mut list: *mut addrinfo = null_mut();
    // SAFETY: the caller's promise; the list is freed below.
    let status = unsafe { libc::getaddrinfo(node, service, &raw const wanted, &raw mut list) };
    let error = match status {
        0 => None,
        libc::EAI_SYSTEM => Some(std::io::Error::last_os_error().into()),
        libc::EAI_MEMORY => Some(guard::Errno(libc::ENOMEM)),
        libc::EAI_AGAIN => Some(guard::Errno(libc::EAGAIN)),
        libc::EAI_NONAME => Some(guard::Errno(libc::ENODEV)),
        _ => Some(guard::Errno::INVALID),
    };
    if let Some(error) = error {
        return Err(error);
    }
    // SAFETY: libc's list has at least one address, and is freed once.
    unsafe {
        let found = socket_address::read((*list).ai_addr);
        libc::freeaddrinfo(list);
        found?.ok_or(guard::Errno::INVALID)
    }
}

/// An address on the heap, which `freeaddrinfo` frees.
fn owned(address: Option<std::net::SocketAddr>) -> (*mut sockaddr, socklen_t) {
    let Some(address) = address else { return (null_mut(), 0) };
    let storage = Box::into_raw(Box::new(socket_address::write(address)));
    (storage.cast(), socket_address::length(address) as socklen_t)
}

pub(crate) unsafe extern "C" fn freeaddrinfo(first: *mut rdma_addrinfo) {
    guard::value((), || {
        let mut next = first;
        while !next.is_null() {
            // SAFETY: the list comes from `getaddrinfo`, and is freed once; programs may have put
            // what `malloc` gave into the words.
            unsafe {
                let entry = Box::from_raw(next);
                next = entry.ai_next;
                for address in [entry.ai_src_addr, entry.ai_dst_addr] {
                    if !address.is_null() {
                        drop(Box::from_raw(address.cast::<sockaddr_storage>()));
                    }
                }
            }
        }
    });
}
