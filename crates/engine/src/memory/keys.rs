//! The table of registered regions and the keys that name them.
//!
//! A borrow of the table is the guard of the design: whoever moves bytes of a region holds the
//! table shared, whoever deregisters needs it exclusively, so a region never ends under a move.

use converb_wire::Rkey;

/// A protection domain: what may be used together (IBA 10.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProtectionDomain(pub u32);

/// What a region allows (`enum ibv_access_flags`; the values are the ABI's).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Local reading, which every region allows.
    pub const LOCAL_READ: Self = Self(0);
    /// Scattering received data into the region.
    pub const LOCAL_WRITE: Self = Self(1);
    /// RDMA WRITE by a peer.
    pub const REMOTE_WRITE: Self = Self(1 << 1);
    /// RDMA READ by a peer.
    pub const REMOTE_READ: Self = Self(1 << 2);
    /// Atomics by a peer.
    pub const REMOTE_ATOMIC: Self = Self(1 << 3);

    /// Whether everything in `needed` is allowed.
    pub const fn allows(self, needed: Self) -> bool {
        self.0 & needed.0 == needed.0
    }

    /// Both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// What to register (`ibv_reg_mr_iova2`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegionSpec {
    /// Where the memory is.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The address that work requests and peers use for the first byte.
    pub iova: u64,
    /// What is allowed.
    pub access: Access,
}

/// A registered region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Where and how.
    pub spec: RegionSpec,
    /// The protection domain it belongs to.
    pub domain: ProtectionDomain,
    /// Its key, local and remote alike.
    pub key: Rkey,
}

/// Why a key does not give access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// No region has this key (any more).
    UnknownKey,
    /// The region belongs to another protection domain.
    WrongDomain,
    /// The range is not inside the region.
    OutOfBounds,
    /// The region does not allow this.
    NoAccess,
    /// No more regions fit (`ENOMEM`).
    TableFull,
    /// Remote write or atomic access without local write, or a range that wraps (`EINVAL`).
    BadRegistration,
}

/// All regions of a process.
#[derive(Clone, Debug)]
pub struct KeyTable {
    regions: Vec<Option<Region>>,
    free: Vec<u32>,
    secret: [u32; 3],
}

const INDEX_BITS: u32 = 20;

impl KeyTable {
    /// How many regions there can be at a time.
    pub const REGIONS_MAX: usize = 1 << INDEX_BITS;

    /// An empty table; `secret` makes its keys unpredictable.
    pub fn new(secret: u64) -> Self {
        let (low, high) = (secret as u32, (secret >> 32) as u32);
        Self {
            regions: Vec::new(),
            free: Vec::new(),
            secret: [low, high, low ^ high.rotate_left(9)],
        }
    }

    /// Registers a region. `random` goes into the key, so that an old key of the same place
    /// does not fit.
    ///
    /// # Errors
    /// `TableFull` or `BadRegistration`.
    pub fn register(
        &mut self,
        domain: ProtectionDomain,
        spec: RegionSpec,
        random: u32,
    ) -> Result<Region, KeyError> {
        let remote_change = Access::REMOTE_WRITE.0 | Access::REMOTE_ATOMIC.0;
        if spec.access.0 & remote_change != 0 && !spec.access.allows(Access::LOCAL_WRITE) {
            return Err(KeyError::BadRegistration);
        }
        if spec.address.checked_add(spec.length).is_none()
            || spec.iova.checked_add(spec.length).is_none()
        {
            return Err(KeyError::BadRegistration);
        }
        let index = match self.free.pop() {
            Some(index) => index,
            None if self.regions.len() < Self::REGIONS_MAX => {
                self.regions.push(None);
                (self.regions.len() - 1) as u32
            }
            None => return Err(KeyError::TableFull),
        };
        // Key 0 is what programs pass when they mean none; a second draw avoids it.
        let mut key = self.seal(index | random << INDEX_BITS);
        if key == 0 {
            key = self.seal(index | (random ^ 1) << INDEX_BITS);
        }
        let region = Region { spec, domain, key: Rkey(key) };
        self.regions[index as usize] = Some(region);
        Ok(region)
    }

    /// Ends a region. Nobody moves its bytes any more when this returns: see the module.
    ///
    /// # Errors
    /// `UnknownKey`.
    pub fn deregister(&mut self, key: Rkey) -> Result<Region, KeyError> {
        let index = self.index(key).ok_or(KeyError::UnknownKey)?;
        let region = self.regions[index].take().ok_or(KeyError::UnknownKey)?;
        self.free.push(index as u32);
        Ok(region)
    }

    /// The region that a key names.
    ///
    /// # Errors
    /// `UnknownKey`.
    pub fn region(&self, key: Rkey) -> Result<&Region, KeyError> {
        let index = self.index(key).ok_or(KeyError::UnknownKey)?;
        self.regions[index].as_ref().ok_or(KeyError::UnknownKey)
    }

