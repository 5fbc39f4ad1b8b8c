//! `struct ibv_pd`.

use super::{ContextObject, c_object, next_handle};
use crate::layout::{ibv_context, ibv_pd};
use converb::ProtectionDomain;
use core::cell::UnsafeCell;
use std::sync::Arc;

/// A protection domain as programs see it.
#[repr(C)]
pub(crate) struct ProtectionDomainObject {
    public: UnsafeCell<ibv_pd>,
    context: *mut ibv_context,
    domain: Arc<ProtectionDomain>,
}

c_object!(ProtectionDomainObject, ibv_pd);

impl ProtectionDomainObject {
    /// # Safety
    /// The context is open.
    pub(crate) unsafe fn allocate(context: *mut ibv_context) -> *mut ibv_pd {
        // SAFETY: the caller's promise.
        let domain =
            ProtectionDomain::new(unsafe { ContextObject::from_pointer(context) }.context());
        let public = ibv_pd { context, handle: next_handle() };
        Self { public: UnsafeCell::new(public), context, domain }.into_pointer()
    }

    pub(crate) fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    pub(crate) fn context_pointer(&self) -> *mut ibv_context {
        self.context
    }
}
