//! Memory regions: memory that work requests and peers name by keys.

use crate::error::Error;
use crate::heritage;
use crate::protection_domain::ProtectionDomain;
use crate::runtime::{Driver, Runtime};
use converb_driver::Port;
use converb_engine::memory::{Access, KeyError, Memory, RegionSpec};
use converb_engine::work::ScatterGather;
use converb_wire::Rkey;
use core::ops::Range;
use core::sync::atomic::{AtomicU8, Ordering};
use std::sync::Arc;

/// A registered region. Dropping it ends the registration: afterwards nobody touches its memory.
#[derive(Debug)]
pub struct MemoryRegion {
    domain: Arc<ProtectionDomain>,
    runtime: RuntimeRef,
    spec: RegionSpec,
    key: Rkey,
    /// Memory that the region has of its own. Peers change it at any time, so it consists of
    /// atomics: reading such a byte is defined even while it changes.
    own: Option<Box<[AtomicU8]>>,
}

/// A runtime in an object that prints itself.
pub(crate) struct RuntimeRef(pub(crate) &'static Runtime);

impl RuntimeRef {
    /// The driver of this process: that of the runtime, or of one that has inherited from it.
    ///
    /// # Errors
    /// `Forked`, or why the network cannot be joined.
    pub(crate) fn driver(&self) -> Result<&'static Arc<Driver>, Error> {
        heritage::runtime_for(self.0).map(Runtime::driver)
    }

    /// The same, if there is one already.
    pub(crate) fn existing_driver(&self) -> Option<&'static Arc<Driver>> {
        let runtime = Runtime::current()?;
        let is_ours = self.0.is_ours() || runtime.inherits_from(self.0.number());
        is_ours.then(|| runtime.driver())
    }
}

impl core::fmt::Debug for RuntimeRef {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str("Runtime")
    }
}

impl MemoryRegion {
    /// Registers memory of the program's (`ibv_reg_mr_iova2`). Nothing is pinned; memory that is
    /// unmapped later gives error completions, not crashes.
    ///
    /// # Safety
    /// Until the region is dropped, the bytes may be read and, as `access` allows, written by
    /// peers at any time: nothing else in the program may rely on their staying the same.
    ///
    /// # Errors
    /// `Invalid` for a range that wraps or remote rights to write without local ones, `TooMany`,
    /// `Forked` for a domain of a parent that was in the middle of something when it forked, or why
    /// the network cannot be joined.
    pub unsafe fn register(
        domain: &Arc<ProtectionDomain>,
        spec: RegionSpec,
    ) -> Result<Arc<Self>, Error> {
        Self::new(domain, spec, None)
    }

    /// A region with memory of its own; see [`ProtectionDomain::allocate`].
    pub(crate) fn allocate(
        domain: &Arc<ProtectionDomain>,
        length: usize,
        access: Access,
    ) -> Result<Arc<Self>, Error> {
        let own: Box<[AtomicU8]> = (0..length).map(|_| AtomicU8::new(0)).collect();
        let address = own.as_ptr().expose_provenance() as u64;
        let spec = RegionSpec { address, length: length as u64, iova: address, access };
        Self::new(domain, spec, Some(own))
    }

    fn new(
        domain: &Arc<ProtectionDomain>,
        spec: RegionSpec,
        own: Option<Box<[AtomicU8]>>,
    ) -> Result<Arc<Self>, Error> {
        let runtime = Runtime::get()?;
        domain.belong_to(runtime)?;
        let driver = runtime.check()?;
        // Now, where the program expects changes, and not by another thread at the first transfer.
        driver.port().memory().arm();
        let region = driver.register(domain.key(), spec).map_err(|error| match error {
            KeyError::TableFull => Error::TooMany("memory regions"),
            _ => Error::Invalid(
                "the range wraps around, or remote access to write lacks local access to write",
            ),
        })?;
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            runtime: RuntimeRef(runtime),
            spec,
            key: region.key,
            own,
        }))
    }

    /// The domain it belongs to.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// The key for work requests (`lkey`).
    pub fn local_key(&self) -> u32 {
        self.key.0
    }

    /// The key for peers (`rkey`).
    pub fn remote_key(&self) -> Rkey {
        self.key
    }

    /// The address that work requests and peers use for its first byte.
    pub fn first_address(&self) -> u64 {
        self.spec.iova
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.spec.length as usize
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.spec.length == 0
    }

    /// A part of it, for a work request.
    ///
    /// # Panics
    /// When the range is not inside the region or longer than 4 GiB.
    pub fn part(&self, range: Range<usize>) -> ScatterGather {
        assert!(range.start <= range.end && range.end <= self.len(), "the range is not inside");
        ScatterGather {
            address: self.spec.iova + range.start as u64,
            length: u32::try_from(range.len()).expect("a work request has less than 4 GiB"),
            lkey: self.key.0,
        }
    }

    /// Copies bytes out of a region that was allocated with it. Bytes that a peer writes meanwhile
    /// are old or new.
    ///
    /// # Panics
    /// When the bytes are not inside the region, or its memory is the program's.
    pub fn read(&self, offset: usize, into: &mut [u8]) {
        let bytes = &self.own()[offset..][..into.len()];
        if into.len() >= MANY
            && let Some(driver) = self.runtime.existing_driver()
            && driver.port().memory().read(address_of(bytes), into).is_ok()
        {
            return;
        }
        for (place, byte) in into.iter_mut().zip(bytes) {
            *place = byte.load(Ordering::Relaxed);
        }
    }

    /// Copies bytes into a region that was allocated with it.
    ///
    /// # Panics
    /// When the bytes are not inside the region, or its memory is the program's.
    pub fn write(&self, offset: usize, from: &[u8]) {
        let bytes = &self.own()[offset..][..from.len()];
        if from.len() >= MANY
            && let Some(driver) = self.runtime.existing_driver()
            && driver.port().memory().write(address_of(bytes), from).is_ok()
        {
            return;
        }
        for (place, byte) in bytes.iter().zip(from) {
            place.store(*byte, Ordering::Relaxed);
        }
    }

    fn own(&self) -> &[AtomicU8] {
        self.own.as_deref().expect("the region's memory was allocated with it")
    }
}

/// From so many bytes on the driver's way of copying, which a compiler cannot see through, is faster
/// than one atomic after the other.
const MANY: usize = 32;

fn address_of(bytes: &[AtomicU8]) -> u64 {
    bytes.as_ptr().expose_provenance() as u64
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        // In a fork child the parent's locks are out of reach, and its region lives on.
        if let Some(driver) = self.runtime.existing_driver() {
            let region = driver.deregister(self.key);
            debug_assert!(region.is_ok(), "a region is deregistered once");
        }
    }
}
