//! Every completion status: what it means, who notices it, why it mostly happens, what to do.

/// What is known about one completion status (`enum ibv_wc_status`).
#[derive(Debug)]
pub(super) struct StatusText {
    /// Its name in `infiniband/verbs.h`, without `IBV_WC_`.
    pub(super) name: &'static str,
    /// What it means, in a sentence.
    pub(super) meaning: &'static str,
    /// Who notices it.
    pub(super) noticed_by: &'static str,
    /// Why it mostly happens.
    pub(super) causes: &'static [&'static str],
    /// What to do.
    pub(super) advice: &'static str,
}

const REQUESTER: &str = "the requester";
const RESPONDER: &str = "the responder";
const NOBODY: &str = "nobody here";

const fn status(
    name: &'static str,
    meaning: &'static str,
    noticed_by: &'static str,
    causes: &'static [&'static str],
    advice: &'static str,
) -> StatusText {
    StatusText { name, meaning, noticed_by, causes, advice }
}

/// All of them, each at its number (IBA 11.6.2; `ibv_poll_cq(3)`).
pub(super) const STATUSES: [StatusText; 24] = [
    status("SUCCESS", "the work request is complete", "the side that posted it", &[], "nothing"),
    status(
        "LOC_LEN_ERR",
        "a message does not fit: a receive is shorter than what came, or a datagram longer than \
         the port's MTU",
        "the responder (receives), the requester (datagrams)",
        &[
            "receives are posted with a smaller size than the peer sends",
            "a UD receive has no room for the 40 bytes of GRH in front of the data",
            "a UD message is longer than one packet",
        ],
        "post receives as long as the longest message (for UD 40 bytes more); keep datagrams \
         within the active MTU that `converb devices` shows",
    ),
    status(
        "LOC_QP_OP_ERR",
        "the queue pair cannot do what the work request asks for",
        REQUESTER,
        &["a READ or atomic, and max_rd_atomic is 0", "a datagram without an address handle"],
        "set max_rd_atomic when going to RTS; give every UD send its wr.ud.ah",
    ),
    status(
        "LOC_EEC_OP_ERR",
        "an end-to-end context failed, which only reliable datagrams have",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "LOC_PROT_ERR",
        "a scatter-gather entry does not lie in memory that this queue pair may use so",
        "the side whose memory it is",
        &[
            "a wrong or deregistered lkey",
            "address or length beyond the region",
            "the region belongs to another protection domain than the queue pair",
            "a receive or READ goes to a region without LOCAL_WRITE",
            "the program has unmapped the memory",
        ],
        "compare the work request's sg_list with what ibv_reg_mr was given",
    ),
    status(
        "WR_FLUSH_ERR",
        "the work request was not done, for the queue pair went to the error state",
        "the side that posted it",
        &[
            "another work request of this queue pair failed before",
            "a peer's request was refused, which ends the connection",
            "the program itself moved the queue pair to the error state",
        ],
        "look for the first completion of this queue pair that is not a flush: it is the cause; \
         `converb explain --last` names it",
    ),
    status(
        "MW_BIND_ERR",
        "a memory window could not be bound",
        REQUESTER,
        &["the region does not allow windows, or the window is beyond it"],
        "Converb has no memory windows yet (ibv_alloc_mw answers EOPNOTSUPP)",
    ),
    status(
        "BAD_RESP_ERR",
        "the peer answered with something that does not fit the request",
        REQUESTER,
        &["the peer uses another path MTU", "a damaged or forged answer"],
        "compare path_mtu on both sides; look at the packets with Wireshark",
    ),
    status(
        "LOC_ACCESS_ERR",
        "a peer's request hit a protection of this side while it was received",
        RESPONDER,
        &["a SEND with invalidate names a key that is no memory window"],
        "let the peer use a plain SEND",
    ),
    status(
        "REM_INV_REQ_ERR",
        "the peer understood the request and refuses it as invalid",
        "the responder, which answers NAK Invalid Request; the requester completes with it",
        &[
            "a SEND longer than the peer's receive",
            "more READs or atomics at a time than the peer's max_dest_rd_atomic",
            "an atomic at an address that is no multiple of 8",
            "the two sides use different path MTUs",
        ],
        "run `converb explain --last` where the peer runs: it knows which check failed",
    ),
    status(
        "REM_ACCESS_ERR",
        "the peer does not allow access to the memory that the request names",
        "the responder, which answers NAK Remote Access Error; the requester completes with it",
        &[
            "a wrong or deregistered rkey",
            "address or length beyond the peer's region",
            "region or queue pair lack REMOTE_WRITE, REMOTE_READ or REMOTE_ATOMIC",
            "region and queue pair of the peer are of different protection domains",
        ],
        "run `converb explain --last` where the peer runs: it knows which check failed",
    ),
    status(
        "REM_OP_ERR",
        "the peer could not carry out a request that it would have allowed",
        "the responder, which answers NAK Remote Operational Error; the requester completes with it",
        &[
            "the peer has unmapped memory that is still registered",
            "a receive of the peer names memory that it may not use",
        ],
        "run `converb explain --last` where the peer runs",
    ),
    status(
        "RETRY_EXC_ERR",
        "no acknowledgement came, after all retries",
        REQUESTER,
        &[
            "the peer's program has ended, or its queue pair is destroyed or in error",
            "wrong GID, address or queue pair number of the peer",
            "a firewall drops UDP port 4791, or the path loses many packets",
            "timeout and retry_cnt are too small for this path",
        ],
        "check that the peer lives and that its address is reachable (ping); allow UDP port 4791 \
         in both directions; raise timeout (14 is 67 ms) and retry_cnt (7)",
    ),
    status(
        "RNR_RETRY_EXC_ERR",
        "the peer had no receive posted, after all RNR retries",
        "the responder, which answers RNR NAK; the requester completes with it",
        &[
            "the peer posts receives too late or too few of them",
            "rnr_retry is small: 0 tries once, 7 tries for ever",
        ],
        "post receives before the peer may send; set rnr_retry to 7; raise min_rnr_timer",
    ),
    status(
        "LOC_RDD_VIOL_ERR",
        "a violation of a reliable datagram domain",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "REM_INV_RD_REQ_ERR",
        "the peer refused a reliable datagram",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "REM_ABORT_ERR",
        "the peer aborted the operation",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "INV_EECN_ERR",
        "an end-to-end context number is wrong, which only reliable datagrams have",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "INV_EEC_STATE_ERR",
        "an end-to-end context is in a wrong state, which only reliable datagrams have",
        NOBODY,
        &["no device of today reports it"],
        "it should not occur: report it",
    ),
    status(
        "FATAL_ERR",
        "the device failed",
        "the device",
        &["a completion queue was overrun, or the network interface vanished"],
        "read the asynchronous events; make completion queues as large as all work that may be \
         outstanding on them",
    ),
    status(
        "RESP_TIMEOUT_ERR",
        "a response did not come in time",
        NOBODY,
        &["devices report RETRY_EXC_ERR instead"],
        "see RETRY_EXC_ERR",
    ),
    status(
        "GENERAL_ERR",
        "something that no other status names",
        "the device",
        &["Converb does not report it"],
        "look at vendor_err",
    ),
    status(
        "TM_ERR",
        "tag matching failed",
        NOBODY,
        &["Converb has no tag matching"],
        "it should not occur: report it",
    ),
    status(
        "TM_RNDV_INCOMPLETE",
        "a tag-matching rendezvous has to be completed by software",
        NOBODY,
        &["Converb has no tag matching"],
        "it should not occur: report it",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_says_what_to_do() {
        for text in &STATUSES {
            assert!(!text.meaning.is_empty() && !text.advice.is_empty(), "{}", text.name);
            assert!(text.name == "SUCCESS" || !text.causes.is_empty(), "{}", text.name);
        }
        assert_eq!(STATUSES[12].name, "RETRY_EXC_ERR");
        assert_eq!(STATUSES[5].name, "WR_FLUSH_ERR");
        assert_eq!(STATUSES[21].name, "GENERAL_ERR");
    }
}
