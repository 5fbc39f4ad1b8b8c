//! Builds nodes and connects queue pairs, before any other thread runs.

use super::{End, Keys, Node, SimCompletionQueue, Stage};
use crate::dice::Dice;
use crate::facade::SimFacade;
use crate::memory::NodeMemory;
use crate::model::Model;
use crate::port::{SimPort, SimSignal};
use crate::scenario::{ENTRIES_MAX, EndPlan, INLINE_MAX, Scenario, Span};
use crate::world::{World, address};
use converb_driver::{AsyncEvent, Channel, CompletionQueueHandle, Driver, Listener, NewQueuePair};
use converb_engine::iba::{AttributeMask, Attributes, Service, State};
use converb_engine::memory::{Access, ProtectionDomain, RegionSpec};
use converb_engine::{Address, AddressVector};
use converb_wire::{Psn, Qpn, Rkey};
use std::sync::{Arc, Mutex};

const DOMAIN: ProtectionDomain = ProtectionDomain(1);
const COMPLETIONS_MAX: usize = 4096;

/// Writes events into the trace; a full completion queue is a failure.
struct Witness(Arc<World>);

impl Listener for Witness {
    fn raise(&self, event: AsyncEvent) {
        self.0.log(|| format!("{event:?}"));
        if let AsyncEvent::CompletionQueueError { .. } = event {
            self.0.fail("a completion queue with room for everything overran".into());
        }
    }
}

impl Stage {
    /// Builds everything that a scenario names.
    pub fn build(scenario: &Arc<Scenario>, world: &Arc<World>) -> Arc<Self> {
        let mut dice = Dice::new(scenario.seed ^ 0x5eed);
        let sizes = memory_sizes(scenario);
        let initial: Vec<Vec<u8>> = sizes
            .iter()
            .map(|&size| {
                let mut bytes = vec![0; size];
                dice.fill(&mut bytes);
                bytes
            })
            .collect();
        let nodes: Vec<Node> = (0..scenario.nodes.len())
            .map(|node| build_node(scenario, world, node, &initial[node], &mut dice))
            .collect();
        let mut model = Model::new(scenario, initial);
        let listener: Arc<dyn Listener> = Arc::new(Witness(Arc::clone(world)));
        let ends: Vec<End> = scenario
            .ends
            .iter()
            .enumerate()
            .map(|(index, plan)| build_end(&nodes[plan.node], index, plan, &listener))
            .collect();
        for (index, end) in ends.iter().enumerate() {
            model.name(index, end.queue_pair.qpn().value());
            world.log(|| {
                let plan = &scenario.ends[index];
                let qpn = end.queue_pair.qpn().value();
                format!(
                    "end {index} is queue pair {qpn:06x} of node {}: {}",
                    plan.node,
                    Facts(plan)
                )
            });
            let peer = Scenario::peer(index);
            connect(
                &nodes[scenario.ends[index].node],
                scenario,
                index,
                end,
                ends[peer].queue_pair.qpn(),
            );
        }
        Arc::new(Self {
            scenario: Arc::clone(scenario),
            world: Arc::clone(world),
            model: Mutex::new(model),
            nodes,
            ends,
        })
    }
}

fn memory_sizes(scenario: &Scenario) -> Vec<usize> {
    let mut sizes = vec![4096; scenario.nodes.len()];
    for plan in &scenario.ends {
        let archive = plan.layout.archive;
        // Beyond the last region there is room for a bound that is not checked.
        sizes[plan.node] = sizes[plan.node].max((archive.start + archive.length) as usize + 256);
    }
    sizes
}

