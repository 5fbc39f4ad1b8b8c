//! Shared receive queues: receives for several queue pairs.

use crate::attributes::DeviceAttributes;
use crate::chaos::Chaotic;
use crate::context::Context;
use crate::error::Error;
use crate::events::Element;
use crate::memory_region::RuntimeRef;
use crate::protection_domain::ProtectionDomain;
use crate::runtime::Runtime;
use converb_driver::ReceiveQueue;
use converb_engine::work::{PostError, ReceiveRequest};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A shared receive queue (`ibv_create_srq`).
pub struct SharedReceiveQueue {
    domain: Arc<ProtectionDomain>,
    runtime: RuntimeRef,
    handle: Arc<ReceiveQueue<Chaotic>>,
    entries_max: u32,
    number: u64,
    is_closed: AtomicBool,
}

impl SharedReceiveQueue {
    /// A queue of `capacity` receives with up to `entries_max` scatter-gather entries each;
    /// `number` names it among asynchronous events.
    ///
    /// # Errors
    /// `Invalid` for capacities beyond the device's, or why the network cannot be joined.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        capacity: u32,
        entries_max: u32,
        number: u64,
    ) -> Result<Arc<Self>, Error> {
        check_capacity(capacity)?;
        if entries_max > DeviceAttributes::ALL.max_scatter_gather {
            return Err(Error::Invalid(
                "a receive's scatter-gather entries are beyond the device's",
            ));
        }
        let runtime = Runtime::get()?;
        runtime.check()?;
        let listener = Arc::clone(domain.context().events()) as _;
        let (capacity, entries) = (capacity as usize, entries_max as usize);
        let handle = Arc::new(ReceiveQueue::shared(capacity, entries, listener, number));
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            runtime: RuntimeRef(runtime),
            handle,
            entries_max,
            number,
            is_closed: AtomicBool::new(false),
        }))
    }

    /// The domain it belongs to.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// How many receives fit.
    pub fn capacity(&self) -> u32 {
        u32::try_from(self.handle.capacity()).unwrap_or(u32::MAX)
    }

    /// Scatter-gather entries of a receive at most.
    pub fn entries_max(&self) -> u32 {
        self.entries_max
    }

    /// The limit that is armed; 0 if none is, or its event was raised.
    pub fn limit(&self) -> u32 {
        u32::try_from(self.handle.limit()).unwrap_or(u32::MAX)
    }

    /// Arms the limit event: raised once, when fewer than `limit` receives are left.
    ///
    /// # Errors
    /// `Invalid` when the limit is larger than the queue.
    pub fn set_limit(&self, limit: u32) -> Result<(), Error> {
        if limit > self.capacity() {
            return Err(Error::Invalid("the limit is larger than the shared receive queue"));
        }
        self.handle.set_limit(limit as usize);
        Ok(())
    }

    /// Changes how many receives fit.
    ///
    /// # Errors
    /// `Invalid` beyond the device's capacity, or when more are posted than would fit.
    pub fn resize(&self, capacity: u32) -> Result<(), Error> {
        check_capacity(capacity)?;
        self.handle
            .resize(capacity as usize)
            .map_err(|_| Error::Invalid("more receives are posted than would fit"))
    }

    /// Posts receives.
    ///
    /// # Errors
    /// The index of the first that was not taken, and why; those before it were.
    pub fn post(&self, requests: &[ReceiveRequest<'_>]) -> Result<(), (usize, Error)> {
        self.runtime.driver().map_err(|error| (0, error))?;
        let not_taken = |(index, error): (usize, PostError)| (index, Error::Post(error));
        self.handle.post(requests).map_err(not_taken)
    }

    /// Takes back the events about this queue that nobody has read. Dropping it does the same.
    pub fn close(&self) {
        // Its number may belong to another queue afterwards, so this happens once.
        if !self.is_closed.swap(true, Ordering::AcqRel) {
            self.domain.context().events().withdraw(Element::SharedReceiveQueue(self.number));
        }
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        self.domain.context()
    }

    pub(crate) fn handle(&self) -> &Arc<ReceiveQueue<Chaotic>> {
        &self.handle
    }
}

fn check_capacity(capacity: u32) -> Result<(), Error> {
    if capacity == 0 || capacity > DeviceAttributes::ALL.max_work_requests {
        return Err(Error::Invalid("a shared receive queue's capacity is beyond the device's"));
    }
    Ok(())
}

impl core::fmt::Debug for SharedReceiveQueue {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("SharedReceiveQueue")
            .field("capacity", &self.capacity())
            .finish_non_exhaustive()
    }
}

impl Drop for SharedReceiveQueue {
    fn drop(&mut self) {
        self.close();
    }
}
