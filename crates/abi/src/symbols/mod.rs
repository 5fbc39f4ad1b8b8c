//! One table of everything the library exports: name, version node, what it does, who asks for it.
//!
//! The build script reads it to write the exports and the version script, the tests compare it
//! with the built library and with the distribution's. Nothing here may use another module of the
//! crate: the build script and the tests include these files by path.

mod connection;
mod private;
mod public;

pub use connection::{CONNECTION, CONNECTION_NODES};
pub use private::PRIVATE;
pub use public::{PUBLIC, TWINS};

/// What calling a symbol gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// What the man page says.
    Works,
    /// `EOPNOTSUPP`: the operation is not there yet.
    Unsupported,
    /// It is there to be linked with; nothing calls it without a kernel device.
    Stub,
}

/// An exported symbol in one version node.
#[derive(Clone, Copy, Debug)]
pub struct Symbol {
    /// The exported name.
    pub name: &'static str,
    /// The version node.
    pub node: &'static str,
    /// Whether it is the version that a program linked today gets (`@@`).
    pub is_default: bool,
    /// What it does.
    pub status: Status,
    /// The Rust item behind it, below `crate::entry`.
    pub item: &'static str,
    /// Whether it is data, not a function.
    pub is_object: bool,
    /// Which programs and libraries import it.
    pub users: &'static str,
}

/// A symbol that exists once in every private node.
#[derive(Clone, Copy, Debug)]
pub struct Private {
    /// As in [`Symbol`].
    pub name: &'static str,
    /// As in [`Symbol`].
    pub status: Status,
    /// As in [`Symbol`].
    pub item: &'static str,
    /// As in [`Symbol`].
    pub is_object: bool,
    /// As in [`Symbol`].
    pub users: &'static str,
}

/// The node of symbols that rdma-core does not have.
pub const OWN_NODE: &str = "CONVERB_1";

/// Symbols that rdma-core does not have.
pub const OWN: &[Symbol] = &[Symbol {
    name: "converb_library_marker",
    node: OWN_NODE,
    is_default: true,
    status: Status::Works,
    item: "eight bytes by which copies of the library know each other",
    is_object: true,
    users: "converb",
}];

/// The public version nodes, each the child of the one before it. The last four come with
/// rdma-core 58 to 65: they are empty here, but a program that names one must still start.
pub const PUBLIC_NODES: &[&str] = &[
    "IBVERBS_1.0",
    "IBVERBS_1.1",
    "IBVERBS_1.5",
    "IBVERBS_1.6",
    "IBVERBS_1.7",
    "IBVERBS_1.8",
    "IBVERBS_1.9",
    "IBVERBS_1.10",
    "IBVERBS_1.11",
    "IBVERBS_1.12",
    "IBVERBS_1.13",
    "IBVERBS_1.14",
    "IBVERBS_1.15",
    "IBVERBS_1.16",
    "IBVERBS_1.17",
    "IBVERBS_1.18",
];

/// The numbers of rdma-core's internal ABI: 34 for its versions 34 to 56, then one for every
/// version that changed it. A plug-in asks for the symbols of its own number and registers with
/// `verbs_register_driver_<number>`.
pub const PRIVATE_ABIS: &[u32] = &[34, 57, 59, 64, 65];

/// How many definitions rdma-core 44's library has; the table covers all of them.
pub const RDMA_CORE_44_DEFINITIONS: usize = 180;

/// A version of a private symbol, or the registration function, in every private node.
pub fn private_symbols() -> Vec<(String, String, Private)> {
    let mut symbols = Vec::new();
    for abi in PRIVATE_ABIS {
        let node = format!("IBVERBS_PRIVATE_{abi}");
        for symbol in PRIVATE {
            symbols.push((symbol.name.to_owned(), node.clone(), *symbol));
        }
        let register = Private {
            name: "verbs_register_driver",
            status: Status::Works,
            item: "provider::register_driver",
            is_object: false,
            users: "libefa libmlx5 providers",
        };
        symbols.push((format!("verbs_register_driver_{abi}"), node, register));
    }
    symbols
}

/// Whether a private symbol's version is the default one. A name has only one default version;
/// programs that use a private symbol without naming a version get the oldest, as everywhere.
pub fn is_default_private(name: &str, node: &str) -> bool {
    name.starts_with("verbs_register_driver_") || node == "IBVERBS_PRIVATE_34"
}

const fn current(
    name: &'static str,
    node: &'static str,
    status: Status,
    item: &'static str,
    users: &'static str,
) -> Symbol {
    Symbol { name, node, is_default: true, status, item, is_object: false, users }
}

const fn twin(name: &'static str, item: &'static str) -> Symbol {
    Symbol {
        name,
        node: "IBVERBS_1.0",
        is_default: false,
        status: Status::Unsupported,
        item,
        is_object: false,
        users: "programs linked before 2007",
    }
}

const fn superseded(name: &'static str, node: &'static str, item: &'static str) -> Symbol {
    Symbol {
        name,
        node,
        is_default: false,
        status: Status::Stub,
        item,
        is_object: false,
        users: "plug-ins built before 2017",
    }
}

const fn private(
    name: &'static str,
    status: Status,
    item: &'static str,
    users: &'static str,
) -> Private {
    Private { name, status, item, is_object: false, users }
}

const fn object(
    name: &'static str,
    status: Status,
    item: &'static str,
    users: &'static str,
) -> Private {
    Private { name, status, item, is_object: true, users }
}
