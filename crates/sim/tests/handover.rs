//! The small concurrent parts of the driver alone, under many schedules: every posted work is
//! sent, whoever sends it; every event of a channel is taken once; what a full network leaves
//! behind is sent later.

mod plain;

use converb_driver::{AsyncEvent, Channel, CompletionQueueHandle, Driver, Listener, NewQueuePair};
use converb_driver::{Port, QueuePairHandle};
use converb_engine::iba::{AttributeMask, Attributes, Mtu, Service, State};
use converb_engine::memory::{Access, ProtectionDomain, RegionSpec};
use converb_engine::work::{Operation, Payload, RemoteAddress, SendFlags, SendRequest};
use converb_engine::{Address, AddressVector, Completion, Memory, Status};
use converb_sim::SimFacade;
use converb_wire::{Psn, Qpn, Rkey};
use plain::{BASE, Cable, Count, PlainPort};
use std::sync::Arc;

const SCHEDULES: usize = 300;
const DOMAIN: ProtectionDomain = ProtectionDomain(1);
const PRIORITY_CHANGES: usize = 3;
const COOKIE: u64 = 9;

struct Quiet;

impl Listener for Quiet {
    fn raise(&self, _: AsyncEvent) {}
}

type SimDriver = Driver<PlainPort, SimFacade>;
type SimQueuePair = QueuePairHandle<Count, SimFacade>;

struct Node {
    driver: Arc<SimDriver>,
    completions: Arc<CompletionQueueHandle<Count, SimFacade>>,
    queue_pair: Arc<SimQueuePair>,
    channel: Arc<Channel<Count, SimFacade>>,
    key: Rkey,
}

fn node(cable: &Arc<Cable>, index: u16) -> Node {
    let driver = SimDriver::new(PlainPort::new(cable, index, 4096));
    let listener: Arc<dyn Listener> = Arc::new(Quiet);
    let channel = Arc::new(Channel::new(Count::default()));
    let raises = Some(Arc::clone(&channel));
    let completions = CompletionQueueHandle::new(64, raises, Arc::clone(&listener), COOKIE);
    let completions = Arc::new(completions);
    let access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);
    let spec = RegionSpec { address: BASE, length: 4096, iova: BASE, access };
    let key = driver.register(DOMAIN, spec).unwrap().key;
    let new = NewQueuePair {
        service: Service::ReliableConnection,
        domain: DOMAIN,
        send_cq: Arc::clone(&completions),
        receive_cq: Arc::clone(&completions),
        send_capacity: 16,
        shared_receives: None,
        receive_capacity: 1,
        send_entries_max: 1,
        receive_entries_max: 1,
        inline_max: 8,
        port_mtu: 4096,
        signal_all: true,
        listener,
        cookie: 0,
    };
    let queue_pair = driver.create_queue_pair(new).unwrap();
    Node { driver, completions, queue_pair, channel, key }
}

fn connect(node: &Node, index: u16, destination: Qpn) {
    use AttributeMask as A;
    let path = AddressVector {
        local: Address::Lid(index),
        remote: Address::Lid(1 - index),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    };
    let attributes = Attributes {
        destination,
        path: Some(path),
        path_mtu: Mtu::Bytes256,
        receive_psn: Psn::new(5),
        send_psn: Psn::new(5),
        access: Access::LOCAL_WRITE.with(Access::REMOTE_WRITE),
        timeout: 14,
        retry_count: 7,
        rnr_retry: 7,
        min_rnr_timer: 12,
        max_reads: 1,
        max_destination_reads: 1,
        port: 1,
        ..Attributes::default()
    };
    let receive = A::PATH.with(A::PATH_MTU).with(A::DESTINATION).with(A::RECEIVE_PSN);
    let send = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY).with(A::MAX_READS);
    let steps = [
        (State::Init, A::PARTITION_KEY_INDEX.with(A::PORT).with(A::ACCESS_FLAGS)),
        (State::ReadyToReceive, receive.with(A::MAX_DESTINATION_READS).with(A::MIN_RNR_TIMER)),
        (State::ReadyToSend, send.with(A::SEND_PSN)),
    ];
    for (state, mask) in steps {
        let new = Attributes { state, ..attributes };
        node.driver.modify(&node.queue_pair, &new, mask.with(A::STATE)).unwrap();
    }
}

fn pair(cable: &Arc<Cable>) -> [Arc<Node>; 2] {
    let nodes = [node(cable, 0), node(cable, 1)];
    connect(&nodes[0], 0, nodes[1].queue_pair.qpn());
    connect(&nodes[1], 1, nodes[0].queue_pair.qpn());
    nodes.map(Arc::new)
}