fn build_node(
    scenario: &Scenario,
    world: &Arc<World>,
    node: usize,
    initial: &[u8],
    dice: &mut Dice,
) -> Node {
    let memory = NodeMemory::new(initial.to_vec());
    let shape = scenario.nodes[node].shape;
    let driver =
        Driver::<SimPort, SimFacade>::new(SimPort::new(world, node, memory, dice.fork(), shape));
    let channel = Arc::new(Channel::new(SimSignal::new(world)));
    let listener: Arc<dyn Listener> = Arc::new(Witness(Arc::clone(world)));
    let count = dice.between(1, 2);
    let completion_queues: Vec<Arc<SimCompletionQueue>> = (0..count)
        .map(|cookie| {
            let channel = Some(Arc::clone(&channel));
            let listener = Arc::clone(&listener);
            Arc::new(CompletionQueueHandle::new(COMPLETIONS_MAX, channel, listener, cookie))
        })
        .collect();
    Node { driver, completion_queues, channel }
}

fn build_end(node: &Node, index: usize, plan: &EndPlan, listener: &Arc<dyn Listener>) -> End {
    let register = |span: Span, iova: u64, access: Access| -> Rkey {
        let spec = RegionSpec { address: span.address(0), length: span.length, iova, access };
        node.driver.register(DOMAIN, spec).expect("the table is not full, the range is right").key
    };
    let layout = &plan.layout;
    let remote = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
    let keys = Keys {
        source: register(layout.source, layout.source.address(0), Access::LOCAL_READ),
        results: register(layout.results, layout.results.address(0), Access::LOCAL_WRITE),
        window: register(layout.window, layout.window_iova, remote),
        archive: register(layout.archive, layout.archive.address(0), Access::REMOTE_READ),
    };
    let queues = &node.completion_queues;
    let new = NewQueuePair {
        service: Service::ReliableConnection,
        domain: DOMAIN,
        send_cq: Arc::clone(&queues[0]),
        receive_cq: Arc::clone(&queues[queues.len() - 1]),
        send_capacity: plan.send_capacity,
        shared_receives: None,
        receive_capacity: plan.receive_capacity,
        send_entries_max: ENTRIES_MAX,
        receive_entries_max: ENTRIES_MAX,
        inline_max: INLINE_MAX,
        port_mtu: 4096,
        signal_all: plan.signal_all,
        listener: Arc::clone(listener),
        cookie: index as u64,
    };
    let queue_pair = node.driver.create_queue_pair(new).expect("numbers are left");
    End { queue_pair, keys }
}

fn connect(node: &Node, scenario: &Scenario, index: usize, end: &End, destination: Qpn) {
    use AttributeMask as A;
    let (plan, peer) = (&scenario.ends[index], &scenario.ends[Scenario::peer(index)]);
    let path = AddressVector {
        local: Address::Lid(address(plan.node)),
        remote: Address::Lid(address(peer.node)),
        traffic_class: 0,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    };
    let attributes = Attributes {
        destination,
        path: Some(path),
        path_mtu: plan.mtu,
        receive_psn: Psn::new(peer.send_psn),
        send_psn: Psn::new(plan.send_psn),
        access: Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ),
        timeout: plan.timeout,
        retry_count: plan.retry_count,
        rnr_retry: plan.rnr_retry,
        min_rnr_timer: plan.min_rnr_timer,
        max_reads: plan.max_reads,
        max_destination_reads: peer.max_reads,
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
        let result = node.driver.modify(&end.queue_pair, &new, mask.with(A::STATE));
        result.expect("the attributes are complete and in range");
    }
}

/// The facts of an end that explain a trace.
struct Facts<'a>(&'a EndPlan);

impl std::fmt::Display for Facts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = self.0;
        write!(
            formatter,
            "MTU {}, first PSN {}, timeout {}, retries {}, RNR retries {}, RNR timer {}, READs {}, \
             queues {} and {}, window {:x} +{}",
            plan.mtu.bytes(),
            plan.send_psn,
            plan.timeout,
            plan.retry_count,
            plan.rnr_retry,
            plan.min_rnr_timer,
            plan.max_reads,
            plan.send_capacity,
            plan.receive_capacity,
            plan.layout.window_iova,
            plan.layout.window.length
        )
    }
}
