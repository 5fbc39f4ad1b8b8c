//! Who holds the port, for the message to a person.

use std::collections::BTreeMap;
use std::fs;

use crate::group::PORT;
use crate::process;

/// One sentence about the sockets on the port in this network namespace.
pub fn describe() -> String {
    let sockets = sockets();
    if sockets.is_empty() {
        return format!("UDP port {PORT} is in use, and /proc does not tell by whom");
    }
    let mut holders: Vec<String> = holders(&sockets)
        .into_iter()
        .map(|pid| format!("{pid} ({})", process::name(pid).unwrap_or_else(|| "gone".into())))
        .collect();
    let more = holders.len().saturating_sub(HOLDERS_SHOWN);
    holders.truncate(HOLDERS_SHOWN);
    if holders.is_empty() {
        let mut users: Vec<String> = sockets.values().map(u32::to_string).collect();
        users.dedup();
        return format!(
            "UDP port {PORT} is in use by a socket of user {}, of no process that can be seen \
             from here: the kernel's rdma_rxe (`rdma link` shows it), or a program of another \
             user or container",
            users.join(", ")
        );
    }
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    format!("UDP port {PORT} is in use by process {}{more}", holders.join(", "))
}

/// Whether somebody has the port, as far as /proc tells.
pub fn is_port_in_use() -> bool {
    !sockets().is_empty()
}

const HOLDERS_SHOWN: usize = 4;

fn sockets() -> BTreeMap<u64, u32> {
    ["/proc/net/udp", "/proc/net/udp6"]
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok())
        .flat_map(|table| sockets_on(PORT, &table))
        .collect()
}

/// Inode numbers and users of the sockets on `port` in a table like /proc/net/udp:
///
/// ```text
///   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
///   12: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000  0       4321
/// ```
fn sockets_on(port: u16, table: &str) -> Vec<(u64, u32)> {
    let ending = format!(":{port:04X}");
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let is_on_port = fields.get(1)?.ends_with(&ending);
        is_on_port.then_some((fields.get(9)?.parse().ok()?, fields.get(7)?.parse().ok()?))
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// The processes that have one of the sockets open, as far as /proc shows them.
fn holders(sockets: &BTreeMap<u64, u32>) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = processes
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| pid != std::process::id());
    let is_holder = |pid: &u32| {
        let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
        descriptors
            .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok())
            .filter_map(|link| {
                link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
            })
            .any(|inode: u64| sockets.contains_key(&inode))
    };
    numbers.filter(is_holder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_on_the_port_are_found_in_both_tables() {
        let four = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
             12: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4321 2 0000000000000000 0\n\
             13: 00000000:12B8 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 4322 2 0000000000000000 0\n\
             nonsense\n";
        assert_eq!(sockets_on(4791, four), [(4321, 1000)]);
        let six = "  sl  local_address\n 1: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 77 2 0 0\n";
        assert_eq!(sockets_on(4791, six), [(77, 0)]);
        assert_eq!(sockets_on(4791, ""), []);
    }
}
