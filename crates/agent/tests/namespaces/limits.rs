//! .

use crate::Line;

pub const TESTS: &[Line] = &[];
