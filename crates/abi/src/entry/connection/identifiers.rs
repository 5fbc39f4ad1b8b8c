//! Identifiers: made, bound, asked, moved and ended.

use super::{acknowledge_last, complete};
use crate::attributes;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{ContextObject, EventChannelObject, IdentifierObject};
use crate::socket_address;
use converb::cm::{Identifier, Setting};
use converb::iba::State;
use core::ffi::{c_int, c_void};
use libc::sockaddr;
use std::sync::Arc;

pub(crate) unsafe extern "C" fn create_id(
    channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    context: *mut c_void,
    space: c_int,
) -> c_int {
    guard::number(|| {
        // SAFETY: the channel is null or alive, and the program passes a place for the pointer.
        unsafe { *id = IdentifierObject::allocate(channel, context, space, None)? };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn destroy_id(id: *mut rdma_cm_id) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and used no more.
        unsafe { end(id) };
        Ok(0)
    })
}

/// Ends an identifier, when all its events are acknowledged.
///
/// # Safety
/// The identifier is alive, and used no more.
pub(super) unsafe fn end(id: *mut rdma_cm_id) {
    // SAFETY: the caller's promise.
    unsafe {
        let object = IdentifierObject::from_pointer(id);
        object.identifier().close();
        acknowledge_last(id);
        object.wait_acknowledged();
        let (is_synchronous, channel) = (object.own().is_synchronous, (*id).channel);
        IdentifierObject::free(id);
        if is_synchronous {
            EventChannelObject::free(channel);
        }
    }
}

pub(crate) unsafe extern "C" fn bind_addr(id: *mut rdma_cm_id, address: *mut sockaddr) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the address whole.
        unsafe {
            let address = socket_address::read(address)?.ok_or(Errno::INVALID)?;
            let object = IdentifierObject::from_pointer(id);
            object.identifier().bind(address)?;
            object.publish()?;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn resolve_addr(
    id: *mut rdma_cm_id,
    source: *mut sockaddr,
    peer: *mut sockaddr,
    _timeout: c_int,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the addresses null or whole.
        unsafe {
            let source = socket_address::read(source)?;
            let peer = socket_address::read(peer)?.ok_or(Errno::INVALID)?;
            IdentifierObject::from_pointer(id).identifier().resolve_address(source, peer)?;
            complete(id)
        }
    })
}

pub(crate) unsafe extern "C" fn resolve_route(id: *mut rdma_cm_id, _timeout: c_int) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive.
        unsafe {
            IdentifierObject::from_pointer(id).identifier().resolve_route()?;
            complete(id)
        }
    })
}

pub(crate) unsafe extern "C" fn migrate_id(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> c_int {
    // SAFETY: the identifier is alive, and the channel null or alive.
    guard::number(|| unsafe { migrate(id, channel) })
}

/// Moves an identifier to a channel, or to one of its own.
///
/// # Safety
/// The identifier is alive, and the channel null or alive.
pub(super) unsafe fn migrate(
    id: *mut rdma_cm_id,
    channel: *mut rdma_event_channel,
) -> Result<c_int, Errno> {
    let is_synchronous = channel.is_null();
    // SAFETY: the caller's promise.
    unsafe {
        let channel = if is_synchronous { EventChannelObject::allocate()? } else { channel };
        let object = IdentifierObject::from_pointer(id);
        object.identifier().migrate(EventChannelObject::from_pointer(channel).channel());
        acknowledge_last(id);
        object.wait_acknowledged();
        let before = core::mem::replace(&mut (*id).channel, channel);
        let was_own = core::mem::replace(&mut object.own().is_synchronous, is_synchronous);
        if was_own {
            EventChannelObject::free(before);
        }
    }
    Ok(0)
}

/// `RDMA_OPTION_ID` and its options.
const LEVEL_ID: c_int = 0;
const TYPE_OF_SERVICE: c_int = 0;
const REUSE_ADDRESS: c_int = 1;
const ONLY_OWN_FAMILY: c_int = 2;
const ACK_TIMEOUT: c_int = 3;
/// `RDMA_OPTION_IB`, whose one option names a path of InfiniBand's.
const LEVEL_IB: c_int = 1;

pub(crate) unsafe extern "C" fn set_option(
    id: *mut rdma_cm_id,
    level: c_int,
    option: c_int,
    value: *mut c_void,
    length: usize,
) -> c_int {
    guard::number(|| {
        if level == LEVEL_IB {
            return Err(Errno::NOT_SUPPORTED);
        }
        let setting = match (level, option) {
            // SAFETY: the value has the length that the program says.
            (LEVEL_ID, TYPE_OF_SERVICE) => Setting::TypeOfService(unsafe { read(value, length) }?),
            // SAFETY: as above.
            (LEVEL_ID, ACK_TIMEOUT) => Setting::AckTimeout(unsafe { read(value, length) }?),
            (LEVEL_ID, REUSE_ADDRESS) => {
                // SAFETY: as above.
                Setting::ReuseAddress(unsafe { read::<c_int>(value, length) }? != 0)
            }
            (LEVEL_ID, ONLY_OWN_FAMILY) => {
                // SAFETY: as above.
                Setting::OnlyOwnFamily(unsafe { read::<c_int>(value, length) }? != 0)
            }
            _ => return Err(Errno(libc::ENOSYS)),
        };
        // SAFETY: the identifier is alive.
        unsafe { IdentifierObject::from_pointer(id) }.identifier().set(setting)?;
        Ok(0)
    })
}

/// An option's value.
///
/// # Safety
/// The value has that length.
unsafe fn read<T: Copy>(value: *const c_void, length: usize) -> Result<T, Errno> {
    if value.is_null() || length != size_of::<T>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promise; the types that are asked for are integers.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

fn port_of(address: Option<std::net::SocketAddr>) -> u16 {
    address.map_or(0, |address| address.port().to_be())
}

pub(crate) unsafe extern "C" fn get_src_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the identifier is alive.
    guard::value(0, || port_of(unsafe { identifier(id) }.local()))
}

pub(crate) unsafe extern "C" fn get_dst_port(id: *mut rdma_cm_id) -> u16 {
    // SAFETY: the identifier is alive.
    guard::value(0, || port_of(unsafe { identifier(id) }.peer()))
}

/// # Safety
/// The identifier is alive.
unsafe fn identifier<'a>(id: *mut rdma_cm_id) -> &'a Arc<Identifier> {
    // SAFETY: the caller's promise.
    unsafe { IdentifierObject::from_pointer(id) }.identifier()
}

pub(crate) unsafe extern "C" fn init_qp_attr(
    id: *mut rdma_cm_id,
    requested: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the program passes both places.
        unsafe {
            let object = IdentifierObject::from_pointer(id);
            let code = (*requested).qp_state;
            let state = State::ALL.into_iter().find(|state| *state as c_int == code);
            let (found, parts) = object.identifier().attributes(state.ok_or(Errno::INVALID)?)?;
            if (*id).verbs.is_null() {
                return Err(Errno::INVALID);
            }
            let context = ContextObject::from_pointer((*id).verbs).context();
            let sizes = converb::Capacities::default();
            *requested = attributes::current(context, &found, &sizes);
            *mask = parts.0 as c_int;
        }
        Ok(0)
    })
}
