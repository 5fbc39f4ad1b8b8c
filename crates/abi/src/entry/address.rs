//! Address handles.

use crate::address;
use crate::guard;
use crate::layout::*;
use crate::objects::{AddressHandleObject, ContextObject, ProtectionDomainObject};
use core::ffi::c_int;

pub(crate) unsafe extern "C" fn create_ah(
    domain: *mut ibv_pd,
    attributes: *mut ibv_ah_attr,
) -> *mut ibv_ah {
    // SAFETY: the domain is alive, and the program passes the structure.
    guard::pointer(|| unsafe { AddressHandleObject::allocate(domain, &*attributes) })
}

pub(crate) unsafe extern "C" fn create_ah_from_wc(
    domain: *mut ibv_pd,
    completion: *mut ibv_wc,
    header: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    guard::pointer(|| {
        // SAFETY: the domain is alive, and the program passes both structures.
        unsafe {
            let context = ProtectionDomainObject::from_pointer(domain).domain().context();
            let attributes = address::of_sender(context, port, &*completion, &*header)?;
            AddressHandleObject::allocate(domain, &attributes)
        }
    })
}

pub(crate) unsafe extern "C" fn destroy_ah(handle: *mut ibv_ah) -> c_int {
    guard::status(|| {
        // SAFETY: the handle is alive, and used no more.
        unsafe { AddressHandleObject::free(handle) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    completion: *mut ibv_wc,
    header: *mut ibv_grh,
    attributes: *mut ibv_ah_attr,
) -> c_int {
    guard::number(|| {
        // SAFETY: the context is open, and the program passes the structures.
        unsafe {
            let context = ContextObject::from_pointer(context).context();
            attributes.write(address::of_sender(context, port, &*completion, &*header)?);
        }
        Ok(0)
    })
}

/// The MAC address behind a GID, for programs that build Ethernet headers themselves.
pub(crate) unsafe extern "C" fn resolve_eth_l2_from_gid(
    context: *mut ibv_context,
    attributes: *mut ibv_ah_attr,
    mac: *mut [u8; 6],
    vlan: *mut u16,
) -> c_int {
    guard::status(|| {
        // SAFETY: the context is open, and the program passes the structure and a place for the
        // MAC address; that for the VLAN may be null.
        unsafe {
            let context = ContextObject::from_pointer(context).context();
            let found = address::link_address(context, &*attributes)?;
            mac.write(found.mac);
            if let Some(place) = vlan.as_mut() {
                *place = found.vlan.unwrap_or(address::NO_VLAN);
            }
        }
        Ok(())
    })
}
