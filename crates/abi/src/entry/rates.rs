//! Conversions of static rates.

use crate::rate;
use core::ffi::c_int;

pub(crate) extern "C" fn rate_to_mult(rate: c_int) -> c_int {
    rate::multiple_of_base(rate)
}

pub(crate) extern "C" fn mult_to_ibv_rate(multiple: c_int) -> c_int {
    rate::from_multiple_of_base(multiple)
}

pub(crate) extern "C" fn rate_to_mbps(rate: c_int) -> c_int {
    rate::megabits_per_second(rate)
}

pub(crate) extern "C" fn mbps_to_ibv_rate(megabits: c_int) -> c_int {
    rate::from_megabits_per_second(megabits)
}
