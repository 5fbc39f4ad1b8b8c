//! Builds nodes and connects queue pairs, before any other thread runs.

use super::connect::connect;
use super::{End, Events, Keys, Node, SimCompletionQueue, Stage};
use crate::dice::Dice;
use crate::facade::SimFacade;
use crate::memory::NodeMemory;
use crate::model::Model;
use crate::port::{SimPort, SimSignal};
use crate::scenario::{ENTRIES_MAX, EndPlan, INLINE_MAX, Scenario, Span};
use crate::world::World;
use converb_driver::{
    Channel, CompletionQueueHandle, Driver, Listener, NewQueuePair, ReceiveQueue,
};
use converb_engine::iba::Service;
use converb_engine::memory::{Access, ProtectionDomain, RegionSpec};
use converb_wire::Rkey;
use std::sync::{Arc, Mutex};

const DOMAIN: ProtectionDomain = ProtectionDomain(1);
const COMPLETIONS_MAX: usize = 4096;

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
        let events = Arc::new(Events::new(world));
        let listener: Arc<dyn Listener> = Arc::clone(&events) as _;
        let nodes: Vec<Node> = (0..scenario.nodes.len())
            .map(|node| build_node(scenario, world, node, &initial[node], &listener, &mut dice))
            .collect();
        let mut model = Model::new(scenario, initial);
        let mut ends: Vec<End> = Vec::new();
        for (index, plan) in scenario.ends.iter().enumerate() {
            // The owner of a shared queue comes before the others.
            let shared = ends.get(plan.takes_from).and_then(|owner| owner.shared.clone());
            ends.push(build_end(&nodes[plan.node], index, plan, shared, &listener));
        }
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
            events,
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
    for (size, words) in sizes.iter_mut().zip(&scenario.words) {
        *size = (*size).max((words.start + words.length) as usize + 256);
    }
    sizes
}

fn build_node(
    scenario: &Scenario,
    world: &Arc<World>,
    node: usize,
    initial: &[u8],
    listener: &Arc<dyn Listener>,
    dice: &mut Dice,
) -> Node {
    let memory = NodeMemory::new(initial.to_vec());
    let shape = scenario.nodes[node].shape;
    let port = SimPort::new(world, node, scenario.family, memory, dice.fork(), shape);
    let driver = Driver::<SimPort, SimFacade>::new(port);
    let channel = Arc::new(Channel::new(SimSignal::new(world)));
    let count = dice.between(1, 2);
    let completion_queues: Vec<Arc<SimCompletionQueue>> = (0..count)
        .map(|cookie| {
            let channel = Some(Arc::clone(&channel));
            let listener = Arc::clone(listener);
            Arc::new(CompletionQueueHandle::new(COMPLETIONS_MAX, channel, listener, cookie))
        })
        .collect();
    let words = scenario.words[node];
    let words = (words.length != 0).then(|| {
        let access = Access::LOCAL_WRITE.with(Access::REMOTE_ATOMIC);
        register(&driver, words, words.address(0), access)
    });
    Node { driver, completion_queues, channel, words: words.unwrap_or_default() }
}

fn register(driver: &Driver<SimPort, SimFacade>, span: Span, iova: u64, access: Access) -> Rkey {
    let spec = RegionSpec { address: span.address(0), length: span.length, iova, access };
    driver.register(DOMAIN, spec).expect("the table is not full, the range is right").key
}

fn build_end(
    node: &Node,
    index: usize,
    plan: &EndPlan,
    shared: Option<Arc<ReceiveQueue<SimFacade>>>,
    listener: &Arc<dyn Listener>,
) -> End {
    let register = |span, iova, access| register(&node.driver, span, iova, access);
    let layout = &plan.layout;
    let remote = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
    let keys = Keys {
        source: register(layout.source, layout.source.address(0), Access::LOCAL_READ),
        results: register(layout.results, layout.results.address(0), Access::LOCAL_WRITE),
        window: register(layout.window, layout.window_iova, remote),
        archive: register(layout.archive, layout.archive.address(0), Access::REMOTE_READ),
    };
    let own_shared = plan.shared.map(|_| {
        let (capacity, listener) = (plan.receive_capacity, Arc::clone(listener));
        Arc::new(ReceiveQueue::shared(capacity, ENTRIES_MAX, listener, index as u64))
    });
    let shared = own_shared.or(shared);
    let queues = &node.completion_queues;
    let new = NewQueuePair {
        service: plan.service,
        domain: DOMAIN,
        send_cq: Arc::clone(&queues[0]),
        receive_cq: Arc::clone(&queues[queues.len() - 1]),
        send_capacity: plan.send_capacity,
        shared_receives: shared.clone(),
        receive_capacity: plan.receive_capacity,
        send_entries_max: ENTRIES_MAX,
        receive_entries_max: ENTRIES_MAX,
        inline_max: INLINE_MAX,
        port_mtu: plan.port_mtu,
        signal_all: plan.signal_all,
        listener: Arc::clone(listener),
        cookie: index as u64,
    };
    let queue_pair = node.driver.create_queue_pair(new).expect("numbers are left");
    End { queue_pair, keys, shared }
}

/// The facts of an end that explain a trace.
struct Facts<'a>(&'a EndPlan);

impl std::fmt::Display for Facts<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let plan = self.0;
        write!(
            formatter,
            "{:?}, MTU {}, first PSN {}, timeout {}, retries {}, RNR retries {}, RNR timer {}, \
             READs {}, queues {} and {}, window {:x} +{}",
            plan.service,
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
        )?;
        if plan.service == Service::UnreliableDatagram {
            write!(formatter, ", datagrams up to {}, Q_Key {:x}", plan.port_mtu, plan.queue_key)?;
        }
        match plan.shared {
            Some(limit) => write!(formatter, ", shares its receives, limit {limit}"),
            None => Ok(()),
        }
    }
}
