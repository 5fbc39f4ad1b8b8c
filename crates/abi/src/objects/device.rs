//! `struct ibv_device`, kept for ever.

use super::{ContextObject, ProtectionDomainObject};
use crate::guard::Errno;
use crate::layout::{_ibv_device_ops, NAME_MAX, PATH_MAX, ibv_context, ibv_device, ibv_pd};
use converb::{Context, Device};
use core::ffi::{c_char, c_int};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// `IBV_NODE_CA` and `IBV_TRANSPORT_IB`: what RoCE devices are.
const NODE_CA: c_int = 1;
const TRANSPORT_IB: c_int = 0;

/// A device as programs see it.
#[repr(C)]
pub(crate) struct DeviceObject {
    public: ibv_device,
    /// libmlx5 and libefa are asked about our devices too (`mlx5dv_is_supported`). They take the
    /// device for the larger structure of rdma-core's library, in which a pointer to operations
    /// follows; a null pointer is none of theirs.
    behind: [u64; 64],
    device: Arc<Device>,
    shared: OnceLock<Shared>,
}

/// What all identifiers of a device have together, from the first one on and for ever.
#[derive(Clone, Copy)]
pub(crate) struct Shared {
    pub(crate) context: *mut ibv_context,
    pub(crate) domain: *mut ibv_pd,
}

// SAFETY: the raw pointers inside are null or point to constant data; the rest is `Sync`.
unsafe impl Sync for DeviceObject {}
// SAFETY: as above.
unsafe impl Send for DeviceObject {}

/// All devices that were ever listed, for the life of the process: programs keep pointers to
/// devices after they have freed the list, and compare them between lists.
static KNOWN: Mutex<Vec<&'static DeviceObject>> = Mutex::new(Vec::new());

impl DeviceObject {
    /// The objects of all devices that there are now.
    pub(crate) fn list() -> Result<Vec<&'static Self>, converb::Error> {
        Ok(Device::list()?.into_iter().map(Self::of).collect())
    }

    /// The object of a device.
    pub(crate) fn of(device: Arc<Device>) -> &'static Self {
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = known.iter().find(|object| object.device.is_same(&device)) {
            return object;
        }
        let object: &'static Self = Box::leak(Box::new(Self::new(device)));
        known.push(object);
        object
    }

    /// What identifiers of this device have together.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn shared(&'static self) -> Result<Shared, Errno> {
        if let Some(shared) = self.shared.get() {
            return Ok(*shared);
        }
        let context = Context::open(&self.device)?;
        let context = ContextObject::allocate(self, context)?;
        // SAFETY: the context was opened above.
        let domain = unsafe { ProtectionDomainObject::allocate(context) };
        // Of two threads the second's are left alone: programs may not see a context go.
        Ok(*self.shared.get_or_init(|| Shared { context, domain: domain.cast() }))
    }

    fn new(device: Arc<Device>) -> Self {
        let mut public = ibv_device {
            _ops: _ibv_device_ops { _dummy1: None, _dummy2: None },
            node_type: NODE_CA,
            transport_type: TRANSPORT_IB,
            name: [0; NAME_MAX],
            dev_name: [0; NAME_MAX],
            dev_path: [0; PATH_MAX],
            ibdev_path: [0; PATH_MAX],
        };
        let number = device.ordinal();
        copy_text(&mut public.name, device.name());
        copy_text(&mut public.dev_name, &format!("uverbs{number}"));
        copy_text(&mut public.dev_path, &format!("/sys/class/infiniband_verbs/uverbs{number}"));
        copy_text(&mut public.ibdev_path, &format!("/sys/class/infiniband/{}", device.name()));
        Self { public, behind: [0; 64], device, shared: OnceLock::new() }
    }

    /// The object that a program's pointer means.
    ///
    /// # Safety
    /// The pointer comes from [`Self::as_pointer`].
    pub(crate) unsafe fn from_pointer(pointer: *mut ibv_device) -> &'static Self {
        debug_assert_eq!(core::mem::offset_of!(Self, public), 0);
        // SAFETY: the public part is first in an object that is never freed.
        unsafe { &*pointer.cast() }
    }

    /// The device whose name this is, if it was ever listed.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().copied().find(|object| object.device.name() == name)
    }

    /// What the program holds.
    pub(crate) fn as_pointer(&'static self) -> *mut ibv_device {
        (&raw const self.public).cast_mut()
    }

    pub(crate) fn name(&self) -> *const c_char {
        self.public.name.as_ptr()
    }

    pub(crate) fn device(&self) -> &Arc<Device> {
        debug_assert!(self.behind.iter().all(|&word| word == 0));
        &self.device
    }
}

/// Copies text into a zeroed field, cut to its length less one.
pub(crate) fn copy_text(field: &mut [c_char], text: &str) {
    let room = field.len() - 1;
    for (place, byte) in field[..room].iter_mut().zip(text.bytes()) {
        *place = byte as c_char;
    }
}
