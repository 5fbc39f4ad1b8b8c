//! converb-cm
