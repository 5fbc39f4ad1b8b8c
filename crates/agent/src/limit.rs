//! The agent's limits, which it has from the program that started it: of open files a high one for
//! its own work, a low one while it parks; of the size of files, which shared memory counts as, no
//! signal that ends it.

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Below this many of the user's descriptors in flight the agent parks more. Programs have a
/// limit of 1024 mostly, and need some of it to pass their own.
const IN_FLIGHT_MAX: u64 = 960;

/// Lets the agent open as many files as it may, for each member costs it three, and as large ones.
pub fn raise() {
    for resource in [Resource::Nofile, Resource::Fsize] {
        let limit = getrlimit(resource);
        // It can fail only in ways that leave the limit as it was, which is good for less members.
        let _ = setrlimit(resource, Rlimit { current: limit.maximum, ..limit });
    }
    // SAFETY: the agent has no handler that this could replace.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Runs `send` so that the kernel refuses it with `Errno::TOOMANYREFS` if it would leave other
/// programs of the user no room to pass descriptors. (With CAP_SYS_RESOURCE or CAP_SYS_ADMIN the
/// kernel refuses nobody, and so nobody else either.)
pub fn while_parking(send: impl FnOnce() -> Result<(), Errno>) -> Result<(), Errno> {
    let limit = getrlimit(Resource::Nofile);
    let low = limit.current.map_or(IN_FLIGHT_MAX, |current| current.min(IN_FLIGHT_MAX));
    setrlimit(Resource::Nofile, Rlimit { current: Some(low), ..limit })?;
    let result = send();
    setrlimit(Resource::Nofile, limit)?;
    result
}