/// Writes one byte, `value`, to place `value` of the peer.
fn write(from: &Node, to: Rkey, value: u8) {
    let remote = RemoteAddress { address: BASE + u64::from(value), rkey: to };
    let request = SendRequest {
        wr_id: u64::from(value),
        operation: Operation::Write(remote),
        flags: SendFlags::default(),
        payload: Payload::Inline(&[&[value]]),
        destination: None,
    };
    from.driver.post_send(&from.queue_pair, &[request]).unwrap();
}

fn take(node: &Node) -> usize {
    let mut completions = [Completion::default(); 16];
    let count = node.driver.poll(&node.completions, &mut completions);
    assert!(completions[..count].iter().all(|completion| completion.status == Status::Success));
    count
}

/// Two threads post while a third polls: whoever finds the queue pair busy leaves its work to the
/// owner, and none of it is forgotten. No timer helps, for time stands still.
#[test]
fn work_left_to_the_owner_of_a_queue_pair_is_done() {
    let check = || {
        let cable = Arc::new(Cable::default());
        let [here, there] = pair(&cable);
        let posters: Vec<_> = [[1, 2], [3, 4]]
            .into_iter()
            .map(|values| {
                let (here, key) = (Arc::clone(&here), there.key);
                shuttle::thread::spawn(move || {
                    for value in values {
                        write(&here, key, value);
                    }
                })
            })
            .collect();
        let poller = {
            let here = Arc::clone(&here);
            shuttle::thread::spawn(move || (0..3).map(|_| take(&here)).sum::<usize>())
        };
        for poster in posters {
            poster.join().unwrap();
        }
        let mut completed = poller.join().unwrap();
        // Count posts any more: all that is left is for packets to be answered.
        for _ in 0..20 {
            take(&there);
            completed += take(&here);
        }
        assert_eq!(completed, 4);
        let mut bytes = [0; 5];
        there.driver.port().memory().read(BASE, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 2, 3, 4]);
    };
    shuttle::check_random(check, SCHEDULES);
    shuttle::check_pct(check, SCHEDULES, PRIORITY_CHANGES);
}

/// While the network is full nobody sends, and everything is sent in order when it is not.
#[test]
fn what_a_full_network_leaves_behind_is_sent_later() {
    let check = || {
        let cable = Arc::new(Cable::default());
        let [here, there] = pair(&cable);
        cable.fill(0, true);
        let posters: Vec<_> = [[1, 2], [3, 4]]
            .into_iter()
            .map(|values| {
                let (here, key) = (Arc::clone(&here), there.key);
                shuttle::thread::spawn(move || {
                    for value in values {
                        write(&here, key, value);
                    }
                })
            })
            .collect();
        let opener = {
            let (cable, here) = (Arc::clone(&cable), Arc::clone(&here));
            shuttle::thread::spawn(move || {
                take(&here);
                cable.fill(0, false);
                take(&here)
            })
        };
        for poster in posters {
            poster.join().unwrap();
        }
        let mut completed = opener.join().unwrap();
        for _ in 0..20 {
            completed += take(&here);
            take(&there);
        }
        assert_eq!(completed, 4);
    };
    shuttle::check_random(check, SCHEDULES);
    shuttle::check_pct(check, SCHEDULES, PRIORITY_CHANGES);
}

/// The event is there before the signal is raised, and each is taken by one waiter alone.
#[test]
fn every_event_of_a_channel_is_taken_once() {
    let check = || {
        let cable = Arc::new(Cable::default());
        let [here, there] = pair(&cable);
        let seen: Vec<_> = (0..2)
            .map(|_| {
                let here = Arc::clone(&here);
                shuttle::thread::spawn(move || (0..4).filter(|_| take_event(&here)).count())
            })
            .collect();
        for value in 1..=3 {
            here.completions.arm(false);
            write(&here, there.key, value);
            take(&there);
            here.driver.drain();
        }
        let mut events: usize = seen.into_iter().map(|waiter| waiter.join().unwrap()).sum();
        while take_event(&here) {
            events += 1;
        }
        assert_eq!(events, 3);
        assert_eq!(here.channel.take_event(), None);
    };
    shuttle::check_random(check, SCHEDULES);
    shuttle::check_pct(check, SCHEDULES, PRIORITY_CHANGES);
}

fn take_event(node: &Node) -> bool {
    // A waiter gives way, as one that waits for a descriptor does.
    shuttle::thread::yield_now();
    let raised = node.channel.signal().take();
    if raised {
        assert_eq!(node.channel.take_event(), Some(COOKIE), "a signal without an event");
    }
    raised
}
