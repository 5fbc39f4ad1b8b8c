//! Two drivers, one connection, nothing lost, one thread: the first thing that has to work, and
//! the shortest way to see what a driver needs.

mod plain;

use converb_driver::{AsyncEvent, CompletionQueueHandle, Driver, Listener, NewQueuePair};
use converb_driver::{QueuePairHandle, Std};
use converb_engine::iba::{AttributeMask, Attributes, Mtu, Service, State};
use converb_engine::memory::{Access, ProtectionDomain, Region, RegionSpec};
use converb_engine::work::{Operation, Payload, ReceiveRequest, RemoteAddress, ScatterGather};
use converb_engine::work::{SendFlags, SendRequest};
use converb_engine::{Address, AddressVector, Completion, CompletionKind, Extra, Memory, Status};
use converb_wire::{Psn, Qpn};
use plain::{BASE, Cable, Count, PlainPort};
use std::sync::Arc;

const MEMORY: usize = 4 << 20;
const DOMAIN: ProtectionDomain = ProtectionDomain(1);

struct Quiet;

impl Listener for Quiet {
    fn raise(&self, event: AsyncEvent) {
        panic!("nothing should go wrong, but {event:?}");
    }
}

struct Node {
    driver: Arc<Driver<PlainPort, Std>>,
    completions: Arc<CompletionQueueHandle<Count, Std>>,
    queue_pair: Arc<QueuePairHandle<Count, Std>>,
    region: Region,
}

impl Node {
    fn new(cable: &Arc<Cable>, index: u16) -> Self {
        let driver = Driver::<PlainPort, Std>::new(PlainPort::new(cable, index, MEMORY));
        let listener: Arc<dyn Listener> = Arc::new(Quiet);
        let completions = CompletionQueueHandle::new(64, None, Arc::clone(&listener), 1);
        let completions = Arc::new(completions);
        let all = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
        let spec = RegionSpec { address: BASE, length: MEMORY as u64, iova: BASE, access: all };
        let region = driver.register(DOMAIN, spec).unwrap();
        let queue_pair = driver
            .create_queue_pair(NewQueuePair {
                service: Service::ReliableConnection,
                domain: DOMAIN,
                send_cq: Arc::clone(&completions),
                receive_cq: Arc::clone(&completions),
                send_capacity: 16,
                receive_capacity: 16,
                send_entries_max: 4,
                receive_entries_max: 4,
                inline_max: 64,
                shared_receives: None,
                port_mtu: 4096,
                signal_all: false,
                listener,
                cookie: 7,
            })
            .ok()
            .unwrap();
        Self { driver, completions, queue_pair, region }
    }

    fn connect(&self, index: u16, destination: Qpn, mtu: Mtu) {
        use AttributeMask as A;
        let all = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
        let path = AddressVector {
            local: Address::Lid(index),
            remote: Address::Lid(1 - index),
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            service_level: 0,
        };
        let own_psn = |index: u16| Psn::new(0x00ff_fff0 + u32::from(index));
        let attributes = Attributes {
            destination,
            path: Some(path),
            path_mtu: mtu,
            receive_psn: own_psn(1 - index),
            send_psn: own_psn(index),
            access: all,
            timeout: 14,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 12,
            max_reads: 4,
            max_destination_reads: 4,
            port: 1,
            ..Attributes::default()
        };
        let to_ready = A::PATH.with(A::PATH_MTU).with(A::DESTINATION).with(A::RECEIVE_PSN);
        let to_send = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY).with(A::MAX_READS);
        let steps = [
            (State::Init, A::PARTITION_KEY_INDEX.with(A::PORT).with(A::ACCESS_FLAGS)),
            (State::ReadyToReceive, to_ready.with(A::MAX_DESTINATION_READS).with(A::MIN_RNR_TIMER)),
            (State::ReadyToSend, to_send.with(A::SEND_PSN)),
        ];
        for (state, mask) in steps {
            let new = Attributes { state, ..attributes };
            self.driver.modify(&self.queue_pair, &new, mask.with(A::STATE)).unwrap();
        }
    }

    fn fill(&self, offset: u64, bytes: &[u8]) {
        self.driver.port_memory().write(BASE + offset, bytes).unwrap();
    }

    fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.driver.port_memory().read(BASE + offset, &mut bytes).unwrap();
        bytes
    }

    fn entry(&self, offset: u64, length: usize) -> ScatterGather {
        let address = BASE + offset;
        ScatterGather { address, length: length as u32, lkey: self.region.key.0 }
    }

    fn post(&self, wr_id: u64, operation: Operation, payload: Payload<'_>) {
        let flags = SendFlags { signaled: true, ..SendFlags::default() };
        let request = SendRequest { wr_id, operation, flags, payload, destination: None };
        self.driver.post_send(&self.queue_pair, &[request]).unwrap();
    }
}

/// The memory of a node, without naming the trait at each use.
trait PortMemory {
    fn port_memory(&self) -> &plain::Bytes;
}

impl PortMemory for Driver<PlainPort, Std> {
    fn port_memory(&self) -> &plain::Bytes {
        converb_driver::Port::memory(self.port())
    }
}