    /// How many regions there are.
    pub fn len(&self) -> usize {
        self.regions.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The address in memory of `length` bytes at `iova` of the region `key`, when `domain` may
    /// use them as `needed`.
    ///
    /// # Errors
    /// Which check failed, in the order of IBA 10.6.
    pub fn locate(
        &self,
        domain: ProtectionDomain,
        key: Rkey,
        iova: u64,
        length: u64,
        needed: Access,
    ) -> Result<u64, KeyError> {
        let region = self.region(key)?;
        if region.domain != domain {
            return Err(KeyError::WrongDomain);
        }
        if !region.spec.access.allows(needed) {
            return Err(KeyError::NoAccess);
        }
        let offset = iova.checked_sub(region.spec.iova).ok_or(KeyError::OutOfBounds)?;
        let end = offset.checked_add(length).ok_or(KeyError::OutOfBounds)?;
        if end > region.spec.length && !crate::planted::is(crate::planted::Planted::BoundUnchecked)
        {
            return Err(KeyError::OutOfBounds);
        }
        Ok(region.spec.address.wrapping_add(offset))
    }

    fn index(&self, key: Rkey) -> Option<usize> {
        let index = (self.open(key.0) & ((1 << INDEX_BITS) - 1)) as usize;
        let region = self.regions.get(index)?.as_ref()?;
        (region.key == key).then_some(index)
    }

    // A small Feistel network: keys tell nothing about places, and one multiplication a round is
    // cheap enough for every packet.
    fn seal(&self, plain: u32) -> u32 {
        let (mut left, mut right) = (plain >> 16, plain & 0xffff);
        for secret in self.secret {
            (left, right) = (right, left ^ Self::round(right, secret));
        }
        left << 16 | right
    }

    fn open(&self, sealed: u32) -> u32 {
        let (mut left, mut right) = (sealed >> 16, sealed & 0xffff);
        for secret in self.secret.into_iter().rev() {
            (left, right) = (right ^ Self::round(left, secret), left);
        }
        left << 16 | right
    }

    fn round(half: u32, secret: u32) -> u32 {
        ((half ^ secret).wrapping_mul(0x9e37_79b1) ^ secret.rotate_right(7)) >> 16
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOMAIN: ProtectionDomain = ProtectionDomain(1);

    fn spec(access: Access) -> RegionSpec {
        RegionSpec { address: 0x1000, length: 100, iova: 0x50, access }
    }

    #[test]
    fn every_check_has_its_own_error() {
        let mut table = KeyTable::new(0x1234_5678_9abc_def0);
        let access = Access::LOCAL_WRITE.with(Access::REMOTE_WRITE);
        let key = table.register(DOMAIN, spec(access), 5).unwrap().key;
        let write = Access::REMOTE_WRITE;
        assert_eq!(table.locate(DOMAIN, key, 0x60, 84, write), Ok(0x1010));
        assert_eq!(table.locate(DOMAIN, key, 0x60, 85, write), Err(KeyError::OutOfBounds));
        assert_eq!(table.locate(DOMAIN, key, 0x4f, 1, write), Err(KeyError::OutOfBounds));
        assert_eq!(table.locate(DOMAIN, key, u64::MAX, 2, write), Err(KeyError::OutOfBounds));
        let read = Access::REMOTE_READ;
        assert_eq!(table.locate(DOMAIN, key, 0x60, 1, read), Err(KeyError::NoAccess));
        let other = ProtectionDomain(2);
        assert_eq!(table.locate(other, key, 0x60, 1, write), Err(KeyError::WrongDomain));
        let stranger = Rkey(key.0 ^ 1);
        assert_eq!(table.locate(DOMAIN, stranger, 0x60, 1, write), Err(KeyError::UnknownKey));
    }

    #[test]
    fn a_key_dies_with_its_region_even_when_the_place_is_used_again() {
        let mut table = KeyTable::new(7);
        let old = table.register(DOMAIN, spec(Access::LOCAL_WRITE), 1).unwrap().key;
        table.deregister(old).unwrap();
        let new = table.register(DOMAIN, spec(Access::LOCAL_WRITE), 2).unwrap().key;
        assert_ne!(old, new);
        assert_eq!(table.region(old), Err(KeyError::UnknownKey));
        assert_eq!(table.deregister(old), Err(KeyError::UnknownKey));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn remote_change_needs_local_write_and_ranges_do_not_wrap() {
        let mut table = KeyTable::new(7);
        let wrong = table.register(DOMAIN, spec(Access::REMOTE_WRITE), 1);
        assert_eq!(wrong, Err(KeyError::BadRegistration));
        let mut wrapping = spec(Access::LOCAL_WRITE);
        wrapping.address = u64::MAX - 5;
        assert_eq!(table.register(DOMAIN, wrapping, 1), Err(KeyError::BadRegistration));
        assert!(table.is_empty());
    }

    #[test]
    fn sealing_is_undone_by_opening() {
        let table = KeyTable::new(0xfeed_beef_0bad_cafe);
        for plain in [0, 1, 0xffff, 0x10000, u32::MAX, 0x1234_5678] {
            assert_eq!(table.open(table.seal(plain)), plain);
        }
    }
}
