//! Two drivers with a connected queue pair each, run in turn by one thread, so that what they do
//! can be counted.

mod counting_port;

use converb_driver::*;
use converb_engine::iba::*;
use converb_engine::memory::{Access, ProtectionDomain, Region, RegionSpec};
use converb_engine::work::*;
use converb_engine::{Address, AddressVector, Completion, CompletionKind, Status};
use converb_link::{EventSignal, Settings, Slot, UdpPort};
use core::net::Ipv4Addr;
use counting_port::CountingPort;
use std::net::UdpSocket;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

type Handle = Arc<QueuePairHandle<EventSignal, Std>>;

/// How completions are waited for.
#[derive(Clone, Copy, PartialEq)]
pub enum How {
    Poll,
    Event,
}

/// One end of the connection.
pub struct End {
    pub driver: Arc<Driver<CountingPort, Std>>,
    pub region: Region,
    channel: Arc<Channel<EventSignal, Std>>,
    queue: Arc<CompletionQueueHandle<EventSignal, Std>>,
    queue_pair: Handle,
    memory: Vec<u64>,
}

/// Both ends.
pub struct Ends {
    pub client: End,
    pub server: End,
    service: Service,
}

struct Silent;

impl Listener for Silent {
    fn raise(&self, event: AsyncEvent) {
        panic!("no event is expected: {event:?}");
    }
}

const DOMAIN: ProtectionDomain = ProtectionDomain(1);
const MEMORY_BYTES: usize = 128 << 10;
const QUEUE_KEY: u32 = 0x1111;

