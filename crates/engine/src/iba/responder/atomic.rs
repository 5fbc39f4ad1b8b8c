//! Atomic operations: executed once, and their results kept for whoever asks again
//! (IBA 9.4.5, 9.7.5.1.4).

use super::execute::{invalid, refusal};
use super::reply::Reply;
use super::{Executed, Responder};
use crate::execution::{ExecutionError, RemotePlan};
use crate::iba::cause::{Cause, permit};
use crate::iba::environment::Environment;
use crate::iba::queue_pair::Identity;
use crate::memory::{Access, Memory};
use crate::planted::{self, Planted};
use converb_wire::{AtomicEth, NakCode, OpcodeKind, Packet};

/// An atomic works on this many bytes, at a multiple of as many.
const OPERAND_BYTES: u64 = 8;

impl Responder {
    pub(super) fn execute_atomic<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &mut Environment<'_, M>,
        packet: &Packet<'_>,
    ) -> Executed {
        let Some(atomic) = packet.atomic_eth() else {
            return invalid(Cause::NoRequest {});
        };
        if identity.max_destination_reads == 0 {
            return invalid(Cause::TooManyReads { limit: 0 });
        }
        if !atomic.address.is_multiple_of(OPERAND_BYTES) {
            return invalid(Cause::AtomicMisaligned { address: atomic.address });
        }
        match self.perform(identity, env, packet, &atomic) {
            Ok(original) => {
                let psn = self.expected;
                // No more can be asked for again than the peer has in flight.
                while self.results.len() >= usize::from(identity.max_destination_reads) {
                    self.results.pop_front();
                }
                self.results.push_back((psn, original));
                self.messages = (self.messages + 1) & 0x00ff_ffff;
                self.expected = self.expected.plus(1);
                self.replies.push_back(Reply::atomic(psn, original, self.messages));
                Executed::Yes
            }
            Err((code, cause)) => Executed::Refused(code, Some(cause)),
        }
    }

    fn perform<M: Memory>(
        &self,
        identity: &Identity,
        env: &Environment<'_, M>,
        packet: &Packet<'_>,
        atomic: &AtomicEth,
    ) -> Result<u64, (NakCode, Cause)> {
        let needed = Access::REMOTE_ATOMIC;
        let plan =
            RemotePlan { rkey: atomic.rkey, address: atomic.address, length: OPERAND_BYTES as u32 };
        let denied = |cause| (NakCode::RemoteAccessError, cause);
        permit(identity.access, env.keys, env.domain, &plan, needed).map_err(denied)?;
        let failed =
            |error: ExecutionError| (refusal(error), Cause::remote(env.keys, &plan, needed, error));
        let address = env
            .keys
            .locate(env.domain, atomic.rkey, atomic.address, OPERAND_BYTES, needed)
            .map_err(|error| failed(error.into()))?;
        // The peer's address was aligned; ours is not if the region was given an odd one.
        if !address.is_multiple_of(OPERAND_BYTES) {
            return Err((NakCode::InvalidRequest, Cause::AtomicMisaligned { address }));
        }
        let result = if packet.info().operation == OpcodeKind::CompareSwap {
            env.memory.compare_and_swap(address, atomic.compare, atomic.swap_or_add)
        } else {
            env.memory.fetch_and_add(address, atomic.swap_or_add)
        };
        result.map_err(|fault| failed(fault.into()))
    }

    /// An atomic that was executed before is answered with what it found then.
    pub(super) fn atomic_again<M: Memory>(
        &mut self,
        identity: &Identity,
        env: &Environment<'_, M>,
        packet: &Packet<'_>,
    ) {
        let psn = packet.bth().psn;
        if planted::is(Planted::DuplicateAtomicRunsTwice)
            && let Some(atomic) = packet.atomic_eth()
        {
            let _ = self.perform(identity, env, packet, &atomic);
        }
        if let Some((_, original)) = self.results.iter().find(|(known, _)| *known == psn) {
            self.replies.push_back(Reply::atomic(psn, *original, self.messages));
        }
    }
}
