//! converb-converb
