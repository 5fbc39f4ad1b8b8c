//! Work requests, and the rings that hold them between posting and completion.

mod receive_ring;
mod request;
mod send_ring;

pub use receive_ring::{ReceiveRing, ReceiveWork};
pub use request::{
    DatagramDestination, Operation, Payload, PostError, ReceiveRequest, RemoteAddress,
    ScatterGather, SendFlags, SendRequest,
};
pub use send_ring::{MESSAGE_BYTES_MAX, SendRing, SendWork};
