//! Copying the counters of the driver and its port to where the agent keeps them.

use crate::runtime::Driver;
use converb_agent::CounterPage;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// What has been published so far. A process's counters are those of one driver, whatever device
/// its queue pairs belong to; they are booked on the device that was used last.
#[derive(Debug, Default)]
pub(crate) struct Published(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    device: String,
    values: Vec<u64>,
}

impl Published {
    /// The names of all counters, in the order in which they are published.
    pub(crate) fn names() -> Vec<&'static str> {
        let port = converb_link::Counters::default();
        let transport = converb_engine::Counters::default();
        port.iter()
            .map(|(name, ..)| name)
            .chain(transport.snapshot().map(|(name, _)| name))
            .collect()
    }

    /// Books what comes from now on to this device.
    pub(crate) fn set_device(&self, device: &str) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.device != device {
            state.device = device.to_owned();
        }
    }

    /// Adds what was counted since the last call.
    pub(crate) fn publish(&self, driver: &Driver, page: &CounterPage) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).publish(driver, page);
    }

    /// The same at the process's end, unless another thread is at it.
    pub(crate) fn publish_last(&self, driver: &Driver, page: &CounterPage) {
        if let Ok(mut state) = self.0.try_lock() {
            state.publish(driver, page);
        }
    }
}

impl State {
    fn publish(&mut self, driver: &Driver, page: &CounterPage) {
        let Some(places) = page.device(&self.device) else { return };
        let port = driver.port().counters();
        let values = port
            .iter()
            .map(|(_, _, value)| value)
            .chain(driver.counters().snapshot().map(|(_, value)| value));
        self.values.resize(places.len(), 0);
        for ((place, before), value) in places.iter().zip(&mut self.values).zip(values) {
            place.fetch_add(value.wrapping_sub(*before), Ordering::Relaxed);
            *before = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_fit_the_page() {
        let mut names = Published::names();
        assert!(names.len() <= converb_agent::COUNTERS_MAX, "{} counters", names.len());
        assert!(names.iter().all(|name| name.len() <= 32));
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
