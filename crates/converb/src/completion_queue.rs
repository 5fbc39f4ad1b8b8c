//! Completion queues: where work requests end.

use crate::attributes::DeviceAttributes;
use crate::completion_channel::CompletionChannel;
use crate::context::Context;
use crate::error::Error;
use crate::events::Element;
use crate::heritage;
use crate::memory_region::RuntimeRef;
use crate::runtime::{CompletionQueueHandle, Runtime};
use converb_engine::Completion;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A completion queue.
pub struct CompletionQueue {
    context: Arc<Context>,
    runtime: RuntimeRef,
    channel: Option<Arc<CompletionChannel>>,
    handle: Arc<CompletionQueueHandle>,
    number: u64,
    /// The runtime that was last found to be the right one.
    home: AtomicPtr<Runtime>,
}

impl CompletionQueue {
    /// A queue of at least `capacity` completions. `number` names it in the events of its channel and
    /// among asynchronous events.
    ///
    /// # Errors
    /// `Invalid` for a capacity of 0 or beyond the device's or a channel of another context, or why
    /// the network cannot be joined.
    pub fn new(
        context: &Arc<Context>,
        capacity: usize,
        channel: Option<&Arc<CompletionChannel>>,
        number: u64,
    ) -> Result<Arc<Self>, Error> {
        check_capacity(capacity)?;
        if channel.is_some_and(|channel| !Arc::ptr_eq(channel.context(), context)) {
            return Err(Error::Invalid(
                "the channel belongs to a device that was opened another time",
            ));
        }
        let runtime = Runtime::get()?;
        let handle = CompletionQueueHandle::new(
            capacity,
            channel.map(|channel| Arc::clone(channel.handle())),
            Arc::clone(context.events()) as _,
            number,
        );
        Ok(Arc::new(Self {
            context: Arc::clone(context),
            runtime: RuntimeRef(runtime),
            channel: channel.cloned(),
            handle: Arc::new(handle),
            number,
            home: AtomicPtr::new(core::ptr::from_ref(runtime).cast_mut()),
        }))
    }

    /// The device it belongs to.
    pub fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The channel that it raises events on.
    pub fn channel(&self) -> Option<&Arc<CompletionChannel>> {
        self.channel.as_ref()
    }

    /// Takes the oldest completions, as many as there are and fit; returns how many.
    ///
    /// # Errors
    /// `Forked`.
    pub fn poll(&self, completions: &mut [Completion]) -> Result<usize, Error> {
        Ok(self.home()?.driver().poll(&self.handle, completions))
    }

    /// Asks for one event on the channel, when the next completion comes (with `solicited_only`:
    /// the next that the peer asked an event for, or that failed).
    ///
    /// # Errors
    /// `Forked`.
    pub fn arm(&self, solicited_only: bool) -> Result<(), Error> {
        self.home()?;
        self.handle.arm(solicited_only);
        Ok(())
    }

    /// How many completions fit.
    pub fn capacity(&self) -> usize {
        self.handle.capacity()
    }

    /// Changes how many completions fit at least.
    ///
    /// # Errors
    /// `Invalid` for a capacity out of range or below the number of those that wait, `Forked`.
    pub fn resize(&self, capacity: usize) -> Result<(), Error> {
        check_capacity(capacity)?;
        self.home()?;
        self.handle
            .resize(capacity)
            .map_err(|_| Error::Invalid("more completions wait than would fit"))
    }

    /// Takes back the events about this queue that nobody has read.
    pub fn withdraw_events(&self) {
        if let Some(channel) = &self.channel {
            channel.forget(self.number);
        }
        self.context.events().withdraw(Element::CompletionQueue(self.number));
    }

    /// The runtime of this process. In a fork child the queue pairs that complete here are taken
    /// over the first time.
    fn home(&self) -> Result<&'static Runtime, Error> {
        // SAFETY: the pointer is to a runtime, which is never freed.
        let home = unsafe { &*self.home.load(Ordering::Acquire) };
        if home.is_ours() {
            return Ok(home);
        }
        let home = heritage::settle(self.runtime.0, self)?;
        self.home.store(core::ptr::from_ref(home).cast_mut(), Ordering::Release);
        Ok(home)
    }

    pub(crate) fn handle(&self) -> &Arc<CompletionQueueHandle> {
        &self.handle
    }
}

fn check_capacity(capacity: usize) -> Result<(), Error> {
    if capacity == 0 || capacity > DeviceAttributes::ALL.max_completions as usize {
        return Err(Error::Invalid("the capacity is 0 or beyond the device's"));
    }
    Ok(())
}

impl core::fmt::Debug for CompletionQueue {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("CompletionQueue")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        self.withdraw_events();
    }
}
