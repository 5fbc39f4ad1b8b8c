//! Saying that another user can read what the program receives.

use converb_agent::CarriedBy;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// A fork child finds it set, and stays silent.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Says once who carries the traffic: whoever runs the program would not know otherwise.
pub(crate) fn tell(by: CarriedBy) {
    if IS_TOLD.swap(true, Ordering::Relaxed) {
        return;
    }
    // In one write, for other programs write to the same terminal.
    let line = sentence(by);
    let _ = std::io::stderr().write_all(line.as_bytes());
}

fn sentence(CarriedBy { uid, pid, .. }: CarriedBy) -> String {
    let process = if pid == 0 { String::new() } else { format!(", pid {pid}") };
    format!(
        "converb: the agent of another user (uid {uid}{process}) serves this network namespace; it \
         relays what this program receives, and can read it\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_the_user() {
        let by = CarriedBy { uid: 1000, pid: 7, receive_buffer_bytes: 1 };
        let line = sentence(by);
        assert!(line.contains("uid 1000, pid 7") && line.ends_with('\n'), "{line}");
        assert!(sentence(CarriedBy { pid: 0, ..by }).contains("uid 1000)"));
    }
}
