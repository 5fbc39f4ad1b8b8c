//! Protection domains and memory regions.

use crate::guard::{self, Errno};
use crate::layout::{ibv_context, ibv_mr, ibv_pd};
use crate::objects::{MemoryRegionObject, ProtectionDomainObject, check_unused};
use core::ffi::{c_int, c_void};

pub(crate) unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the context is open.
    guard::pointer(|| Ok(unsafe { ProtectionDomainObject::allocate(context) }))
}

pub(crate) unsafe extern "C" fn dealloc_pd(domain: *mut ibv_pd) -> c_int {
    guard::status(|| {
        // SAFETY: the domain is alive, and used no more if it is freed.
        unsafe {
            check_unused(ProtectionDomainObject::from_pointer(domain).domain())?;
            ProtectionDomainObject::free(domain);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn reg_mr(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    let iova = address.expose_provenance() as u64;
    // SAFETY: the domain is alive and the memory is the program's to give.
    guard::pointer(|| unsafe {
        MemoryRegionObject::allocate(domain, address, length, iova, access as u32)
    })
}

pub(crate) unsafe extern "C" fn reg_mr_iova(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive and the memory is the program's to give.
    guard::pointer(|| unsafe {
        MemoryRegionObject::allocate(domain, address, length, iova, access as u32)
    })
}

pub(crate) unsafe extern "C" fn reg_mr_iova2(
    domain: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: u32,
) -> *mut ibv_mr {
    // SAFETY: the domain is alive and the memory is the program's to give.
    guard::pointer(|| unsafe {
        MemoryRegionObject::allocate(domain, address, length, iova, access)
    })
}

pub(crate) unsafe extern "C" fn dereg_mr(region: *mut ibv_mr) -> c_int {
    guard::status(|| {
        if region.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the region is alive, and used no more.
        unsafe { MemoryRegionObject::free(region) };
        Ok(())
    })
}
