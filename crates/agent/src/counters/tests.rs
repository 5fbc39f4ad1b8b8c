use core::sync::atomic::Ordering;
use std::os::fd::AsFd;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

use super::*;

fn view(page: &CounterPage) -> PageView {
    let copy = page.descriptor().expect("open").try_clone_to_owned().expect("a descriptor");
    PageView::open(copy).expect("a page")
}

#[test]
fn the_agent_sees_what_the_member_counts() {
    let page = CounterPage::create(&["packets", "bytes"]).expect("memory");
    let seen = view(&page);
    page.device("roce_lo").expect("a place")[1].fetch_add(5, Ordering::Relaxed);
    page.device("roce_eth0").expect("a place")[0].fetch_add(1, Ordering::Relaxed);
    page.device("roce_lo").expect("the same place")[1].fetch_add(2, Ordering::Relaxed);
    let mut all = Vec::new();
    seen.read(|device, counter, value| all.push((device, counter, value))).expect("readable");
    let expected = [
        ("roce_lo", "packets", 0),
        ("roce_lo", "bytes", 7),
        ("roce_eth0", "packets", 1),
        ("roce_eth0", "bytes", 0),
    ];
    let expected = expected.map(|(device, counter, value)| {
        (CounterName::new(device), CounterName::new(counter), value)
    });
    assert_eq!(all, expected);
}

#[test]
fn places_and_counters_are_limited() {
    let page = CounterPage::create(&["one"]).expect("memory");
    for device in 0..DEVICES_MAX {
        assert!(page.device(&format!("roce_{device}")).is_some());
    }
    assert!(page.device("roce_more").is_none());
    assert!(page.device("roce_0").is_some());
    assert!(CounterPage::create(&["name"; COUNTERS_MAX + 1]).is_err());
    assert!(CounterPage::create(&["name"; COUNTERS_MAX]).is_ok());
    let none = CounterPage::create(&[]).expect("memory");
    assert_eq!(none.device("roce_lo").map(<[_]>::len), Some(0));
}

#[test]
fn totals_add_up_and_are_inherited() {
    let mut totals = Totals::create().expect("memory");
    let kept = totals.as_fd().try_clone_to_owned().expect("a descriptor");
    for value in [3, 4] {
        let page = CounterPage::create(&["packets"]).expect("memory");
        page.device("roce_lo").expect("a place")[0].store(value, Ordering::Relaxed);
        totals.fold(&view(&page)).expect("room");
    }
    drop(totals);
    let totals = Totals::inherit(kept).expect("the same totals");
    let living = CounterPage::create(&["packets"]).expect("memory");
    living.device("roce_lo").expect("a place")[0].store(10, Ordering::Relaxed);
    let value = |sums: Vec<super::totals::Sum>| sums.iter().map(|sum| sum.value).sum::<u64>();
    assert_eq!(value(totals.with(core::iter::empty())), 7);
    assert_eq!(value(totals.with([view(&living)].iter())), 17);
}

#[test]
fn failures_are_seen_and_old_pages_have_none() {
    let page = CounterPage::create(&["packets"]).expect("memory");
    let seen = view(&page);
    assert!(seen.failures().is_empty());
    let failure = [7; crate::FAILURE_WORDS];
    page.record(0, &failure);
    page.record(0, &[8; crate::FAILURE_WORDS]);
    let words: Vec<_> = seen.failures().iter().map(|record| record.words).collect();
    assert_eq!(words, [failure, [8; crate::FAILURE_WORDS]]);

    // A page of the first release: nothing behind its counters, and nothing in the header.
    let old =
        memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).expect("memory");
    let mut bytes = vec![0; Layout { counters: 1 }.counters_size()];
    bytes[..4].copy_from_slice(b"CVCP");
    bytes[4..16].copy_from_slice(&[1, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0]);
    bytes[64] = b'p';
    bytes[96] = b'd';
    bytes[128] = 5;
    rustix::io::write(&old, &bytes).expect("room");
    fcntl_add_seals(&old, SealFlags::SHRINK).expect("sealable");
    let old = PageView::open(old).expect("a page all the same");
    assert!(old.failures().is_empty());
    let mut values = Vec::new();
    old.read(|_, _, value| values.push(value)).expect("readable");
    assert_eq!(values, [5]);
}

#[test]
fn what_is_no_page_is_refused() {
    let empty = memfd_create("test", MemfdFlags::CLOEXEC).expect("memory");
    assert!(PageView::open(empty).is_err());
    let (pipe, _other) = rustix::pipe::pipe().expect("a pipe");
    assert!(PageView::open(pipe).is_err());
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let noise = memfd_create("test", flags).expect("memory");
    rustix::io::write(&noise, &[0xff; 4096]).expect("room");
    fcntl_add_seals(&noise, SealFlags::SHRINK).expect("sealable");
    assert!(PageView::open(noise).is_err());
}
