//! Protection domains: what may be used together.

use crate::context::Context;
use crate::error::Error;
use crate::heritage::Lost;
use crate::memory_region::MemoryRegion;
use crate::runtime::Runtime;
use converb_engine::memory::{self, Access};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// A protection domain: queue pairs use memory regions of their own domain only.
#[derive(Debug)]
pub struct ProtectionDomain {
    context: Arc<Context>,
    number: u32,
    /// The number of the runtime that its memory regions are registered with; 0 before there are.
    runtime: AtomicU32,
}

impl ProtectionDomain {
    /// A new domain of an opened device.
    pub fn new(context: &Arc<Context>) -> Arc<Self> {
        // Numbers are never used twice in a process: 2^32 domains take years.
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Arc::new(Self { context: Arc::clone(context), number, runtime: AtomicU32::new(0) })
    }

    /// The device it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// Its number, unique in the process.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// A region of `length` zeroed bytes, which peers and work requests may use as `access` says.
    ///
    /// # Errors
    /// As for [`MemoryRegion::register`].
    pub fn allocate(
        self: &Arc<Self>,
        length: usize,
        access: Access,
    ) -> Result<Arc<MemoryRegion>, Error> {
        MemoryRegion::allocate(self, length, access)
    }

    /// Ties the domain to the process that first registers memory with it, and its heirs.
    ///
    /// # Errors
    /// `Forked` in a child that has not inherited: the domain's queue pairs, there, would not find
    /// it.
    pub(crate) fn belong_to(&self, runtime: &Runtime) -> Result<(), Error> {
        let number = runtime.number();
        match self.runtime.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed) {
            Err(owner) if owner != number && !runtime.inherits_from(owner) => {
                Err(Lost::NotWhole.into())
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    pub(crate) fn key(&self) -> memory::ProtectionDomain {
        memory::ProtectionDomain(self.number)
    }
}
