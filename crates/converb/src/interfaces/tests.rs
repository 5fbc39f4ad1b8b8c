use super::*;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&(4 + value.len() as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn the_loopback_interface_is_there_and_up() {
    let interfaces = Interface::all().unwrap();
    let lo = interfaces.iter().find(|interface| interface.is_loopback).unwrap();
    assert_eq!(lo.name, "lo");
    assert_eq!(lo.mac, None);
    assert!(lo.mtu > 0);
    assert!(interfaces.is_sorted_by_key(|interface| interface.index));
}

#[test]
fn a_tentative_address_is_left_out() {
    let mut header = vec![libc::AF_INET6 as u8, 64, 0, 0];
    header.extend_from_slice(&7u32.to_ne_bytes());
    let value = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let good = attribute(libc::IFA_ADDRESS, &value);
    assert_eq!(address(&header, Attributes(&good)), Some((7, IpAddr::from(value))));

    let mut tentative = good.clone();
    tentative.extend(attribute(libc::IFA_FLAGS, &(libc::IFA_F_TENTATIVE | 0x80u32).to_ne_bytes()));
    assert_eq!(address(&header, Attributes(&tentative)), None);
}

#[test]
fn a_default_route_over_two_interfaces_names_both() {
    let header =
        [libc::AF_INET as u8, 0, 0, 0, libc::RT_TABLE_MAIN, 0, 0, libc::RTN_UNICAST, 0, 0, 0, 0];
    let mut hops = Vec::new();
    for index in [3u32, 5] {
        hops.extend_from_slice(&8u16.to_ne_bytes());
        hops.extend_from_slice(&[0, 0]);
        hops.extend_from_slice(&index.to_ne_bytes());
    }
    let attributes = attribute(libc::RTA_MULTIPATH, &hops);
    assert_eq!(default_route(&header, Attributes(&attributes)), [3, 5]);

    let mut narrower = header;
    narrower[1] = 8;
    assert!(default_route(&narrower, Attributes(&attributes)).is_empty());
}

#[test]
fn broken_attributes_end_the_list() {
    assert_eq!(Attributes(&[3, 0, 1, 0, 9, 9]).next(), None);
    assert_eq!(Attributes(&[200, 0, 1, 0, 9, 9]).next(), None);
    assert_eq!(Attributes(&[1]).next(), None);
}
