//! converb-agent
