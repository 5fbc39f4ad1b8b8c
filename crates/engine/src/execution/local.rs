//! Moves between packets and the scatter-gather lists of our own work requests.

use super::ExecutionError;
use crate::memory::{Access, KeyTable, Memory, ProtectionDomain};
use crate::work::ScatterGather;
use converb_wire::Rkey;

/// Copies the bytes of a message from `offset` on into `into`, all of it.
///
/// # Errors
/// When a local key does not fit, memory is gone or the list ends early.
pub fn gather<M: Memory>(
    keys: &KeyTable,
    memory: &M,
    domain: ProtectionDomain,
    list: &[ScatterGather],
    offset: u64,
    into: &mut [u8],
) -> Result<(), ExecutionError> {
    let mut done = 0;
    walk(list, offset, into.len(), |key, iova, length| {
        let address = keys.locate(domain, key, iova, length as u64, Access::LOCAL_READ)?;
        memory.read(address, &mut into[done..done + length])?;
        done += length;
        Ok(())
    })
}

/// Copies `from` to the bytes of a message from `offset` on.
///
/// # Errors
/// When a local key does not fit, memory is gone or the list is too short.
pub fn scatter<M: Memory>(
    keys: &KeyTable,
    memory: &M,
    domain: ProtectionDomain,
    list: &[ScatterGather],
    offset: u64,
    from: &[u8],
) -> Result<(), ExecutionError> {
    let mut done = 0;
    walk(list, offset, from.len(), |key, iova, length| {
        let address = keys.locate(domain, key, iova, length as u64, Access::LOCAL_WRITE)?;
        memory.write(address, &from[done..done + length])?;
        done += length;
        Ok(())
    })
}

/// The part of a list, within the bytes `offset..offset + length` of its message, that keys do not
/// allow to be used as `needed`: its key, its address and its bytes. For explanations, after
/// [`gather`] or [`scatter`] has failed.
pub fn failing_piece(
    keys: &KeyTable,
    domain: ProtectionDomain,
    list: &[ScatterGather],
    offset: u64,
    length: usize,
    needed: Access,
) -> Option<(Rkey, u64, usize)> {
    let mut failing = None;
    let _ = walk(list, offset, length, |key, iova, length| {
        keys.locate(domain, key, iova, length as u64, needed)
            .map(drop)
            .inspect_err(|_| failing = Some((key, iova, length)))
            .map_err(Into::into)
    });
    failing
}

/// Calls `piece` with key, address and length for each part of a list that the bytes
/// `offset..offset + length` of its message lie in.
fn walk(
    list: &[ScatterGather],
    mut offset: u64,
    mut length: usize,
    mut piece: impl FnMut(Rkey, u64, usize) -> Result<(), ExecutionError>,
) -> Result<(), ExecutionError> {
    for entry in list {
        if length == 0 {
            break;
        }
        let entry_length = u64::from(entry.length);
        if offset >= entry_length {
            offset -= entry_length;
            continue;
        }
        let part = (entry_length - offset).min(length as u64) as usize;
        piece(Rkey(entry.lkey), entry.address.wrapping_add(offset), part)?;
        length -= part;
        offset = 0;
    }
    if length == 0 { Ok(()) } else { Err(ExecutionError::TooLong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_entries_of_the_list() {
        let entry = |address, length, lkey| ScatterGather { address, length, lkey };
        let list = [entry(100, 4, 1), entry(0, 0, 2), entry(200, 8, 3)];
        let mut seen = Vec::new();
        walk(&list, 2, 5, |key, iova, length| {
            seen.push((key.0, iova, length));
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, [(1, 102, 2), (3, 200, 3)]);
        assert_eq!(walk(&list, 10, 3, |_, _, _| Ok(())), Err(ExecutionError::TooLong));
        assert_eq!(walk(&list, 12, 0, |_, _, _| Ok(())), Ok(()));
    }
}
