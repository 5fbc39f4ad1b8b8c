//! The objects behind the pointers that programs hold: the C structure first, ours behind it.

mod context;
mod device;

pub(crate) use context::ContextObject;
pub(crate) use device::{DeviceObject, copy_text};
