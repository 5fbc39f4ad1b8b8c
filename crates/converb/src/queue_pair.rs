//! Queue pairs.

use crate::attributes::DeviceAttributes;
use crate::completion_queue::CompletionQueue;
use crate::error::Error;
use crate::events::Element;
use crate::heritage::{self, Lost};
use crate::memory_region::RuntimeRef;
use crate::protection_domain::ProtectionDomain;
use crate::runtime::{Driver, QueuePairHandle, Runtime};
use crate::shared_receive_queue::SharedReceiveQueue;
use converb_driver::{NewQueuePair, Port};
use converb_engine::iba::{AttributeMask, Attributes, ModifyError, Service, State};
use converb_engine::work::{PostError, ReceiveRequest, SendRequest};
use converb_wire::{Psn, Qpn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// How large the queues of a queue pair are (`struct ibv_qp_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacities {
    /// Send work requests.
    pub sends: u32,
    /// Receives.
    pub receives: u32,
    /// Scatter-gather entries of a send work request.
    pub send_entries: u32,
    /// Scatter-gather entries of a receive.
    pub receive_entries: u32,
    /// Inline bytes of a send work request.
    pub inline_bytes: u32,
}

impl Default for Capacities {
    fn default() -> Self {
        Self { sends: 128, receives: 128, send_entries: 4, receive_entries: 4, inline_bytes: 64 }
    }
}

impl Capacities {
    /// With room for inline data where adapters have it for nothing: in the place of the
    /// scatter-gather entries. Programs send a few bytes inline without having asked for it.
    fn with_usual_inline(self) -> Self {
        let usual = self.send_entries.saturating_mul(ENTRY_BYTES);
        let usual = usual.min(DeviceAttributes::ALL.max_inline_bytes);
        Self { inline_bytes: self.inline_bytes.max(usual), ..self }
    }
}

/// A scatter-gather entry in a work request: address, length and key.
const ENTRY_BYTES: u32 = 16;

/// What a queue pair is created with.
#[derive(Clone, Debug)]
pub struct QueuePairOptions {
    /// Where send work requests complete.
    pub send_queue: Arc<CompletionQueue>,
    /// Where receives complete.
    pub receive_queue: Arc<CompletionQueue>,
    /// Where receives come from instead of a queue of its own.
    pub shared_receives: Option<Arc<SharedReceiveQueue>>,
    /// The service it gives.
    pub service: Service,
    /// How large the queues are.
    pub capacities: Capacities,
    /// Whether every send work request asks for a completion.
    pub signal_all: bool,
    /// The number that names it among asynchronous events.
    pub number: u64,
}

impl QueuePairOptions {
    /// A reliable connection of the usual size, whose work requests all complete in `queue`.
    pub fn reliable(queue: &Arc<CompletionQueue>) -> Self {
        Self {
            service: Service::ReliableConnection,
            send_queue: Arc::clone(queue),
            receive_queue: Arc::clone(queue),
            shared_receives: None,
            capacities: Capacities::default(),
            signal_all: true,
            number: 0,
        }
    }
}

/// A queue pair. Dropping it ends what is under way.
pub struct QueuePair {
    domain: Arc<ProtectionDomain>,
    runtime: RuntimeRef,
    /// The runtime that has it: another one after a fork child has taken it over.
    home: AtomicPtr<Runtime>,
    options: QueuePairOptions,
    handle: Arc<QueuePairHandle>,
    is_closed: AtomicBool,
    first_psn: Psn,
}

impl QueuePair {
    /// A new queue pair, in the state RESET.
    ///
    /// # Errors
    /// `Invalid` for capacities beyond the device's or queues of another context, `TooMany`, or why
    /// the network cannot be joined.
    pub fn new(
        domain: &Arc<ProtectionDomain>,
        options: QueuePairOptions,
    ) -> Result<Arc<Self>, Error> {
        let limits = DeviceAttributes::ALL;
        let options =
            QueuePairOptions { capacities: options.capacities.with_usual_inline(), ..options };
        let capacities = options.capacities;
        if capacities.sends > limits.max_work_requests
            || capacities.receives > limits.max_work_requests
            || capacities.send_entries > limits.max_scatter_gather
            || capacities.receive_entries > limits.max_scatter_gather
            || capacities.inline_bytes > limits.max_inline_bytes
        {
            return Err(Error::Invalid("a queue's capacity is beyond the device's"));
        }
        let shared = options.shared_receives.as_ref();
        let is_ours = |context| Arc::ptr_eq(context, domain.context());
        if !is_ours(options.send_queue.context())
            || !is_ours(options.receive_queue.context())
            || !shared.is_none_or(|shared| is_ours(shared.context()))
        {
            return Err(Error::Invalid("a queue belongs to a device that was opened another time"));
        }
        let runtime = Runtime::get()?;
        runtime.start_threads()?;
        runtime.count_for(domain.context().device().name());
        let first_psn = Psn::new(runtime.check()?.port().random() as u32);
        let handle = runtime
            .check()?
            .create_queue_pair(NewQueuePair {
                service: options.service,
                domain: domain.key(),
                send_cq: Arc::clone(options.send_queue.handle()),
                receive_cq: Arc::clone(options.receive_queue.handle()),
                send_capacity: capacities.sends as usize,
                receive_capacity: capacities.receives as usize,
                send_entries_max: capacities.send_entries as usize,
                receive_entries_max: capacities.receive_entries as usize,
                inline_max: capacities.inline_bytes as usize,
                shared_receives: shared.map(|queue| Arc::clone(queue.handle())),
                port_mtu: domain.context().device().port().active_mtu.bytes(),
                signal_all: options.signal_all,
                listener: Arc::clone(domain.context().events()) as _,
                cookie: options.number,
            })
            .map_err(|_| Error::TooMany("queue pairs"))?;
        Ok(Arc::new(Self {
            domain: Arc::clone(domain),
            runtime: RuntimeRef(runtime),
            home: AtomicPtr::new(core::ptr::from_ref(runtime).cast_mut()),
            options,
            handle,
            is_closed: AtomicBool::new(false),
            first_psn,
        }))
    }

