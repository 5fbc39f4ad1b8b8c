//! Attributes of devices and ports; GID and partition tables.

use crate::describe;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::ContextObject;
use converb::Error;
use core::ffi::c_int;

pub(crate) unsafe extern "C" fn query_device(
    context: *mut ibv_context,
    attributes: *mut ibv_device_attr,
) -> c_int {
    guard::status(|| {
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        // SAFETY: the program passes room for the structure.
        unsafe { attributes.write(describe::device(context.device())) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn query_device_ex(
    context: *mut ibv_context,
    input: *const ibv_query_device_ex_input,
    attributes: *mut ibv_device_attr_ex,
    size: usize,
) -> c_int {
    guard::status(|| {
        // SAFETY: the program passes null or the structure.
        if unsafe { input.as_ref() }.is_some_and(|input| input.comp_mask != 0)
            || size < size_of::<ibv_device_attr>()
        {
            return Err(Errno::INVALID);
        }
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        // SAFETY: the program passes room for `size` bytes.
        unsafe { copy_prefix(&describe::device_extended(context.device()), attributes, size) };
        Ok(())
    })
}

/// The operation in the context, which knows how much of the structure the program has.
pub(crate) unsafe extern "C" fn query_port_extended(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
    size: usize,
) -> c_int {
    guard::status(|| {
        if port != converb::PORT {
            return Err(Errno::INVALID);
        }
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        // SAFETY: the program passes room for `size` bytes.
        unsafe { copy_prefix(&describe::port(&context.device().port()), attributes, size) };
        Ok(())
    })
}

/// The exported function, which programs call that know less of the structure.
pub(crate) unsafe extern "C" fn query_port(
    context: *mut ibv_context,
    port: u8,
    attributes: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: the program passes room for what it knows of the structure.
    unsafe { query_port_extended(context, port, attributes, COMPAT_PORT_ATTR_SIZE) }
}

pub(crate) unsafe extern "C" fn query_gid(
    context: *mut ibv_context,
    port: u8,
    index: c_int,
    gid: *mut ibv_gid,
) -> c_int {
    guard::number(|| {
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        let index = usize::try_from(index).map_err(|_| Errno::INVALID)?;
        let found = match context.gid(port.into(), index) {
            Err(Error::Empty) => converb::Gid::ZERO,
            other => other?,
        };
        // SAFETY: the program passes room for a GID.
        unsafe { gid.write(describe::gid(found)) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn query_gid_ex(
    context: *mut ibv_context,
    port: u32,
    index: u32,
    entry: *mut ibv_gid_entry,
    flags: u32,
    entry_size: usize,
) -> c_int {
    guard::status(|| {
        if flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        let gid = context.gid(port, index as usize)?;
        let found = describe::gid_entry(context.device(), index, gid);
        // SAFETY: the program passes room for `entry_size` bytes.
        unsafe { copy_prefix(&found, entry, entry_size) };
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn query_gid_table(
    context: *mut ibv_context,
    entries: *mut ibv_gid_entry,
    max_entries: usize,
    flags: u32,
    entry_size: usize,
) -> isize {
    // This one returns the error number negated.
    let count = guard::value(Err(Errno::INTERNAL), || {
        if flags != 0 {
            return Err(Errno::NOT_SUPPORTED);
        }
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        let gids = context.device().gids();
        let count = gids.entries().count();
        if count > max_entries {
            return Err(Errno::INVALID);
        }
        for (place, (index, gid)) in gids.entries().enumerate() {
            let found = describe::gid_entry(context.device(), index as u32, gid);
            // SAFETY: the program passes room for `max_entries` entries of `entry_size` bytes.
            unsafe { copy_prefix(&found, entries.byte_add(place * entry_size), entry_size) };
        }
        Ok(count as isize)
    });
    count.unwrap_or_else(|error| -(error.0 as isize))
}

/// The type of a GID as sysfs has it: 0 for InfiniBand and RoCEv1, 1 for RoCEv2. An empty entry
/// has type 0.
pub(crate) unsafe extern "C" fn query_gid_type(
    context: *mut ibv_context,
    port: u8,
    index: u32,
    gid_type: *mut c_int,
) -> c_int {
    guard::number(|| {
        // SAFETY: the context is open.
        let context = unsafe { ContextObject::from_pointer(context) }.context();
        let found = match context.gid(port.into(), index as usize) {
            Ok(_) => 1,
            Err(Error::Empty) => 0,
            Err(error) => return Err(error.into()),
        };
        // SAFETY: the program passes room for the value.
        unsafe { gid_type.write(found) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn query_pkey(
    _context: *mut ibv_context,
    port: u8,
    index: c_int,
    key: *mut u16,
) -> c_int {
    guard::number(|| {
        let found = describe::partition_key(port, index)?;
        // SAFETY: the program passes room for a key.
        unsafe { key.write(found.to_be()) };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn get_pkey_index(
    _context: *mut ibv_context,
    port: u8,
    key: u16,
) -> c_int {
    guard::number(|| {
        if describe::partition_key(port, 0)? == u16::from_be(key) {
            Ok(0)
        } else {
            Err(Errno::INVALID)
        }
    })
}

/// Writes as much of a structure as the program has room for; what it has beyond ours is zeroed.
///
/// # Safety
/// There is room for `size` bytes at `place`.
unsafe fn copy_prefix<T>(from: &T, place: *mut T, size: usize) {
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes are inside `from`, and `size` bytes at `place` are the caller's.
    unsafe {
        core::ptr::copy_nonoverlapping((&raw const *from).cast::<u8>(), place.cast(), known);
        core::ptr::write_bytes(place.cast::<u8>().add(known), 0, size - known);
    }
}
