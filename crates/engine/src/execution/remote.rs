//! Operations of a peer on our memory.

use super::ExecutionError;
use crate::memory::{Access, KeyError, KeyTable, Memory, ProtectionDomain};
use converb_wire::Rkey;

/// What a peer asked for: a range of one region and a kind of access. It is checked as a whole
/// before the first byte moves, and again with every packet, for a key may end in between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RemotePlan {
    /// The region's remote key.
    pub rkey: Rkey,
    /// The first byte, in the region's own addresses.
    pub address: u64,
    /// Bytes.
    pub length: u32,
}

impl RemotePlan {
    /// Checks key, bounds and access. A length of zero is not checked (IBA 9.7.4.1.7).
    ///
    /// # Errors
    /// Which check failed.
    pub fn check(
        &self,
        keys: &KeyTable,
        domain: ProtectionDomain,
        access: Access,
    ) -> Result<(), KeyError> {
        if self.length == 0 {
            return Ok(());
        }
        keys.locate(domain, self.rkey, self.address, u64::from(self.length), access).map(drop)
    }

    /// Stores the bytes of one packet, `offset` into the range. Only these bytes are looked up
    /// again: the range as a whole was checked when it began.
    ///
    /// # Errors
    /// When they do not fit any more or the memory is gone.
    pub fn write<M: Memory>(
        &self,
        keys: &KeyTable,
        memory: &M,
        domain: ProtectionDomain,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), ExecutionError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let iova = self.address.wrapping_add(u64::from(offset));
        let address =
            keys.locate(domain, self.rkey, iova, bytes.len() as u64, Access::REMOTE_WRITE)?;
        Ok(memory.write(address, bytes)?)
    }

    /// Copies the bytes of one packet, `offset` into the range.
    ///
    /// # Errors
    /// When they cannot be read any more.
    pub fn read<M: Memory>(
        &self,
        keys: &KeyTable,
        memory: &M,
        domain: ProtectionDomain,
        offset: u32,
        into: &mut [u8],
    ) -> Result<(), ExecutionError> {
        if into.is_empty() {
            return Ok(());
        }
        let iova = self.address.wrapping_add(u64::from(offset));
        let address =
            keys.locate(domain, self.rkey, iova, into.len() as u64, Access::REMOTE_READ)?;
        Ok(memory.read(address, into)?)
    }
}
