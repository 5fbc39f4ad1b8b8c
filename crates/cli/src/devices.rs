//! `converb devices`: what devices there are, for people and as JSON.

use crate::failure::Failure;
use crate::output::print;
use crate::table::Table;
use converb::{Device, DeviceAttributes, Port, PortState};
use converb_agent::DeviceCounters;
use serde::Serialize;
use std::collections::BTreeMap;

/// A device as JSON has it. Fields are only ever added.
#[derive(Debug, Serialize)]
struct Report {
    name: String,
    interface: String,
    interface_index: u32,
    node_guid: String,
    state: &'static str,
    interface_mtu: u32,
    active_mtu: u32,
    speed_megabits: u32,
    gids: Vec<GidReport>,
    /// What all programs that used it have counted, by name; empty without an agent.
    counters: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
struct GidReport {
    index: usize,
    gid: String,
    address: String,
    r#type: &'static str,
}

/// Prints the devices of this network namespace.
pub(crate) fn show(verbose: bool, json: bool) -> Result<(), Failure> {
    let devices = Device::list().map_err(|error| Failure::new(error.to_string()))?;
    // An agent that does not answer is its own command's affair; the devices are there anyway.
    let counters = converb_agent::device_counters().ok().flatten().unwrap_or_default();
    let reports: Vec<Report> =
        devices.iter().map(|device| report(device, &device.port(), &counters)).collect();
    if json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "devices": reports }))
            .map_err(|error| Failure::new(format!("cannot write JSON: {error}")))?;
        print(&(text + "\n"))
    } else if reports.is_empty() {
        print("no network interface is up, so there is no device; try `ip link set lo up`\n")
    } else if verbose {
        print(&reports.iter().map(in_full).collect::<String>())
    } else {
        print(&in_short(&reports))
    }
}

fn report(device: &Device, port: &Port, counters: &[DeviceCounters]) -> Report {
    Report {
        name: device.name().to_owned(),
        interface: device.interface().name,
        interface_index: device.interface_index(),
        node_guid: format!("{:016x}", device.node_guid()),
        state: match port.state {
            PortState::Active => "active",
            PortState::Down => "down",
        },
        interface_mtu: port.interface_mtu,
        active_mtu: port.active_mtu.bytes(),
        speed_megabits: port.speed_megabits,
        gids: port
            .gids
            .entries()
            .map(|(index, gid)| GidReport {
                index,
                gid: gid.to_string(),
                address: gid.ip().to_canonical().to_string(),
                r#type: "RoCE v2",
            })
            .collect(),
        counters: counters
            .iter()
            .filter(|counted| counted.device == device.name())
            .flat_map(|counted| counted.counters.iter().cloned())
            .collect(),
    }
}

fn in_short(reports: &[Report]) -> String {
    let mut table = Table::new(&["DEVICE", "INTERFACE", "STATE", "MTU", "PATH MTU", "ADDRESSES"]);
    for report in reports {
        let mut addresses: Vec<&str> = Vec::new();
        for gid in &report.gids {
            if !addresses.contains(&gid.address.as_str()) {
                addresses.push(&gid.address);
            }
        }
        table.add(vec![
            report.name.clone(),
            report.interface.clone(),
            report.state.to_owned(),
            report.interface_mtu.to_string(),
            report.active_mtu.to_string(),
            addresses.join(" "),
        ]);
    }
    table.to_string()
}

fn in_full(report: &Report) -> String {
    let mut attributes = Table::new(&[&report.name]);
    let mut line = |name: &str, value: String| {
        attributes.add(vec![format!("  {name}"), value]);
    };
    line("interface", format!("{} (index {})", report.interface, report.interface_index));
    line("node GUID", report.node_guid.clone());
    line("state", report.state.to_owned());
    line("MTU of the interface", format!("{} bytes", report.interface_mtu));
    line("path MTU", format!("{} bytes", report.active_mtu));
    line("speed", format!("{} Mb/s", report.speed_megabits));
    line("queue pairs at most", DeviceAttributes::ALL.max_queue_pairs.to_string());
    line("reads in flight at most", DeviceAttributes::ALL.max_reads.to_string());
    for gid in &report.gids {
        line(&format!("GID {}", gid.index), format!("{}, {}", gid.address, gid.r#type));
    }
    for (name, value) in report.counters.iter().filter(|&(_, &value)| value != 0) {
        line(&name.replace('_', " "), value.to_string());
    }
    format!("{attributes}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> Report {
        let devices = Device::list().unwrap();
        let device = devices.iter().find(|device| device.interface().is_loopback).unwrap();
        report(device, &device.port(), &[])
    }

    #[test]
    fn the_short_list_names_each_address_once() {
        let text = in_short(&[loopback()]);
        assert_eq!(text.matches("127.0.0.1").count(), 1, "{text}");
        assert!(text.starts_with("DEVICE"), "{text}");
    }

    #[test]
    fn the_full_list_names_each_gid() {
        let text = in_full(&loopback());
        for index in ["GID 0", "GID 1", "GID 3"] {
            assert!(text.contains(index), "{text}");
        }
    }

    #[test]
    fn json_has_the_fields_that_scripts_use() {
        let value = serde_json::to_value(loopback()).unwrap();
        assert_eq!(value["interface"], "lo");
        assert_eq!(value["gids"][0]["address"], "127.0.0.1");
        assert_eq!(value["active_mtu"], 4096);
    }
}
