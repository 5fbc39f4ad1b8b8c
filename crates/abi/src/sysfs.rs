//! What `ibv_read_sysfs_file` finds: real files, and those that a kernel would have made for our
//! devices.

use crate::guard::Errno;
use crate::objects::DeviceObject;
use converb::{Device, DeviceAttributes};
use core::ffi::CStr;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `ibv_get_sysfs_path`.
pub(crate) const ROOT: &CStr = c"/sys";

/// Files of sysfs are at most one page.
const FILE_BYTES_MAX: u64 = 4096;

/// The content of a file, without the newline at its end.
pub(crate) fn read(folder: &CStr, file: &CStr) -> Result<Vec<u8>, Errno> {
    let path =
        Path::new(OsStr::from_bytes(folder.to_bytes())).join(OsStr::from_bytes(file.to_bytes()));
    let mut content = match of_our_device(&path) {
        Some(content) => content.into_bytes(),
        None => {
            let mut content = Vec::new();
            std::fs::File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut content)?;
            content
        }
    };
    if content.last() == Some(&b'\n') {
        content.pop();
    }
    Ok(content)
}

fn of_our_device(path: &Path) -> Option<String> {
    let rest = path.strip_prefix("/sys/class/infiniband").ok()?;
    let mut parts = rest.iter().map(OsStr::to_str);
    let device = DeviceObject::by_name(parts.next()??)?.device();
    let parts: Option<Vec<&str>> = parts.collect();
    attribute(device, &parts?)
}

fn attribute(device: &Device, parts: &[&str]) -> Option<String> {
    let guid = || {
        let guid = device.node_guid();
        let part = |shift: u32| (guid >> shift) & 0xffff;
        format!("{:04x}:{:04x}:{:04x}:{:04x}", part(48), part(32), part(16), part(0))
    };
    Some(match parts {
        ["node_type"] => "1: CA".to_owned(),
        ["node_guid" | "sys_image_guid"] => guid(),
        ["fw_ver"] => DeviceAttributes::ALL.firmware_version.to_owned(),
        ["hw_rev"] => "0".to_owned(),
        ["board_id" | "hca_type"] => "converb".to_owned(),
        ["node_desc"] => format!("converb {}", device.name()),
        ["ports", "1", "link_layer"] => "Ethernet".to_owned(),
        ["ports", "1", "gid_attrs", "ndevs", index] => {
            device.gids().get(index.parse().ok()?).filter(|&gid| gid != converb::Gid::ZERO)?;
            device.interface().name
        }
        ["ports", "1", "gid_attrs", "types", index] => {
            device.gids().get(index.parse().ok()?).filter(|&gid| gid != converb::Gid::ZERO)?;
            "RoCE v2".to_owned()
        }
        ["ports", "1", "gids", index] => device.gids().get(index.parse().ok()?)?.to_string(),
        ["ports", "1", "pkeys", "0"] => "0xffff".to_owned(),
        _ => return None,
    })
}
