//! converb-sim
