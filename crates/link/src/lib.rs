//! converb-link
