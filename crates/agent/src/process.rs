//! What /proc tells about processes.

use std::os::unix::fs::MetadataExt;

/// When process `pid` started, in clock ticks since boot: with the number it names one process
/// for ever. `None` if there is no such process, or none that we can see.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the name in parentheses, which may itself contain anything; the start
    // time is the 22nd field, the 20th after the name.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// The name of process `pid`.
pub fn name(pid: u32) -> Option<String> {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end_matches('\n').to_owned())
}

/// The name of this process.
pub fn own_name() -> String {
    std::fs::read_to_string("/proc/self/comm")
        .map_or_else(|_| String::from("unknown"), |name| name.trim_end_matches('\n').to_owned())
}

/// The number of our process namespace: process numbers mean something only within it. 0 if it
/// is not known.
pub fn namespace() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |file| file.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_process_is_known() {
        let own = std::process::id();
        assert!(start_time(own).is_some_and(|ticks| ticks > 0));
        assert_eq!(name(own), Some(own_name()));
        assert_ne!(namespace(), 0);
        assert_eq!(start_time(0), None);
    }
}
