//! The array that `ibv_get_device_list` returns: pointers to devices, ended by null.

use crate::layout::ibv_device;
use crate::objects::DeviceObject;
use core::ffi::c_int;

pub(crate) fn allocate(devices: Vec<&'static DeviceObject>) -> *mut *mut ibv_device {
    let mut list: Vec<_> = devices.into_iter().map(DeviceObject::as_pointer).collect();
    list.push(core::ptr::null_mut());
    Box::into_raw(list.into_boxed_slice()).cast()
}

/// The number of devices in a list; 0 for null.
pub(crate) fn length(list: *mut *mut ibv_device) -> c_int {
    if list.is_null() {
        return 0;
    }
    let mut length = 0;
    // SAFETY: the list ends with a null pointer.
    while unsafe { !(*list.add(length)).is_null() } {
        length += 1;
    }
    length as c_int
}

/// Frees a list, not the devices in it.
///
/// # Safety
/// The list is null, or comes from [`allocate`] and is not used again.
pub(crate) unsafe fn free(list: *mut *mut ibv_device) {
    if list.is_null() {
        return;
    }
    let length = length(list) as usize + 1;
    // SAFETY: the box was a slice of this length.
    drop(unsafe { Box::from_raw(core::ptr::slice_from_raw_parts_mut(list, length)) });
}
