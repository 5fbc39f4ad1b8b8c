//! What `ibv_create_cq_ex` may ask for.

use crate::guard::Errno;
use crate::layout::ibv_cq_init_attr_ex;

/// `enum ibv_create_cq_wc_flags`: the standard ones, byte length to path bits.
const FIELDS: u64 = 0b111_1111;
/// `IBV_CQ_INIT_ATTR_MASK_FLAGS`.
const HAS_FLAGS: u32 = 1;
/// `IBV_CREATE_CQ_ATTR_SINGLE_THREADED`: a promise of the program's that we need not use.
const FLAGS: u32 = 1;

/// Refuses what is not there.
pub(crate) fn check(attributes: &ibv_cq_init_attr_ex) -> Result<(), Errno> {
    if attributes.comp_mask & !HAS_FLAGS != 0 {
        return Err(Errno::INVALID);
    }
    let has_flags = attributes.comp_mask & HAS_FLAGS != 0;
    if attributes.wc_flags & !FIELDS != 0 || has_flags && attributes.flags & !FLAGS != 0 {
        return Err(Errno::NOT_SUPPORTED);
    }
    Ok(())
}
