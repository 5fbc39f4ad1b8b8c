//! Words for the values of enums.

use crate::wording;
use core::ffi::{c_char, c_int};

pub(crate) extern "C" fn node_type_str(node_type: c_int) -> *const c_char {
    wording::node_type(node_type).as_ptr()
}

pub(crate) extern "C" fn port_state_str(state: c_int) -> *const c_char {
    wording::port_state(state).as_ptr()
}

pub(crate) extern "C" fn event_type_str(event: c_int) -> *const c_char {
    wording::event_type(event).as_ptr()
}

pub(crate) extern "C" fn wc_status_str(status: c_int) -> *const c_char {
    wording::completion_status(status).as_ptr()
}
