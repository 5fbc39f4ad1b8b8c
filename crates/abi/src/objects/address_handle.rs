//! `struct ibv_ah`.

use super::{ProtectionDomainObject, c_object, next_handle};
use crate::guard::Errno;
use crate::layout::{ibv_ah, ibv_ah_attr, ibv_pd};
use converb::{AddressVector, ProtectionDomain};
use core::cell::UnsafeCell;
use std::sync::Arc;

/// An address handle as programs see it.
#[repr(C)]
pub(crate) struct AddressHandleObject {
    public: UnsafeCell<ibv_ah>,
    path: AddressVector,
    domain: Arc<ProtectionDomain>,
}

c_object!(AddressHandleObject, ibv_ah);

impl AddressHandleObject {
    pub(crate) fn path(&self) -> AddressVector {
        self.path
    }

    /// Whether it was made in this protection domain.
    pub(crate) fn belongs_to(&self, domain: &Arc<ProtectionDomain>) -> bool {
        Arc::ptr_eq(&self.domain, domain)
    }

    /// # Safety
    /// The domain is alive.
    pub(crate) unsafe fn allocate(
        domain: *mut ibv_pd,
        attributes: &ibv_ah_attr,
    ) -> Result<*mut ibv_ah, Errno> {
        // SAFETY: the caller's promise.
        let object = unsafe { ProtectionDomainObject::from_pointer(domain) };
        let path = crate::address::path(object.domain().context(), attributes)?;
        let public =
            ibv_ah { context: object.context_pointer(), pd: domain, handle: next_handle() };
        Ok(Self { public: UnsafeCell::new(public), path, domain: Arc::clone(object.domain()) }
            .into_pointer())
    }
}