fn route() -> AddressVector {
    let here = Address::Udp { ip: Ipv4Addr::LOCALHOST.to_ipv6_mapped(), scope: 0 };
    AddressVector {
        local: here,
        remote: here,
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

impl End {
    fn new(port: u16, peer: u16, slot: u16, service: Service) -> Self {
        let socket = UdpSocket::bind(("127.0.0.1", port)).expect("the port is free").into();
        let settings = Settings { destination_port: peer, ..Settings::default() };
        let inner = UdpPort::new(vec![Slot { index: slot, socket }], settings).expect("a port");
        let driver = Driver::new(CountingPort::new(inner));
        let channel = Arc::new(Channel::new(EventSignal::new().expect("a descriptor")));
        let listener: Arc<dyn Listener> = Arc::new(Silent);
        let events = Some(Arc::clone(&channel));
        let queue = CompletionQueueHandle::new(64, events, Arc::clone(&listener), 1);
        let queue = Arc::new(queue);
        let new = NewQueuePair {
            service,
            domain: DOMAIN,
            send_cq: Arc::clone(&queue),
            receive_cq: Arc::clone(&queue),
            send_capacity: 16,
            shared_receives: None,
            receive_capacity: 16,
            send_entries_max: 1,
            receive_entries_max: 1,
            inline_max: 0,
            port_mtu: 4096,
            signal_all: true,
            listener,
            cookie: 1,
        };
        let queue_pair = driver.create_queue_pair(new).expect("a queue pair");
        let memory = vec![0u64; MEMORY_BYTES / 8];
        let address = memory.as_ptr().expose_provenance() as u64;
        let (length, access) = (MEMORY_BYTES as u64, Access(0b1111));
        let spec = RegionSpec { address, length, iova: address, access };
        let region = driver.register(DOMAIN, spec).expect("a region");
        Self { driver, region, channel, queue, queue_pair, memory }
    }

    pub fn address(&self) -> u64 {
        self.memory.as_ptr().expose_provenance() as u64
    }

    fn piece(&self, length: u32) -> [ScatterGather; 1] {
        [ScatterGather { address: self.address(), length, lkey: self.region.key.0 }]
    }

    fn start(&self, peer: &Self, service: Service) {
        use AttributeMask as A;
        let attributes = Attributes {
            port: 1,
            access: Access(0b1111),
            queue_key: QUEUE_KEY,
            path: Some(route()),
            path_mtu: Mtu::Bytes4096,
            destination: peer.queue_pair.qpn(),
            max_reads: 16,
            max_destination_reads: 16,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            ..Attributes::default()
        };
        let states = [State::Init, State::ReadyToReceive, State::ReadyToSend];
        for (from, to) in [State::Reset, State::Init, State::ReadyToReceive].into_iter().zip(states)
        {
            let mask: A = transition(service, from, to).expect("a change").required.with(A::STATE);
            let attributes = Attributes { state: to, ..attributes };
            self.driver.modify(&self.queue_pair, &attributes, mask).expect("it changes");
        }
    }

    /// Takes one completion, which must be a success; the peer goes on meanwhile.
    fn complete(&self, how: How, peer: &Self) {
        let mut completion = [Completion::default()];
        if how == How::Event {
            self.driver.wait_event(&self.channel, &|| false);
            self.channel.signal().take().expect("it was raised");
            assert!(self.channel.take_event().is_some());
        }
        while self.driver.poll(&self.queue, &mut completion) == 0 {
            peer.driver.drain();
        }
        assert_eq!(completion[0].status, Status::Success, "{:?}", completion[0]);
    }
}

impl Ends {
    /// Ends at two UDP ports from `port` on.
    pub fn new(port: u16, service: Service) -> Self {
        let client = End::new(port, port + 1, 1, service);
        let server = End::new(port + 1, port, 2, service);
        client.start(&server, service);
        server.start(&client, service);
        Self { client, server, service }
    }

    /// One operation from the client, until both ends have seen its completions.
    pub fn run(&self, how: How, length: u32, operation: Operation) {
        let receives = matches!(operation, Operation::Send);
        let is_datagram = self.service == Service::UnreliableDatagram;
        if receives {
            let room = if is_datagram { length + 40 } else { length };
            let scatter = self.server.piece(room);
            let request = ReceiveRequest { wr_id: 0, scatter: &scatter };
            self.server.driver.post_receive(&self.server.queue_pair, &[request]).expect("posted");
        }
        if how == How::Event {
            self.server.queue.arm(false);
        }
        let gather = self.client.piece(length);
        let destination = is_datagram.then(|| DatagramDestination {
            path: route(),
            qpn: self.server.queue_pair.qpn(),
            queue_key: QUEUE_KEY,
        });
        let request = SendRequest {
            wr_id: 0,
            operation,
            flags: SendFlags::default(),
            payload: Payload::Gather(&gather),
            destination,
        };
        self.client.driver.post_send(&self.client.queue_pair, &[request]).expect("posted");
        if receives {
            self.server.complete(how, &self.client);
        } else {
            self.server.driver.drain();
        }
        self.client.complete(How::Poll, &self.server);
    }

    /// A message from the client, and the server's reply as soon as it has it; both only poll.
    pub fn ping_pong(&self, length: u32) {
        for (from, to) in [(&self.client, &self.server), (&self.server, &self.client)] {
            let scatter = to.piece(length);
            let request = ReceiveRequest { wr_id: 0, scatter: &scatter };
            to.driver.post_receive(&to.queue_pair, &[request]).expect("posted");
            let gather = from.piece(length);
            let request = SendRequest {
                wr_id: 0,
                operation: Operation::Send,
                flags: SendFlags::default(),
                payload: Payload::Gather(&gather),
                destination: None,
            };
            from.driver.post_send(&from.queue_pair, &[request]).expect("posted");
            let mut completion = [Completion::default()];
            while completion[0].kind != CompletionKind::Receive {
                to.driver.poll(&to.queue, &mut completion);
                assert_eq!(completion[0].status, Status::Success, "{:?}", completion[0]);
            }
        }
    }

    /// Runs `body` while the progress threads of both ends are there.
    pub fn with_progress(&self, body: impl FnOnce()) {
        std::thread::scope(|scope| {
            let drivers = [&self.client.driver, &self.server.driver];
            for driver in drivers {
                scope.spawn(|| driver.run_progress());
            }
            let result = catch_unwind(AssertUnwindSafe(body));
            drivers.iter().for_each(|driver| driver.stop());
            if let Err(panic) = result {
                resume_unwind(panic);
            }
        });
    }
}