/// Polls both nodes in turn until each has given as many completions as expected.
fn run(cable: &Cable, nodes: [&Node; 2], expected: [usize; 2]) -> [Vec<Completion>; 2] {
    let mut seen = [Vec::new(), Vec::new()];
    for _ in 0..100_000 {
        for (node, seen) in nodes.iter().zip(&mut seen) {
            let mut completions = [Completion::default(); 8];
            let count = node.driver.poll(&node.completions, &mut completions);
            seen.extend_from_slice(&completions[..count]);
        }
        if seen[0].len() >= expected[0] && seen[1].len() >= expected[1] {
            break;
        }
        cable.pass(1_000);
    }
    assert_eq!([seen[0].len(), seen[1].len()], expected, "completions: {seen:?}");
    seen
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|index| (index * 7 + index / 251) as u8 ^ seed).collect()
}

fn pair(mtu: Mtu) -> (Arc<Cable>, [Node; 2]) {
    let cable = Arc::new(Cable::default());
    let nodes = [Node::new(&cable, 0), Node::new(&cable, 1)];
    nodes[0].connect(0, nodes[1].queue_pair.qpn(), mtu);
    nodes[1].connect(1, nodes[0].queue_pair.qpn(), mtu);
    (cable, nodes)
}

const SIZES: [usize; 4] = [0, 1, 4096 * 3 + 5, 1 << 20];

#[test]
fn send_write_and_read_move_bytes_of_every_size() {
    for mtu in [Mtu::Bytes256, Mtu::Bytes1024, Mtu::Bytes4096] {
        for size in SIZES {
            let (cable, [a, b]) = pair(mtu);
            let data = pattern(size, 0x5a);
            a.fill(64, &data);
            let receive = ReceiveRequest { wr_id: 100, scatter: &[b.entry(64, size)] };
            b.driver.post_receive(&b.queue_pair, &[receive]).unwrap();
            a.post(1, Operation::SendWithImmediate(0xfeed), Payload::Gather(&[a.entry(64, size)]));
            let [sent, received] = run(&cable, [&a, &b], [1, 1]);
            assert_eq!((sent[0].wr_id, sent[0].status), (1, Status::Success));
            assert_eq!((received[0].wr_id, received[0].byte_length), (100, size as u32));
            assert_eq!(received[0].extra, Extra::Immediate(0xfeed));
            assert_eq!(b.bytes(64, size), data, "SEND of {size} bytes, {mtu:?}");
            assert_eq!(b.bytes(0, 64), [0; 64]);
            assert_eq!(b.bytes(64 + size as u64, 64), [0; 64]);

            let there = (2 << 20) + 3;
            let remote = RemoteAddress { address: BASE + there, rkey: b.region.key };
            a.post(2, Operation::Write(remote), Payload::Gather(&[a.entry(64, size)]));
            let [written, _] = run(&cable, [&a, &b], [1, 0]);
            assert_eq!(
                (written[0].status, written[0].kind),
                (Status::Success, CompletionKind::Write)
            );
            assert_eq!(b.bytes(there, size), data, "WRITE of {size} bytes, {mtu:?}");

            a.post(3, Operation::Read(remote), Payload::Gather(&[a.entry(there, size)]));
            let [read, _] = run(&cable, [&a, &b], [1, 0]);
            assert_eq!((read[0].status, read[0].kind), (Status::Success, CompletionKind::Read));
            assert_eq!(a.bytes(there, size), data, "READ of {size} bytes, {mtu:?}");
        }
    }
}

#[test]
fn inline_bytes_may_change_after_posting() {
    let (cable, [a, b]) = pair(Mtu::Bytes1024);
    let remote = RemoteAddress { address: BASE + 8, rkey: b.region.key };
    let mut bytes = *b"inline";
    a.post(1, Operation::Write(remote), Payload::Inline(&[&bytes[..2], &bytes[2..]]));
    bytes.fill(0);
    run(&cable, [&a, &b], [1, 0]);
    assert_eq!(b.bytes(8, 6), b"inline");
}

#[test]
fn a_queue_of_work_is_done_in_order() {
    let (cable, [a, b]) = pair(Mtu::Bytes512);
    let data = pattern(3000, 1);
    a.fill(0, &data);
    for round in 0..20 {
        for index in 0..16u64 {
            let remote = RemoteAddress { address: BASE + 4096, rkey: b.region.key };
            let list = [a.entry(0, 1000), a.entry(1000, 2000)];
            let operation = match index % 2 {
                0 => Operation::Write(remote),
                _ => Operation::Read(remote),
            };
            a.post(round * 16 + index, operation, Payload::Gather(&list));
        }
        let [done, _] = run(&cable, [&a, &b], [16, 0]);
        let numbers: Vec<u64> = done.iter().map(|completion| completion.wr_id).collect();
        assert_eq!(numbers, (round * 16..round * 16 + 16).collect::<Vec<_>>());
        assert!(done.iter().all(|completion| completion.status == Status::Success));
        assert_eq!(b.bytes(4096, 3000), data);
    }
}
