//! Enhanced connection establishment: what two adapters of one vendor can do beyond the specification is
//! carried between programs. Our own devices offer nothing.

use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::IdentifierObject;
use converb::cm::EnhancedConnection;
use core::ffi::c_int;

/// A vendor's number has 24 bits.
const VENDOR_MAX: u32 = 0x00ff_ffff;

pub(crate) unsafe extern "C" fn set_local_ece(id: *mut rdma_cm_id, offer: *mut ibv_ece) -> c_int {
    guard::number(|| {
        if offer.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the identifier is alive, and the offer whole.
        let (object, offer) = unsafe { (IdentifierObject::from_pointer(id), *offer) };
        if offer.vendor_id > VENDOR_MAX {
            return Err(Errno::INVALID);
        }
        object.identifier().offer(EnhancedConnection {
            vendor_id: offer.vendor_id,
            attribute_modifier: offer.options,
        });
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn get_remote_ece(id: *mut rdma_cm_id, offer: *mut ibv_ece) -> c_int {
    guard::number(|| {
        if offer.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the identifier is alive, and the program passes a place for the offer.
        unsafe {
            let offered = IdentifierObject::from_pointer(id).identifier().offered();
            *offer = ibv_ece {
                vendor_id: offered.vendor_id,
                options: offered.attribute_modifier,
                comp_mask: 0,
            };
        }
        Ok(0)
    })
}
