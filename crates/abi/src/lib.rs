//! converb-abi
