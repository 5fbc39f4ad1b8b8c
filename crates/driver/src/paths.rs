//! The windows of paths, found by the address and slot they lead to.

use crate::facade::{Facade, Mutex};
use converb_engine::Address;
use converb_engine::iba::{PathFinder, PathWindow};
use converb_wire::Qpn;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// All paths that queue pairs use, with their lock.
pub(crate) struct SharedPaths<S: Facade>(pub(crate) S::Mutex<Paths>);

impl<S: Facade> PathFinder for SharedPaths<S> {
    fn find(&self, remote: Address, destination: Qpn) -> Arc<PathWindow> {
        self.0.lock().find(remote, destination)
    }
}

/// All paths that queue pairs use.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    windows: BTreeMap<(Address, u16), Weak<PathWindow>>,
    /// How many there were after the last tidying.
    tidy_len: usize,
}

impl Paths {
    /// The window of the path to slot `slot` at `remote`, if a queue pair uses it.
    pub(crate) fn known(&self, remote: Address, slot: u16) -> Option<Arc<PathWindow>> {
        self.windows.get(&(remote, slot)).and_then(Weak::upgrade)
    }

    /// The window of the path to the slot of queue pair `destination` at `remote`.
    pub(crate) fn find(&mut self, remote: Address, destination: Qpn) -> Arc<PathWindow> {
        let key = (remote, (destination.value() >> 14) as u16);
        if let Some(window) = self.known(key.0, key.1) {
            return window;
        }
        if self.windows.len() > 2 * self.tidy_len + 16 {
            self.windows.retain(|_, window| window.strong_count() != 0);
            self.tidy_len = self.windows.len();
        }
        let window = Arc::default();
        self.windows.insert(key, Arc::downgrade(&window));
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
        for lid in 2..200 {
            drop(paths.find(Address::Lid(lid), Qpn::new(0x4001)));
        }
        assert!(paths.windows.len() < 50);
        assert!(Arc::ptr_eq(&one, &paths.find(here, Qpn::new(0x4001))));
    }
}
