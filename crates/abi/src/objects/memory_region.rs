//! `struct ibv_mr`.

use super::{ProtectionDomainObject, c_object, next_handle};
use crate::guard::Errno;
use crate::layout::{ibv_mr, ibv_pd};
use converb::MemoryRegion;
use converb::memory::{Access, RegionSpec};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use std::sync::Arc;

/// A memory region as programs see it.
#[repr(C)]
pub(crate) struct MemoryRegionObject {
    public: UnsafeCell<ibv_mr>,
    _region: Arc<MemoryRegion>,
}

c_object!(MemoryRegionObject, ibv_mr);

/// `enum ibv_access_flags`: what the engine checks.
const RIGHTS: u32 = 0b1111;
/// `IBV_ACCESS_ZERO_BASED`: the first byte has the address 0.
const ZERO_BASED: u32 = 1 << 5;
/// `IBV_ACCESS_HUGETLB`, a hint, and the range of flags that a device may ignore.
const HINTS: u32 = 1 << 7 | 0x3ff0_0000;

impl MemoryRegionObject {
    /// Registers memory.
    ///
    /// # Safety
    /// The domain is alive; the program lets peers use the memory as `access` says.
    pub(crate) unsafe fn allocate(
        domain: *mut ibv_pd,
        address: *mut c_void,
        length: usize,
        iova: u64,
        access: u32,
    ) -> Result<*mut ibv_mr, Errno> {
        // Rights that are not there (memory windows, paging on demand) must not be taken for
        // granted silently.
        if access & !(RIGHTS | ZERO_BASED | HINTS) != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the caller's promise.
        let object = unsafe { ProtectionDomainObject::from_pointer(domain) };
        let spec = RegionSpec {
            address: address.expose_provenance() as u64,
            length: length as u64,
            iova: if access & ZERO_BASED == 0 { iova } else { 0 },
            access: Access(access & RIGHTS),
        };
        // SAFETY: the caller's promise.
        let region = unsafe { MemoryRegion::register(object.domain(), spec) }
            .map_err(crate::complain::about("register memory"))?;
        let public = ibv_mr {
            context: object.context_pointer(),
            pd: domain,
            addr: address,
            length,
            handle: next_handle(),
            lkey: region.local_key(),
            rkey: region.remote_key().0,
        };
        Ok(Self { public: UnsafeCell::new(public), _region: region }.into_pointer())
    }
}
