//! Streams are made: by asking for a connection, or by agreeing to one.

use super::mapping::Mappings;
use super::{Flow, Phase, Stream};
use crate::error::{errno, of};
use crate::flow::{CONTROL_REQUESTS, Receiving, Sending};
use crate::protocol::{Greeting, Mapping, Order, Span};
use crate::settings::Settings;
use converb::cm::{ConnectionParameters, EventChannel, Identifier};
use converb::iba::Service;
use converb::memory::Access;
use converb::{
    Capacities, CompletionChannel, CompletionQueue, Context, Device, ProtectionDomain, QueuePair,
    QueuePairOptions,
};
use rustix::io::ioctl_fionbio;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// How many receives are posted together.
pub(super) const RECEIVES_TOGETHER: usize = 16;
/// The peer sends again for ever while its messages find no receive, and seven times what is lost.
const RETRIES: u8 = 7;
/// Entries of our table of buffers: both halves of the peer's.
pub(super) const BUFFERS: u32 = 2;

impl Stream {
    /// Asks for a connection of an identifier that has resolved its route, whose events come by
    /// `events` alone.
    ///
    /// # Errors
    /// What the system or the device refuses.
    pub fn connect(
        identifier: &Arc<Identifier>,
        events: &Arc<EventChannel>,
        settings: Settings,
    ) -> io::Result<Arc<Self>> {
        let stream = Self::new(identifier, events, settings, Phase::Connecting, None)?;
        identifier.connect(&stream.parameters()).map_err(of)?;
        Ok(stream)
    }

    /// Agrees to a connection that was asked for with `greeting`.
    ///
    /// # Errors
    /// `ECONNABORTED` when the peer has given up, and as for [`connect`](Self::connect).
    pub fn accept(
        identifier: &Arc<Identifier>,
        events: &Arc<EventChannel>,
        settings: Settings,
        greeting: Greeting,
    ) -> io::Result<Arc<Self>> {
        let stream = Self::new(identifier, events, settings, Phase::Accepting, Some(greeting))?;
        identifier.migrate(events);
        let accepted = identifier.accept(&stream.parameters());
        accepted.map_err(|_| errno(libc::ECONNABORTED))?;
        Ok(stream)
    }

    fn new(
        identifier: &Arc<Identifier>,
        events: &Arc<EventChannel>,
        settings: Settings,
        phase: Phase,
        greeting: Option<Greeting>,
    ) -> io::Result<Arc<Self>> {
        let device = identifier.device().ok_or_else(|| errno(libc::ENODEV))?;
        let context = context_of(&device)?;
        let domain = ProtectionDomain::new(&context);
        let channel = CompletionChannel::new(&context).map_err(of)?;
        ioctl_fionbio(channel.descriptor(), true)?;
        let (sends, receives) = (
            u32::from(settings.send_requests) + CONTROL_REQUESTS,
            u32::from(settings.receive_requests) + CONTROL_REQUESTS + RECEIVES_TOGETHER as u32,
        );
        let completions = (sends + receives) as usize;
        let queue = CompletionQueue::new(&context, completions, Some(&channel), 0).map_err(of)?;
        let options = QueuePairOptions {
            capacities: Capacities {
                sends,
                receives,
                send_entries: 2,
                receive_entries: 1,
                inline_bytes: settings.inline_bytes.max(Mapping::BYTES) as u32,
            },
            service: Service::ReliableConnection,
            ..QueuePairOptions::reliable(&queue)
        };
        let queue_pair = QueuePair::new(&domain, options).map_err(of)?;
        identifier.attach(Some(&queue_pair));
        identifier.prepare().map_err(of)?;
        let written = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);
        let table = BUFFERS as usize * Span::BYTES + settings.mappings as usize * Mapping::BYTES;
        let stream = Self {
            send_buffer: domain.allocate(settings.send_bytes, Access::LOCAL_WRITE).map_err(of)?,
            receive_buffer: domain.allocate(settings.receive_bytes, written).map_err(of)?,
            tables: domain.allocate(table, written).map_err(of)?,
            queue_pair,
            queue,
            channel,
            identifier: Arc::clone(identifier),
            events: Arc::clone(events),
            has_events: Arc::new(AtomicBool::new(false)),
            domain,
            flow: Mutex::new(Flow {
                phase,
                can_read: true,
                can_write: true,
                ended_here: false,
                error: None,
                peer: None,
                receiving: Receiving::new(settings.receive_bytes, settings.receive_requests),
                next_told: 0,
                next_offered: 1 % BUFFERS,
                owed_receives: receives as usize,
                is_awaited: false,
                sleepers: 0,
                mappings: Mappings::default(),
            }),
            settings,
            changed: Condvar::new(),
            writing: Mutex::new(()),
            reading: Mutex::new(()),
        };
        {
            let mut flow = stream.lock();
            if let Some(greeting) = greeting {
                stream.meet(&mut flow, greeting);
            }
            stream.post_receives(&mut flow)?;
        }
        let (has_events, channel) = (Arc::clone(&stream.has_events), Arc::clone(&stream.channel));
        events.call_on_event(move || {
            has_events.store(true, Ordering::Release);
            channel.nudge();
        });
        Ok(Arc::new(stream))
    }

    /// The peer has said who it is.
    pub(super) fn meet(&self, flow: &mut Flow, greeting: Greeting) {
        flow.next_told = 1 % greeting.buffers.length;
        let sending = Sending::new(
            self.send_buffer.len(),
            self.settings.send_requests.into(),
            greeting.credits,
            greeting.first,
        );
        flow.peer = Some((greeting, sending));
    }

    /// What we say of ourselves.
    fn greeting(&self) -> Greeting {
        Greeting {
            order: Order::NATIVE,
            credits: self.settings.receive_requests,
            mappings: self.settings.mappings,
            buffers: Span {
                address: self.tables.first_address(),
                key: self.tables.remote_key().0,
                length: BUFFERS,
            },
            first: self.received(0..self.receive_buffer.len() / 2),
        }
    }

    /// A part of the receive buffer, as the peer is told of it.
    pub(super) fn received(&self, part: core::ops::Range<usize>) -> Span {
        Span {
            address: self.receive_buffer.first_address() + part.start as u64,
            key: self.receive_buffer.remote_key().0,
            length: part.len() as u32,
        }
    }

    fn parameters(&self) -> ConnectionParameters {
        ConnectionParameters {
            private_data: self.greeting().to_bytes().to_vec(),
            responder_resources: 1,
            initiator_depth: 1,
            flow_control: true,
            retry_count: RETRIES,
            rnr_retry_count: RETRIES,
            ..ConnectionParameters::default()
        }
    }
}

/// The context of a device, which all streams over it share.
fn context_of(device: &Arc<Device>) -> io::Result<Arc<Context>> {
    static OPEN: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(context) = open.iter().find(|context| Arc::ptr_eq(context.device(), device)) {
        return Ok(Arc::clone(context));
    }
    let context = Context::open(device).map_err(of)?;
    open.push(Arc::clone(&context));
    Ok(context)
}
