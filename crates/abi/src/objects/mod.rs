//! The objects behind the pointers that programs hold: the C structure first, ours behind it.
//!
//! An object lives from the call that creates it to the one that destroys it. Each has
//! `allocate`, which gives the program's pointer, `from_pointer`, which trusts that pointer as any
//! C library does, and `free`. The C structure is in an `UnsafeCell`, because programs write to it
//! too; what we need of it ourselves is kept a second time, out of their reach.

mod acknowledgement;
mod address_handle;
mod completion_channel;
mod completion_queue;
mod context;
mod device;
mod identifier;
mod memory_region;
mod protection_domain;
mod queue_pair;
mod shared_receive_queue;

pub(crate) use acknowledgement::Acknowledgement;
pub(crate) use address_handle::AddressHandleObject;
pub(crate) use completion_channel::CompletionChannelObject;
pub(crate) use completion_queue::{CompletionQueueObject, CompletionQueueRequest};
pub(crate) use context::ContextObject;
pub(crate) use device::{DeviceObject, copy_text};
pub(crate) use identifier::{EventChannelObject, IdentifierObject, port_space, queue_pair_kind};
pub(crate) use memory_region::MemoryRegionObject;
pub(crate) use protection_domain::ProtectionDomainObject;
pub(crate) use queue_pair::{QueuePairObject, UNRELIABLE_CONNECTION, UNRELIABLE_DATAGRAM};
pub(crate) use shared_receive_queue::SharedReceiveQueueObject;

use crate::guard::Errno;
use std::sync::Arc;

/// Implements allocating, finding and freeing for an object whose `public` structure comes first.
macro_rules! c_object {
    ($object:ident, $public:ident) => {
        // Some objects are made for a place, and some are never looked into.
        #[allow(dead_code)]
        impl $object {
            /// Moves the object to the heap; the pointer is the program's.
            pub(crate) fn into_pointer(self) -> *mut $public {
                const { assert!(core::mem::offset_of!($object, public) == 0) };
                Box::into_raw(Box::new(self)).cast()
            }

            /// The object that a program's pointer means.
            ///
            /// # Safety
            /// The pointer comes from [`Self::into_pointer`] and has not been freed.
            pub(crate) unsafe fn from_pointer<'a>(pointer: *mut $public) -> &'a Self {
                // SAFETY: the caller's promise; the public structure is first in the object.
                unsafe { &*pointer.cast() }
            }

            /// Ends the object.
            ///
            /// # Safety
            /// As for [`Self::from_pointer`]; the pointer is not used again.
            pub(crate) unsafe fn free(pointer: *mut $public) {
                // SAFETY: the object was a box before it became this pointer.
                drop(unsafe { Box::from_raw(pointer.cast::<Self>()) });
            }
        }
    };
}
pub(crate) use c_object;

/// `EBUSY` while something besides the program's own object refers to the object inside.
pub(crate) fn check_unused<T>(inner: &Arc<T>) -> Result<(), Errno> {
    if Arc::strong_count(inner) == 1 { Ok(()) } else { Err(Errno(libc::EBUSY)) }
}

/// A number for the `handle` field, which programs print. Handles are unique in a process.
pub(crate) fn next_handle() -> u32 {
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
    NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed)
}
