//! Reading files of sysfs, which has none about our devices.

use crate::guard::{self, Errno};
use crate::sysfs;
use core::ffi::{CStr, c_char, c_int, c_void};

pub(crate) extern "C" fn get_sysfs_path() -> *const c_char {
    sysfs::ROOT.as_ptr()
}

pub(crate) unsafe extern "C" fn read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    guard::number(|| {
        // SAFETY: the program passes two strings.
        let (folder, file) = unsafe { (CStr::from_ptr(folder), CStr::from_ptr(file)) };
        let content = sysfs::read(folder, file)?;
        let length = content.len().min(size);
        // SAFETY: the program passes a buffer of `size` bytes.
        unsafe { core::ptr::copy_nonoverlapping(content.as_ptr().cast(), buffer, length) };
        if length < size {
            // SAFETY: as above, and the place is inside the buffer.
            unsafe { buffer.add(length).write(0) };
        }
        Ok(length as c_int)
    })
}

/// For plug-ins, which have a kernel device and its folder; none of them is ours.
pub(crate) extern "C" fn read_ibdev_sysfs_file(
    _buffer: *mut c_char,
    _size: usize,
    _device: *mut c_void,
    _format: *const c_char,
) -> c_int {
    guard::number(|| Err(Errno(libc::ENOENT)))
}
