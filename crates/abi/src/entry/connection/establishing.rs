//! From a request to a connection, and to its end.

use super::complete;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::IdentifierObject;
use converb::Qpn;
use converb::cm::{ConnectionParameters, Identifier};
use core::ffi::{c_int, c_void};

/// What the program says, or what it means by saying nothing.
///
/// # Safety
/// The parameters are null or whole, with as much private data as they say.
unsafe fn said(parameters: *const rdma_conn_param, words: &[u8]) -> ConnectionParameters {
    if parameters.is_null() {
        return ConnectionParameters {
            private_data: words.to_vec(),
            responder_resources: ConnectionParameters::ALL_READS,
            initiator_depth: ConnectionParameters::ALL_READS,
            retry_count: 7,
            rnr_retry_count: 7,
            ..ConnectionParameters::default()
        };
    }
    // SAFETY: the caller's promise.
    unsafe {
        let said = &*parameters;
        let own = bytes(said.private_data, said.private_data_len);
        ConnectionParameters {
            private_data: if own.is_empty() { words.to_vec() } else { own.to_vec() },
            responder_resources: said.responder_resources,
            initiator_depth: said.initiator_depth,
            flow_control: said.flow_control != 0,
            retry_count: said.retry_count,
            rnr_retry_count: said.rnr_retry_count,
            has_shared_receives: said.srq != 0,
            qpn: Qpn::new(said.qp_num),
        }
    }
}

/// # Safety
/// There are that many bytes, or the pointer is null.
unsafe fn bytes<'a>(data: *const c_void, length: u8) -> &'a [u8] {
    if data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(data.cast(), length.into()) }
}

/// The identifier, which knows its queue pair now; without one the program has to name another's.
///
/// # Safety
/// The identifier is alive, and so is the queue pair in it.
unsafe fn with_queue_pair<'a>(
    id: *mut rdma_cm_id,
    parameters: *const rdma_conn_param,
) -> Result<&'a IdentifierObject, Errno> {
    // SAFETY: the caller's promise.
    unsafe {
        if parameters.is_null() && (*id).qp.is_null() {
            return Err(Errno::INVALID);
        }
        let object = IdentifierObject::from_pointer(id);
        object.take_queue_pair();
        Ok(object)
    }
}

pub(crate) unsafe extern "C" fn connect(
    id: *mut rdma_cm_id,
    parameters: *mut rdma_conn_param,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the parameters null or whole.
        unsafe {
            let object = with_queue_pair(id, parameters)?;
            let words = core::mem::take(&mut object.own().words);
            object.identifier().connect(&said(parameters, &words))?;
            complete(id)
        }
    })
}

pub(crate) unsafe extern "C" fn establish(id: *mut rdma_cm_id) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive.
        unsafe {
            // Where there is a queue pair it has followed by itself.
            if !(*id).qp.is_null() {
                return Err(Errno::INVALID);
            }
            IdentifierObject::from_pointer(id).identifier().establish()?;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn listen(id: *mut rdma_cm_id, backlog: c_int) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive.
        let object = unsafe { IdentifierObject::from_pointer(id) };
        object.identifier().listen(usize::try_from(backlog).unwrap_or(0))?;
        object.publish()?;
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn accept(
    id: *mut rdma_cm_id,
    parameters: *mut rdma_conn_param,
) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive, and the parameters null or whole.
        unsafe {
            let object = with_queue_pair(id, parameters)?;
            let accepted = object.identifier().accept(&said(parameters, &[]));
            object.publish_state();
            accepted?;
            // Who serves by datagrams hears nothing more.
            if object.identifier().service() == converb::iba::Service::UnreliableDatagram {
                return Ok(0);
            }
            complete(id)
        }
    })
}

pub(crate) unsafe extern "C" fn reject(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the identifier is alive, and there is as much data.
    unsafe { refuse(id, data, length, Identifier::reject) }
}

/// As [`reject`], for what the peer has offered beyond the specification.
pub(crate) unsafe extern "C" fn reject_ece(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
) -> c_int {
    // SAFETY: the identifier is alive, and there is as much data.
    unsafe { refuse(id, data, length, Identifier::reject_offer) }
}

/// # Safety
/// The identifier is alive, and there is as much data, or the pointer is null.
unsafe fn refuse(
    id: *mut rdma_cm_id,
    data: *const c_void,
    length: u8,
    how: fn(&Identifier, &[u8]) -> Result<(), converb::Error>,
) -> c_int {
    guard::number(|| {
        // SAFETY: the caller's promise.
        unsafe {
            how(IdentifierObject::from_pointer(id).identifier(), bytes(data, length))?;
        }
        Ok(0)
    })
}

/// `IBV_EVENT_COMM_EST`: the queue pair has heard its peer.
const COMMUNICATION_ESTABLISHED: c_int = 4;

pub(crate) unsafe extern "C" fn notify(id: *mut rdma_cm_id, event: c_int) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive.
        let object = unsafe { IdentifierObject::from_pointer(id) };
        if event == COMMUNICATION_ESTABLISHED {
            object.identifier().heard()?;
        }
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn disconnect(id: *mut rdma_cm_id) -> c_int {
    guard::number(|| {
        // SAFETY: the identifier is alive.
        unsafe {
            let object = IdentifierObject::from_pointer(id);
            object.take_queue_pair();
            object.identifier().disconnect()?;
            object.publish_state();
            complete(id)
        }
    })
}
