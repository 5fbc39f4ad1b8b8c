//! Asynchronous events: what they mean and what to do.

/// What is known about one event (`enum ibv_event_type`).
#[derive(Debug)]
pub(super) struct EventText {
    /// Its name in `infiniband/verbs.h`, without `IBV_EVENT_`.
    pub(super) name: &'static str,
    /// What it means.
    pub(super) meaning: &'static str,
    /// What to do.
    pub(super) advice: &'static str,
}

const fn event(name: &'static str, meaning: &'static str, advice: &'static str) -> EventText {
    EventText { name, meaning, advice }
}

const NOT_HERE: &str = "Converb does not raise it";
const NOTHING: &str = "nothing, it is for your information";

/// All of them, each at its number (`ibv_get_async_event(3)`).
pub(super) const EVENTS: [EventText; 20] = [
    event(
        "CQ_ERR",
        "a completion queue was full when a completion came; that one and all later ones are lost",
        "make the completion queue as large as all work that may be outstanding on it, or poll it \
         more often; the queue pairs that use it are in error",
    ),
    event(
        "QP_FATAL",
        "a queue pair could not report a completion and is in error",
        "see CQ_ERR; reset the queue pair",
    ),
    event(
        "QP_REQ_ERR",
        "a peer's request was refused as invalid, and the queue pair is in error",
        "`converb explain --last` says which check failed",
    ),
    event(
        "QP_ACCESS_ERR",
        "a peer's request had no right to our memory, and the queue pair is in error",
        "`converb explain --last` says which key, address and right",
    ),
    event(
        "COMM_EST",
        "the first packet came while the queue pair was ready to receive and not yet to send",
        NOTHING,
    ),
    event("SQ_DRAINED", "everything sent before the change to SQD is complete", NOTHING),
    event("PATH_MIG", "a connection has changed to its alternate path", NOT_HERE),
    event("PATH_MIG_ERR", "a connection could not change to its alternate path", NOT_HERE),
    event(
        "DEVICE_FATAL",
        "the network interface of the device is gone",
        "close the device; open it again once the interface is back",
    ),
    event("PORT_ACTIVE", "the network interface came up", NOTHING),
    event("PORT_ERR", "the network interface went down", "`ip link` shows why"),
    event("LID_CHANGE", "the port's local identifier has changed", NOT_HERE),
    event("PKEY_CHANGE", "the table of partition keys has changed", NOT_HERE),
    event("SM_CHANGE", "there is another subnet manager", NOT_HERE),
    event("SRQ_ERR", "a shared receive queue failed", NOT_HERE),
    event(
        "SRQ_LIMIT_REACHED",
        "a shared receive queue has fewer receives than its limit",
        "post more receives and set the limit again",
    ),
    event(
        "QP_LAST_WQE_REACHED",
        "a queue pair in error takes no more receives from its shared queue",
        "it may be destroyed now",
    ),
    event("CLIENT_REREGISTER", "the subnet manager asks to register again", NOT_HERE),
    event("GID_CHANGE", "addresses of the network interface have come or gone", NOTHING),
    event("WQ_FATAL", "a work queue failed", NOT_HERE),
];
