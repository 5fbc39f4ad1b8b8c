//! The services without acknowledgements: unreliable connection (IBA 9.8.2) and unreliable
//! datagram (IBA 9.8.3). A send is done when it is on its way; what is lost stays lost.

mod connected;
mod datagram;
mod sender;

pub(super) use connected::ConnectedReceiver;
pub(super) use datagram::DatagramReceiver;
pub(super) use sender::UnreliableSender;
