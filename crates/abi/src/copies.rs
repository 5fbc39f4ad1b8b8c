//! Noticing that the library is in the process twice.
//!
//! All names that programs ask for must be links to one file, which the dynamic linker then loads
//! once. A copy is another library to it, with devices, queues and slots of its own, and objects
//! of one given to the other end in confusion.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::null_mut;
use std::ffi::CString;

/// The symbol by which copies of us know each other.
const MARKER: &CStr = c"converb_library_marker";
const MARKER_NODE: &CStr = c"CONVERB_1";

/// The files of this library and of a copy that was loaded before it, if there is one.
pub(crate) fn find() -> Option<(String, String)> {
    let ours = file_of((find as fn() -> Option<(String, String)>) as *const c_void)?;
    let mut objects: Vec<CString> = Vec::new();
    // SAFETY: the callback gets the vector that it expects, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(remember), (&raw mut objects).cast()) };
    objects
        .iter()
        // Only a copy that comes before us: of two, one complains.
        .take_while(|name| name.to_bytes() != ours.as_bytes())
        .filter(|name| is_copy(name))
        .map(|name| name.to_string_lossy().into_owned())
        .next()
        .map(|copy| (ours, copy))
}

extern "C" fn remember(
    object: *mut libc::dl_phdr_info,
    _size: usize,
    objects: *mut c_void,
) -> c_int {
    // SAFETY: the linker passes a valid description, and `find` passed the vector.
    let (name, objects) =
        unsafe { (CStr::from_ptr((*object).dlpi_name), &mut *objects.cast::<Vec<CString>>()) };
    if !name.is_empty() {
        objects.push(name.to_owned());
    }
    0
}

/// Whether a loaded object defines our marker itself (and not only one of those it needs).
fn is_copy(name: &CStr) -> bool {
    // SAFETY: with RTLD_NOLOAD nothing is loaded or run; the handle is closed again, and the
    // symbol is only looked at while it is open.
    unsafe {
        let handle = libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if handle.is_null() {
            return false;
        }
        let marker = dlvsym(handle, MARKER.as_ptr(), MARKER_NODE.as_ptr());
        let is_copy = !marker.is_null()
            && file_of(marker).is_some_and(|file| file.as_bytes() == name.to_bytes());
        libc::dlclose(handle);
        is_copy
    }
}

/// The file that an address was loaded from.
fn file_of(address: *const c_void) -> Option<String> {
    let mut info = libc::Dl_info {
        dli_fname: core::ptr::null(),
        dli_fbase: null_mut(),
        dli_sname: core::ptr::null(),
        dli_saddr: null_mut(),
    };
    // SAFETY: any address may be asked about, and the structure is filled if the call succeeds;
    // the name then lives as long as the object, and this library is never unloaded.
    unsafe {
        if libc::dladdr(address, &raw mut info) == 0 || info.dli_fname.is_null() {
            return None;
        }
        CStr::from_ptr(info.dli_fname).to_str().ok().map(str::to_owned)
    }
}

unsafe extern "C" {
    /// glibc's lookup of a symbol in a version node.
    fn dlvsym(handle: *mut c_void, symbol: *const c_char, version: *const c_char) -> *mut c_void;
}
