//! Event channels and what comes out of them.

use crate::address;
use crate::guard::{self, Errno};
use crate::layout::*;
use crate::objects::{ContextObject, EventChannelObject, IdentifierObject};
use converb::cm::{ConnectionParameters, DatagramParameters, Event, EventKind, Parameters};
use core::ffi::{CStr, c_char, c_int};
use core::ptr::null_mut;

/// An event as programs see it, with what it points to.
#[repr(C)]
struct EventObject {
    public: rdma_cm_event,
    private_data: Vec<u8>,
    /// Who waits for its acknowledgement.
    owner: *mut rdma_cm_id,
}

pub(crate) extern "C" fn create_event_channel() -> *mut rdma_event_channel {
    guard::pointer(EventChannelObject::allocate)
}

pub(crate) unsafe extern "C" fn destroy_event_channel(channel: *mut rdma_event_channel) {
    // SAFETY: the channel is alive, and used no more.
    guard::value((), || unsafe { EventChannelObject::free(channel) });
}

pub(crate) unsafe extern "C" fn get_cm_event(
    channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    guard::number(|| {
        if event.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the channel is alive, and the program passes a place for the pointer.
        unsafe { *event = next(channel)? };
        Ok(0)
    })
}

pub(crate) unsafe extern "C" fn ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    guard::number(|| {
        if event.is_null() {
            return Err(Errno::INVALID);
        }
        // SAFETY: the event comes from `get_cm_event`, and is acknowledged once.
        unsafe { acknowledge(event) };
        Ok(0)
    })
}

/// The next event of a channel, which has been followed by its queue pair.
///
/// # Safety
/// The channel is alive.
pub(super) unsafe fn next(channel: *mut rdma_event_channel) -> Result<*mut rdma_cm_event, Errno> {
    // SAFETY: the caller's promise.
    let inner = unsafe { EventChannelObject::from_pointer(channel) }.channel();
    let mut owner = null_mut();
    let event = inner.next(|event| {
        owner = IdentifierObject::pointer_of(event.owner());
        // SAFETY: its end waits for this, and whoever owns events has an object.
        unsafe { IdentifierObject::from_pointer(owner) }.claim();
    })?;
    // SAFETY: the owner was claimed.
    Ok(unsafe { follow(event, owner) })
}

/// Does what an event asks for, and makes the program's view of it.
///
/// # Safety
/// The owner is alive.
unsafe fn follow(event: Event, owner: *mut rdma_cm_id) -> *mut rdma_cm_event {
    let listener = if event.listener.is_some() { owner } else { null_mut() };
    let id = if listener.is_null() {
        owner
    } else {
        // SAFETY: the listener is the owner.
        unsafe { IdentifierObject::of_request(event.identifier.clone(), listener) }
    };
    // SAFETY: the identifier is alive: it is the owner, or was made above.
    let object = unsafe { IdentifierObject::from_pointer(id) };
    // SAFETY: a queue pair in a living identifier is alive.
    unsafe { object.take_queue_pair() };
    let event = event.follow();
    object.publish_state();
    // Without a descriptor left there is no context to show.
    let published = object.publish();
    if event.kind == EventKind::RouteResolved {
        object.publish_path();
    }
    // SAFETY: all fields are integers and pointers, for which zero is a value.
    let mut public: rdma_cm_event = unsafe { core::mem::zeroed() };
    public.id = id;
    public.listen_id = listener;
    public.event = event.kind as c_int;
    public.status = event.status;
    if let Err(Errno(error)) = published {
        public.status = -error;
        if event.kind == EventKind::AddressResolved {
            public.event = EventKind::AddressError as c_int;
        }
    }
    let mut made = Box::new(EventObject { public, private_data: Vec::new(), owner });
    match event.parameters {
        Parameters::None => {}
        Parameters::Connection(parameters) => made.say(parameters),
        Parameters::Datagram(parameters) => made.say_datagram(parameters, id),
    }
    Box::into_raw(made).cast()
}

impl EventObject {
    fn say(&mut self, said: ConnectionParameters) {
        self.private_data = said.private_data;
        let place = (&raw mut self.public.param).cast::<rdma_conn_param>();
        let parameters = rdma_conn_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data.len() as u8,
            responder_resources: said.responder_resources,
            initiator_depth: said.initiator_depth,
            flow_control: said.flow_control.into(),
            retry_count: said.retry_count,
            rnr_retry_count: said.rnr_retry_count,
            srq: said.has_shared_receives.into(),
            qp_num: said.qpn.value(),
        };
        // SAFETY: the place is a union in C, of which the field is the larger part.
        unsafe { place.write(parameters) };
    }

    fn say_datagram(&mut self, said: DatagramParameters, id: *mut rdma_cm_id) {
        self.private_data = said.private_data;
        // SAFETY: the identifier is alive, and its context lives for ever.
        let path = unsafe {
            let context = (*id).verbs;
            (!context.is_null()).then(|| {
                address::described(ContextObject::from_pointer(context).context(), &said.path)
            })
        };
        let Some(ah_attr) = path else { return };
        self.public.param = rdma_ud_param {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: self.private_data.len() as u8,
            ah_attr,
            qp_num: said.qpn.value(),
            qkey: said.queue_key,
        };
    }
}

/// The program is done with an event.
///
/// # Safety
/// The event comes from [`next`], and is not used again.
pub(super) unsafe fn acknowledge(event: *mut rdma_cm_event) {
    // SAFETY: the caller's promise; its owner waits for this.
    unsafe {
        let event = Box::from_raw(event.cast::<EventObject>());
        IdentifierObject::from_pointer(event.owner).acknowledge();
    }
}

/// The names of `enum rdma_cm_event_type`.
const NAMES: [&CStr; 16] = [
    c"RDMA_CM_EVENT_ADDR_RESOLVED",
    c"RDMA_CM_EVENT_ADDR_ERROR",
    c"RDMA_CM_EVENT_ROUTE_RESOLVED",
    c"RDMA_CM_EVENT_ROUTE_ERROR",
    c"RDMA_CM_EVENT_CONNECT_REQUEST",
    c"RDMA_CM_EVENT_CONNECT_RESPONSE",
    c"RDMA_CM_EVENT_CONNECT_ERROR",
    c"RDMA_CM_EVENT_UNREACHABLE",
    c"RDMA_CM_EVENT_REJECTED",
    c"RDMA_CM_EVENT_ESTABLISHED",
    c"RDMA_CM_EVENT_DISCONNECTED",
    c"RDMA_CM_EVENT_DEVICE_REMOVAL",
    c"RDMA_CM_EVENT_MULTICAST_JOIN",
    c"RDMA_CM_EVENT_MULTICAST_ERROR",
    c"RDMA_CM_EVENT_ADDR_CHANGE",
    c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
];

pub(crate) extern "C" fn event_str(event: c_int) -> *const c_char {
    let name = usize::try_from(event).ok().and_then(|event| NAMES.get(event));
    name.copied().unwrap_or(c"UNKNOWN EVENT").as_ptr()
}
