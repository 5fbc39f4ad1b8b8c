//! The list of devices; opening and closing one.

use crate::guard::{self, Errno};
use crate::layout::{ibv_context, ibv_device};
use crate::objects::{ContextObject, DeviceObject};
use crate::{complain, device_list};
use converb::Context;
use core::ffi::{c_char, c_int};

pub(crate) unsafe extern "C" fn get_device_list(count: *mut c_int) -> *mut *mut ibv_device {
    let list = guard::pointer(|| {
        let devices = DeviceObject::list().map_err(complain::about("list the devices"))?;
        complain::about_copies();
        complain::about_no_device(devices.len());
        Ok(device_list::allocate(devices))
    });
    if !count.is_null() {
        // SAFETY: the program passes null or a place for the number.
        unsafe { *count = device_list::length(list) };
    }
    list
}

pub(crate) unsafe extern "C" fn free_device_list(list: *mut *mut ibv_device) {
    // SAFETY: the list comes from `get_device_list` and is freed once.
    guard::value((), || unsafe { device_list::free(list) });
}

pub(crate) unsafe extern "C" fn get_device_name(device: *mut ibv_device) -> *const c_char {
    // SAFETY: the device comes from a list of ours.
    guard::value(c"".as_ptr(), || unsafe { DeviceObject::from_pointer(device) }.name())
}

pub(crate) unsafe extern "C" fn get_device_index(device: *mut ibv_device) -> c_int {
    guard::value(-1, || {
        // SAFETY: the device comes from a list of ours.
        unsafe { DeviceObject::from_pointer(device) }.device().interface_index() as c_int
    })
}

pub(crate) unsafe extern "C" fn get_device_guid(device: *mut ibv_device) -> u64 {
    guard::value(0, || {
        // SAFETY: the device comes from a list of ours.
        unsafe { DeviceObject::from_pointer(device) }.device().node_guid().to_be()
    })
}

pub(crate) unsafe extern "C" fn open_device(device: *mut ibv_device) -> *mut ibv_context {
    guard::pointer(|| {
        // SAFETY: the device comes from a list of ours.
        let device = unsafe { DeviceObject::from_pointer(device) };
        let context = Context::open(device.device()).map_err(complain::about("open the device"))?;
        Ok(ContextObject::allocate(device, context)?)
    })
}

pub(crate) unsafe extern "C" fn close_device(context: *mut ibv_context) -> c_int {
    guard::status(|| {
        if context.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the context was opened by `open_device` and is closed once.
        unsafe { ContextObject::free(context) };
        Ok(())
    })
}
