//! How a port is to work.

use crate::fault::{Faults, InvalidFaults};
use converb_wire::ROCE_V2_PORT;
use core::fmt;
use std::path::PathBuf;

/// The variable of the environment that names faults; [`Faults`] tells how.
pub const FAULT_VARIABLE: &str = "CONVERB_FAULT";

/// The variable of the environment that names the pcapng file to append packets to.
pub const CAPTURE_VARIABLE: &str = "CONVERB_CAPTURE";

/// How a port is to work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The UDP port that packets are sent to.
    pub destination_port: u16,
    /// The largest receive buffer to ask for, as the kernel counts it; `None`: as large as the
    /// kernel gives.
    pub receive_buffer_bytes_max: Option<u32>,
    /// Whether the kernel may be asked to cut up sends (GSO).
    pub is_segmenting: bool,
    /// What happens to packets on purpose.
    pub faults: Faults,
    /// The pcapng file that packets are written to.
    pub capture: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            destination_port: ROCE_V2_PORT,
            receive_buffer_bytes_max: None,
            is_segmenting: true,
            faults: Faults::default(),
            capture: None,
        }
    }
}

impl Settings {
    /// The defaults, changed by the environment: `CONVERB_RECEIVE_BUFFER` is the largest receive
    /// buffer to ask for, in bytes (a value that is no number is as good as none),
    /// [`FAULT_VARIABLE`] names faults, [`CAPTURE_VARIABLE`] a file.
    ///
    /// # Errors
    /// When what should name faults does not.
    pub fn from_environment() -> Result<Self, InvalidSetting> {
        let receive_buffer_bytes_max =
            std::env::var("CONVERB_RECEIVE_BUFFER").ok().and_then(|value| value.parse().ok());
        let faults = match std::env::var_os(FAULT_VARIABLE) {
            None => Faults::default(),
            Some(value) => value.to_string_lossy().parse().map_err(InvalidSetting)?,
        };
        let capture = std::env::var_os(CAPTURE_VARIABLE).map(PathBuf::from);
        Ok(Self { receive_buffer_bytes_max, faults, capture, ..Self::default() })
    }
}

/// A variable of the environment that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting(InvalidFaults);

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is wrong: {}", FAULT_VARIABLE, self.0)
    }
}

impl core::error::Error for InvalidSetting {}
