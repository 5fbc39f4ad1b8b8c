//! The windows of paths, found by the address and slot they lead to.

use crate::facade::{Facade, Mutex};
use converb_engine::Address;
use converb_engine::iba::{PathFinder, PathWindow};
use converb_wire::Qpn;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All paths that queue pairs use, with their lock.
pub(crate) struct SharedPaths<S: Facade>(pub(crate) S::Mutex<Paths>);

impl<S: Facade> PathFinder for SharedPaths<S> {
    fn find(&self, remote: Address, destination: Qpn) -> Arc<PathWindow> {
        self.0.lock().find(remote, destination)
    }
}

/// All paths that queue pairs use or used lately: one that sends datagrams holds on to its last
/// path only, but goes on with the credit of all.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    windows: BTreeMap<(Address, u16), Entry>,
    /// How many there were after the last tidying.
    tidy_len: usize,
}

#[derive(Debug)]
struct Entry {
    window: Arc<PathWindow>,
    /// Whether it was looked for since the last tidying.
    used: bool,
}

impl Paths {
    /// The window of the path to slot `slot` at `remote`, if a queue pair uses it.
    pub(crate) fn known(&self, remote: Address, slot: u16) -> Option<Arc<PathWindow>> {
        self.windows.get(&(remote, slot)).map(|entry| Arc::clone(&entry.window))
    }

    /// The window of the path to the slot of queue pair `destination` at `remote`.
    pub(crate) fn find(&mut self, remote: Address, destination: Qpn) -> Arc<PathWindow> {
        let key = (remote, (destination.value() >> 14) as u16);
        if let Some(entry) = self.windows.get_mut(&key) {
            entry.used = true;
            return Arc::clone(&entry.window);
        }
        if self.windows.len() > 2 * self.tidy_len + 16 {
            self.windows.retain(|_, entry| {
                let was_used = core::mem::replace(&mut entry.used, false);
                was_used || Arc::strong_count(&entry.window) > 1
            });
            self.tidy_len = self.windows.len();
        }
        let window = Arc::default();
        self.windows.insert(key, Entry { window: Arc::clone(&window), used: true });
        window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queue_pairs_of_one_slot_share_a_window_and_old_paths_are_forgotten() {
        let mut paths = Paths::default();
        let here = Address::Lid(1);
        let one = paths.find(here, Qpn::new(0x4001));
        assert!(Arc::ptr_eq(&one, &paths.find(here, Qpn::new(0x4002))));
        assert!(!Arc::ptr_eq(&one, &paths.find(here, Qpn::new(0x8001))));
        for lid in 2..2000 {
            drop(paths.find(Address::Lid(lid), Qpn::new(0x4001)));
        }
        assert!(paths.windows.len() < 500);
        assert!(Arc::ptr_eq(&one, &paths.find(here, Qpn::new(0x4001))));
    }

    #[test]
    fn a_path_that_datagrams_come_back_to_is_the_same() {
        let mut paths = Paths::default();
        let ways = [2, 3, 4].map(Address::Lid);
        for _ in 0..100 {
            for way in ways {
                paths.find(way, Qpn::new(0x4001)).credit().sent(1000);
            }
        }
        for way in ways {
            let on_the_way = paths.find(way, Qpn::new(0x4001)).credit().on_the_way();
            assert_eq!(on_the_way, 100_000);
        }
    }
}