    /// The domain it belongs to.
    pub fn domain(&self) -> &Arc<ProtectionDomain> {
        &self.domain
    }

    /// What it was created with.
    pub fn options(&self) -> &QueuePairOptions {
        &self.options
    }

    /// Its number, by which peers address it.
    pub fn qpn(&self) -> Qpn {
        self.handle.qpn()
    }

    /// A first sequence number for it, drawn when it was created.
    pub(crate) fn first_psn(&self) -> Psn {
        self.first_psn
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.handle.state()
    }

    /// Changes its state and attributes (`ibv_modify_qp`).
    ///
    /// # Errors
    /// `Modify` says which rule the arguments break; `Forked`.
    pub fn modify(&self, attributes: &Attributes, mask: AttributeMask) -> Result<(), Error> {
        let driver = self.driver()?;
        let most = DeviceAttributes::ALL.max_reads;
        for (bit, depth) in [
            (AttributeMask::MAX_READS, attributes.max_reads),
            (AttributeMask::MAX_DESTINATION_READS, attributes.max_destination_reads),
        ] {
            if mask.contains(bit) && depth > most {
                return Err(Error::Modify(ModifyError::BadValue(bit)));
            }
        }
        driver.modify(&self.handle, attributes, mask).map_err(Error::Modify)
    }

    /// Its attributes.
    ///
    /// # Errors
    /// `Forked`.
    pub fn query(&self) -> Result<Attributes, Error> {
        Ok(self.driver()?.query(&self.handle))
    }

    /// Posts send work requests.
    ///
    /// # Errors
    /// The index of the first that was not taken, and why; those before it were.
    pub fn post_send(&self, requests: &[SendRequest<'_>]) -> Result<(), (usize, Error)> {
        let driver = self.driver().map_err(|error| (0, error))?;
        driver.post_send(&self.handle, requests).map_err(not_taken)
    }

    /// Posts receives.
    ///
    /// # Errors
    /// The index of the first that was not taken, and why; those before it were.
    pub fn post_receive(&self, requests: &[ReceiveRequest<'_>]) -> Result<(), (usize, Error)> {
        let driver = self.driver().map_err(|error| (0, error))?;
        driver.post_receive(&self.handle, requests).map_err(not_taken)
    }

    /// The runtime of this process that has it, if it is here.
    fn current_home(&self) -> Option<&'static Runtime> {
        // SAFETY: the pointer is to a runtime, which is never freed.
        let home = unsafe { &*self.home.load(Ordering::Acquire) };
        if home.is_ours() {
            return Some(home);
        }
        // Polling takes over as well.
        let current = Runtime::current()?;
        let found = current.driver().find_queue_pair(self.qpn())?;
        Arc::ptr_eq(&found, &self.handle).then_some(current)
    }

    /// The driver that has it; in a fork child it is taken over the first time.
    fn driver(&self) -> Result<&'static Driver, Error> {
        let home = match self.current_home() {
            Some(home) => home,
            None => {
                // SAFETY: the pointer is to a runtime, which is never freed.
                let maker = unsafe { &*self.home.load(Ordering::Acquire) };
                heritage::take_over(maker, &self.handle, false)?
            }
        };
        // It is the same nearly always, and the line stays shared.
        if !core::ptr::eq(self.home.load(Ordering::Relaxed), home) {
            self.home.store(core::ptr::from_ref(home).cast_mut(), Ordering::Release);
        }
        if self.handle.is_handed_on() { Err(Lost::InUse.into()) } else { Ok(home.driver()) }
    }

    /// Ends what is under way, and takes back the events about this queue pair that nobody has
    /// read. Dropping it does the same.
    pub fn close(&self) {
        // Its number may belong to another queue pair afterwards, so this happens once.
        if self.is_closed.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(runtime) = self.current_home() {
            runtime.driver().destroy(&self.handle);
            runtime.publish_counters();
            if !self.runtime.0.is_ours() {
                heritage::give_back(runtime, self.qpn());
            }
        }
        self.domain.context().events().withdraw(Element::QueuePair(self.options.number));
    }
}

fn not_taken((index, error): (usize, PostError)) -> (usize, Error) {
    (index, Error::Post(error))
}

impl core::fmt::Debug for QueuePair {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter
            .debug_struct("QueuePair")
            .field("qpn", &self.qpn())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.close();
    }
}
