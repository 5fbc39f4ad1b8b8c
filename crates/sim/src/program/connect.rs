//! Brings queue pairs to the state in which they send and receive.

use super::{End, Node};
use crate::addresses::Family;
use crate::scenario::{EndPlan, Scenario};
use crate::world::address;
use converb_engine::AddressVector;
use converb_engine::iba::{AttributeMask as A, Attributes, Service, State};
use converb_engine::memory::Access;
use converb_wire::{Psn, Qpn};

/// The way from one node to another.
pub fn path(family: Family, from: usize, to: usize) -> AddressVector {
    AddressVector {
        local: family.address(address(from)),
        remote: family.address(address(to)),
        traffic_class: 0x60,
        hop_limit: 64,
        flow_label: 0,
        service_level: 0,
    }
}

/// Connects an end to the queue pair `destination` of its peer; one that sends datagrams needs
/// none.
pub fn connect(node: &Node, scenario: &Scenario, index: usize, end: &End, destination: Qpn) {
    let (plan, peer) = (&scenario.ends[index], &scenario.ends[Scenario::peer(index)]);
    let remote = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE).with(Access::REMOTE_READ);
    let attributes = Attributes {
        destination,
        path: Some(path(scenario.family, plan.node, peer.node)),
        path_mtu: plan.mtu,
        queue_key: plan.queue_key,
        receive_psn: Psn::new(peer.send_psn),
        send_psn: Psn::new(plan.send_psn),
        access: remote.with(Access::REMOTE_ATOMIC),
        timeout: plan.timeout,
        retry_count: plan.retry_count,
        rnr_retry: plan.rnr_retry,
        min_rnr_timer: plan.min_rnr_timer,
        max_reads: plan.max_reads,
        max_destination_reads: peer.max_reads,
        port: 1,
        ..Attributes::default()
    };
    for (state, mask) in steps(plan) {
        let new = Attributes { state, ..attributes };
        let result = node.driver.modify(&end.queue_pair, &new, mask.with(A::STATE));
        result.expect("the attributes are complete and in range");
    }
}

/// Which attributes each change of state takes.
fn steps(plan: &EndPlan) -> [(State, A); 3] {
    let base = A::PARTITION_KEY_INDEX.with(A::PORT);
    let connection = A::PATH.with(A::PATH_MTU).with(A::DESTINATION).with(A::RECEIVE_PSN);
    let (initial, receive, send) = match plan.service {
        Service::ReliableConnection => {
            let retries = A::TIMEOUT.with(A::RETRY_COUNT).with(A::RNR_RETRY);
            (
                A::ACCESS_FLAGS,
                connection.with(A::MAX_DESTINATION_READS).with(A::MIN_RNR_TIMER),
                retries.with(A::MAX_READS),
            )
        }
        Service::UnreliableConnection => (A::ACCESS_FLAGS, connection, A::NONE),
        Service::UnreliableDatagram => (A::QUEUE_KEY, A::NONE, A::NONE),
    };
    [
        (State::Init, base.with(initial)),
        (State::ReadyToReceive, receive),
        (State::ReadyToSend, send.with(A::SEND_PSN)),
    ]
}
