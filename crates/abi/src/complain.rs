//! Errors that a number cannot explain are said on standard error, each once.

use crate::guard::Errno;
use converb::Error;
use std::sync::{Mutex, PoisonError};

/// Turns an error into its number. One that the program's author or user can do something about,
/// and that `errno` says too little about, is printed, once for every text.
pub(crate) fn about(action: &'static str) -> impl Fn(Error) -> Errno {
    move |error| {
        if matches!(error, Error::System { .. } | Error::Network { .. }) {
            say_once(&format!("converb: cannot {action}: {error}"));
        }
        Errno(error.errno())
    }
}

/// Says, the first time, that the library is in the process twice.
pub(crate) fn about_copies() {
    static LOOKED: std::sync::Once = std::sync::Once::new();
    LOOKED.call_once(|| {
        if let Some((ours, copy)) = crate::copies::find() {
            say_once(&format!(
                "converb: copies of the library are loaded, {copy} and {ours}, and each knows nothing \
                 of the other's objects; replace one file by a link to the other"
            ));
        }
    });
}

/// Says why there is no device, if there is none.
pub(crate) fn about_no_device(count: usize) {
    if count == 0 {
        say_once(
            "converb: no network interface is up, so there is no RDMA device; \
             try `ip link set lo up`",
        );
    }
}

fn say_once(line: &str) {
    static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if !said.iter().any(|other| other == line) {
        eprintln!("{line}");
        said.push(line.to_owned());
    }
}
