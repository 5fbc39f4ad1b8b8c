//! An opened device.

use crate::device::Device;
use crate::error::Error;
use crate::events::{Event, EventQueue};
use crate::gid::Gid;
use crate::watch::{self, Watched};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// An opened device, to which objects belong. The network is joined when the first of them needs
/// it; until then there is only a thread that waits for news of interfaces, the same for all
/// contexts of a process.
#[derive(Debug)]
pub struct Context {
    watched: Arc<Watched>,
}

/// The number of the only port.
pub const PORT: u8 = 1;

impl Context {
    /// Opens a device.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub fn open(device: &Arc<Device>) -> Result<Arc<Self>, Error> {
        let events = EventQueue::new(device.name())
            .map_err(Error::system("make a descriptor for asynchronous events"))?;
        let watched = Arc::new(Watched::new(Arc::clone(device), Arc::new(events)));
        watch::begin(&watched);
        Ok(Arc::new(Self { watched }))
    }

    /// The device that was opened.
    pub fn device(&self) -> &Arc<Device> {
        self.watched.device()
    }

    pub(crate) fn events(&self) -> &Arc<EventQueue> {
        self.watched.events()
    }

    /// The GID at an index of the port's table.
    ///
    /// # Errors
    /// `Invalid` for a port or index that does not exist, `Empty` for an entry without a GID.
    pub fn gid(&self, port: u32, index: usize) -> Result<Gid, Error> {
        if port != u32::from(PORT) {
            return Err(Error::Invalid("the only port is 1"));
        }
        match self.device().gids().get(index) {
            None => Err(Error::Invalid("the GID table is shorter than that")),
            Some(Gid::ZERO) => Err(Error::Empty),
            Some(gid) => Ok(gid),
        }
    }

    /// The next asynchronous event; waits for one unless [`async_descriptor`] was made
    /// non-blocking. The object that it is about lives at least until `take` returns, for its end
    /// waits for that.
    ///
    /// [`async_descriptor`]: Self::async_descriptor
    ///
    /// # Errors
    /// `EAGAIN` from a non-blocking descriptor, `EINTR`.
    pub fn next_event<T>(&self, take: impl FnOnce(Event) -> T) -> Result<T, Error> {
        // A fork child has no thread of its parent's.
        watch::begin(&self.watched);
        self.events().take(take).map_err(Error::system("read an asynchronous event"))
    }

    /// Readable while asynchronous events wait: for poll and epoll.
    pub fn async_descriptor(&self) -> BorrowedFd<'_> {
        self.events().descriptor()
    }
}
