//! Requests that come a second time: answered again, never executed again (IBA 9.7.5.1).

use super::reply::Reply;
use super::{REPLIES_MAX, Responder};
use crate::counters::Counters;
use crate::execution::RemotePlan;
use crate::iba::environment::Environment;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::planted::{self, Planted};
use converb_wire::{OpcodeKind, Packet, Psn};

impl Responder {
    pub(super) fn handle_duplicate<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        packet: &Packet<'_>,
    ) {
        Counters::count(&env.counters.duplicate_requests);
        self.has_met_loss = true;
        if self.replies.len() >= REPLIES_MAX {
            Counters::count(&env.counters.dropped_no_room);
            return;
        }
        match packet.info().operation {
            OpcodeKind::Send | OpcodeKind::Write => {
                if planted::is(Planted::DuplicateWriteRunsTwice)
                    && let Some(reth) = packet.reth()
                {
                    let plan =
                        RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
                    let _ = plan.write(env.keys, env.memory, env.domain, 0, packet.payload());
                }
                if !planted::is(Planted::AckLosesCompletion) {
                    self.queue_ack();
                }
            }
            OpcodeKind::ReadRequest => self.read_again(identity, env, packet),
            OpcodeKind::CompareSwap | OpcodeKind::FetchAdd => {
                self.atomic_again(identity, env, packet);
            }
            _ => Counters::count(&env.counters.dropped_malformed),
        }
    }

    /// A READ changes nothing, so it is simply done again; its memory may be gone by now, which
    /// is no error of the connection.
    fn read_again<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        packet: &Packet<'_>,
    ) {
        let Some(reth) = packet.reth() else { return };
        let plan = RemotePlan { rkey: reth.rkey, address: reth.address, length: reth.length };
        let first = packet.bth().psn;
        let packets = plan.length.div_ceil(identity.mtu).max(1);
        let ends_in_the_past = packets <= self.expected.since(first);
        let allowed = identity.access.allows(Access::REMOTE_READ)
            && plan.check(env.keys, env.domain, Access::REMOTE_READ).is_ok();
        if ends_in_the_past && allowed && !self.is_about_to_answer(first) {
            self.replies.push_back(Reply::read_again(plan, first, packets, self.messages));
        }
    }

    fn is_about_to_answer(&self, psn: Psn) -> bool {
        self.replies.iter().any(|reply| match reply {
            Reply::Read { first, packets, sent, .. } => {
                psn.is_within(first.plus(*sent), packets - sent)
            }
            _ => false,
        })
    }
}
