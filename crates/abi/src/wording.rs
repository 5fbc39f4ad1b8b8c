//! The words that `ibv_*_str` give, which programs and their logs have relied on for 15 years.

use core::ffi::{CStr, c_int};

const UNKNOWN: &CStr = c"unknown";

/// `ibv_node_type_str`; the values begin with 1.
pub(crate) fn node_type(node_type: c_int) -> &'static CStr {
    const WORDS: &[&CStr] = &[
        c"InfiniBand channel adapter",
        c"InfiniBand switch",
        c"InfiniBand router",
        c"iWARP NIC",
        c"usNIC",
        c"usNIC UDP",
        c"unspecified",
    ];
    look_up(WORDS, node_type.wrapping_sub(1))
}

/// `ibv_port_state_str`.
pub(crate) fn port_state(state: c_int) -> &'static CStr {
    const WORDS: &[&CStr] =
        &[c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    look_up(WORDS, state)
}

/// `ibv_event_type_str`.
pub(crate) fn event_type(event: c_int) -> &'static CStr {
    const WORDS: &[&CStr] = &[
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    look_up(WORDS, event)
}

/// `ibv_wc_status_str`.
pub(crate) fn completion_status(status: c_int) -> &'static CStr {
    look_up(&converb::COMPLETION_STATUS_WORDING, status)
}

fn look_up(words: &[&'static CStr], index: c_int) -> &'static CStr {
    usize::try_from(index).ok().and_then(|index| words.get(index)).copied().unwrap_or(UNKNOWN)
}
