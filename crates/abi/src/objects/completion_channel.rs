//! `struct ibv_comp_channel`.

use super::{ContextObject, c_object};
use crate::guard::Errno;
use crate::layout::{ibv_comp_channel, ibv_context};
use converb::CompletionChannel;
use core::cell::UnsafeCell;
use std::os::fd::AsRawFd;
use std::sync::Arc;

/// A completion channel as programs see it.
#[repr(C)]
pub(crate) struct CompletionChannelObject {
    public: UnsafeCell<ibv_comp_channel>,
    channel: Arc<CompletionChannel>,
}

c_object!(CompletionChannelObject, ibv_comp_channel);

impl CompletionChannelObject {
    /// # Safety
    /// The context is open.
    pub(crate) unsafe fn allocate(
        context: *mut ibv_context,
    ) -> Result<*mut ibv_comp_channel, Errno> {
        // SAFETY: the caller's promise.
        let object = unsafe { ContextObject::from_pointer(context) };
        let channel = CompletionChannel::new(object.context())
            .map_err(crate::complain::about("make a completion channel"))?;
        let fd = channel.descriptor().as_raw_fd();
        let public = ibv_comp_channel { context, fd, refcnt: 0 };
        Ok(Self { public: UnsafeCell::new(public), channel }.into_pointer())
    }

    pub(crate) fn channel(&self) -> &Arc<CompletionChannel> {
        &self.channel
    }
}
