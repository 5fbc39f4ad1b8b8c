//! Endpoints: identifiers made and connected in few calls, which wait for what comes of them.

use super::names::PASSIVE;
use super::{acknowledge_last, events, identifiers, outcome, queues};
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{DeviceObject, IdentifierObject};
use converb::cm::EventKind;
use core::ffi::c_int;
use core::ptr::null_mut;

/// How long a program waits for addresses and routes, which are known at once.
const TIMEOUT: c_int = 2000;

pub(crate) unsafe extern "C" fn create_ep(
    place: *mut *mut rdma_cm_id,
    described: *mut rdma_addrinfo,
    domain: *mut ibv_pd,
    initial: *mut ibv_qp_init_attr,
) -> c_int {
    guard::number(|| {
        // SAFETY: the program passes a place for the pointer, and a description that is whole.
        unsafe {
            let (space, kind) = ((*described).ai_port_space, (*described).ai_qp_type);
            let kind = (kind != 0).then_some(kind);
            let id = IdentifierObject::allocate(null_mut(), null_mut(), space, kind)?;
            if let Err(error) = make(id, &*described, domain, initial) {
                queues::destroy_qp(id);
                identifiers::end(id);
                return Err(error);
            }
            *place = id;
        }
        Ok(0)
    })
}

/// # Safety
/// The identifier is alive and new, the description and the attributes whole, or null.
unsafe fn make(
    id: *mut rdma_cm_id,
    described: &rdma_addrinfo,
    domain: *mut ibv_pd,
    initial: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    let done = |status: c_int| match status {
        0 => Ok(()),
        _ => Err(Errno::from(std::io::Error::last_os_error())),
    };
    // SAFETY: the caller's promise.
    unsafe {
        let object = IdentifierObject::from_pointer(id);
        if !initial.is_null() {
            (*initial).qp_type = (*id).qp_type;
        }
        if described.ai_flags & PASSIVE != 0 {
            done(identifiers::bind_addr(id, described.ai_src_addr))?;
            if !domain.is_null() {
                (*id).pd = domain;
            }
            object.own().initial = initial.as_ref().copied();
            return Ok(());
        }
        let (source, peer) = (described.ai_src_addr, described.ai_dst_addr);
        done(identifiers::resolve_addr(id, source, peer, TIMEOUT))?;
        done(identifiers::resolve_route(id, TIMEOUT))?;
        if !initial.is_null() {
            done(queues::create_qp(id, domain, initial))?;
        }
        if !described.ai_connect.is_null() {
            let words = described.ai_connect.cast::<u8>();
            object.own().words =
                core::slice::from_raw_parts(words, described.ai_connect_len).to_vec();
        }
    }
    Ok(())
}

pub(crate) unsafe extern "C" fn destroy_ep(id: *mut rdma_cm_id) {
    guard::value((), || {
        // SAFETY: the identifier is alive, and used no more.
        unsafe {
            queues::destroy_qp(id);
            queues::destroy_srq(id);
            identifiers::end(id);
        }
    });
}

pub(crate) unsafe extern "C" fn get_request(
    listener: *mut rdma_cm_id,
    place: *mut *mut rdma_cm_id,
) -> c_int {
    guard::number(|| {
        // SAFETY: the listener is alive, and the program passes a place for the pointer.
        unsafe {
            if !IdentifierObject::from_pointer(listener).own().is_synchronous {
                return Err(Errno::INVALID);
            }
            acknowledge_last(listener);
            let event = events::next((*listener).channel)?;
            let request = take(listener, event);
            if request.is_err() {
                (*listener).event = event;
            }
            *place = request?;
        }
        Ok(0)
    })
}

/// The identifier in an event of a listener's, which is synchronous like that.
///
/// # Safety
/// Both are alive.
unsafe fn take(
    listener: *mut rdma_cm_id,
    event: *mut rdma_cm_event,
) -> Result<*mut rdma_cm_id, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        outcome(event)?;
        if (*event).event != EventKind::ConnectRequest as c_int {
            return Err(Errno::INVALID);
        }
        let id = (*event).id;
        let prepared = identifiers::migrate(id, null_mut()).and_then(|_| {
            let initial = IdentifierObject::from_pointer(listener).own().initial;
            let Some(mut initial) = initial else { return Ok(()) };
            let domain = (*listener).pd;
            match queues::create_qp(id, domain, &raw mut initial) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error().into()),
            }
        });
        if let Err(error) = prepared {
            // Nobody else knows it: the peer is refused.
            identifiers::end(id);
            return Err(error);
        }
        (*id).event = event;
        Ok(id)
    }
}

pub(crate) unsafe extern "C" fn get_devices(count: *mut c_int) -> *mut *mut ibv_context {
    guard::pointer(|| {
        let mut list = Vec::new();
        for device in DeviceObject::list()? {
            list.push(device.shared()?.context);
        }
        if !count.is_null() {
            // SAFETY: the program passes null or a place for the number.
            unsafe { *count = list.len() as c_int };
        }
        list.push(null_mut());
        Ok(Box::into_raw(list.into_boxed_slice()).cast())
    })
}

pub(crate) unsafe extern "C" fn free_devices(list: *mut *mut ibv_context) {
    guard::value((), || {
        if list.is_null() {
            return;
        }
        let mut length = 1;
        // SAFETY: the list comes from `get_devices`, ends with null, and is freed once.
        unsafe {
            while !(*list.add(length - 1)).is_null() {
                length += 1;
            }
            drop(Box::from_raw(core::ptr::slice_from_raw_parts_mut(list, length)));
        }
    });
}
