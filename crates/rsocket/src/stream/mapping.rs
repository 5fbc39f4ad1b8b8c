//! Mapped memory: the peer writes into a program's memory by offset, and no data passes through the
//! stream (riomap, riowrite).

use super::making::BUFFERS;
use super::posting::remote;
use super::sending::Cursor;
use super::{Patience, Phase, Stream};
use crate::error::errno;
use crate::protocol::{Mapping, Order, Span};
use converb::work::Operation;
use converb::{MemoryRegion, ProtectionDomain};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::{Arc, PoisonError};

/// The memory that a program has mapped.
#[derive(Debug, Default)]
pub(super) struct Mappings {
    /// What the peer may write to, by its index in the peer's table.
    told: Vec<Option<Arc<MemoryRegion>>>,
    /// What it may not.
    own: Vec<Arc<MemoryRegion>>,
    /// What it is still to be told.
    news: VecDeque<(u32, Mapping)>,
}

impl Mappings {
    pub(super) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    pub(super) fn take_news(&mut self) -> Option<(u32, Mapping)> {
        self.news.pop_front()
    }

    /// Forgets all of them.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Takes the lowest free index below `most`.
    fn add(&mut self, region: &Arc<MemoryRegion>, most: u32) -> Option<u32> {
        let free = self.told.iter().position(Option::is_none).unwrap_or(self.told.len());
        let index = u32::try_from(free).ok().filter(|&index| index < most)?;
        if free == self.told.len() {
            self.told.push(None);
        }
        self.told[free] = Some(Arc::clone(region));
        Some(index)
    }

    /// Lets go of a region that begins there and is that long; whether there was one.
    fn remove(&mut self, address: u64, length: usize) -> bool {
        let is_it = |region: &Arc<MemoryRegion>| {
            region.first_address() == address && region.len() == length
        };
        if let Some(at) = self.own.iter().position(is_it) {
            self.own.swap_remove(at);
            return true;
        }
        let Some(index) = self.told.iter().position(|told| told.as_ref().is_some_and(is_it)) else {
            return false;
        };
        self.told[index] = None;
        // The peer's next attempt finds no mapping, and does not fail the connection.
        self.news.push_back((index as u32, Mapping::default()));
        true
    }
}

impl Stream {
    /// The domain that mapped memory has to be registered in.
    ///
    /// # Errors
    /// `ENOTCONN` while there is no peer.
    pub fn domain(&self) -> io::Result<&Arc<ProtectionDomain>> {
        let mut flow = self.lock();
        self.absorb(&mut flow);
        let is_connected = matches!(flow.phase, Phase::Open | Phase::Accepting);
        if is_connected { Ok(&self.domain) } else { Err(errno(libc::ENOTCONN)) }
    }

    /// Maps memory, which the peer may write to at `offset` when it has received what is sent next;
    /// without an offset it is only for this side.
    ///
    /// # Errors
    /// `ENOMEM` when the peer has no room for another mapping.
    pub fn map(&self, region: Arc<MemoryRegion>, offset: Option<u64>) -> io::Result<()> {
        let mut flow = self.lock();
        let Some(offset) = offset else {
            flow.mappings.own.push(region);
            return Ok(());
        };
        let most = flow.peer.as_ref().map_or(0, |(greeting, _)| greeting.mappings);
        let index = flow.mappings.add(&region, most).ok_or_else(|| errno(libc::ENOMEM))?;
        let span = Span {
            address: region.first_address(),
            key: region.remote_key().0,
            length: u32::try_from(region.len()).map_err(|_| errno(libc::EINVAL))?,
        };
        flow.mappings.news.push_back((index, Mapping { offset, span }));
        Ok(())
    }

    /// Takes a mapping back.
    ///
    /// # Errors
    /// `EINVAL` where there is none.
    pub fn unmap(&self, address: u64, length: usize) -> io::Result<()> {
        if self.lock().mappings.remove(address, length) { Ok(()) } else { Err(errno(libc::EINVAL)) }
    }

    /// Writes into memory that the peer has mapped at `offset`; returns how many bytes were taken.
    ///
    /// # Errors
    /// `EINVAL` where nothing is mapped, else as for [`send`](Self::send).
    pub fn write_mapped(&self, data: &[u8], offset: u64, patience: Patience) -> io::Result<usize> {
        let _turn = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let data_slices = [IoSlice::new(data)];
        let mut cursor = Cursor { data: &data_slices, skip: 0 };
        let mut done = 0;
        while done < data.len() {
            let written =
                self.write_part(offset + done as u64, data.len() - done, &mut cursor, patience);
            match written {
                Ok(bytes) => done += bytes,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_part(
        &self,
        offset: u64,
        wanted: usize,
        cursor: &mut Cursor<'_>,
        patience: Patience,
    ) -> io::Result<usize> {
        // What the peer has mapped is known when its words have been heard.
        self.absorb(&mut self.lock());
        let to = self.mapped_at(offset).ok_or_else(|| errno(libc::EINVAL))?;
        let wanted = wanted.min(to.length as usize).min(PART_MAX);
        let reserve = |flow: &mut super::Flow| {
            if !flow.can_write {
                return Some(Err(flow.why_not_written()));
            }
            if flow.phase != Phase::Open {
                return None;
            }
            let sending = flow.sending()?;
            let bytes = wanted.min(sending.direct_room());
            (bytes > 0).then(|| Ok((bytes, sending.reserve_direct(bytes))))
        };
        let (bytes, from) = self.wait_until(patience, reserve)?;
        self.put(Operation::Write(remote(&to)), &from, bytes, cursor)?;
        Ok(bytes)
    }

    /// The peer's memory at an offset, and how much of it follows.
    fn mapped_at(&self, offset: u64) -> Option<Span> {
        (0..self.settings.mappings as usize).find_map(|index| {
            let at = BUFFERS as usize * Span::BYTES + index * Mapping::BYTES;
            let mut bytes = [0; Mapping::BYTES];
            self.tables.read(at, &mut bytes);
            Mapping::from_bytes(&bytes, Order::NATIVE).find(offset)
        })
    }
}

/// Most bytes of one write into mapped memory: room in the send buffer is taken for it at once.
const PART_MAX: usize = 128 << 10;
