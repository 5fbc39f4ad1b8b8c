/* Two processes with one connected queue pair each, for the programs beside this file.
 *
 * `pair_start` forks before any verbs call; the child is the target. Both open the first device,
 * and talk through a socket pair whenever they have to agree on something.
 */
#ifndef PAIR_H
#define PAIR_H

#include "check.h"

#include <sys/socket.h>
#include <sys/wait.h>

/* What one side tells the other. */
struct card {
    uint32_t qpn, psn, rkey;
    uint64_t address;
    union ibv_gid gid;
};

struct side {
    int link;
    pid_t child;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    union ibv_gid gid;
    enum ibv_mtu mtu;
    /* Queue pairs are UC; RC else. */
    int is_unreliable;
};

/* A word to the other side, or one from it. */
static inline void tell(struct side *side, const void *what, size_t size)
{
    CHECK(write(side->link, what, size) == (ssize_t)size);
}

static inline void hear(struct side *side, void *what, size_t size)
{
    for (char *at = what; size;) {
        ssize_t got = read(side->link, at, size);
        CHECK(got > 0);
        at += got;
        size -= got;
    }
}

static inline void meet(struct side *side)
{
    char word = 'x';
    tell(side, &word, 1);
    hear(side, &word, 1);
}

static inline void open_device(struct side *side)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    side->context = ibv_open_device(list[0]);
    CHECK(side->context);
    ibv_free_device_list(list);
    struct ibv_port_attr port;
    CHECK(!ibv_query_port(side->context, 1, &port));
    side->mtu = port.active_mtu;
    CHECK(!ibv_query_gid(side->context, 1, 0, &side->gid));
    side->pd = ibv_alloc_pd(side->context);
    CHECK(side->pd);
    side->cq = ibv_create_cq(side->context, 4096, NULL, NULL, 0);
    CHECK(side->cq);
}

/* Forks; true in the initiator, false in the target. Both have the device open. */
static inline int pair_start(struct side *side)
{
    int ends[2];
    memset(side, 0, sizeof *side);
    /* A program that hangs must not hold the tests up. */
    alarm(100);
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    side->child = fork();
    CHECK(side->child >= 0);
    int initiator = side->child > 0;
    side->link = ends[initiator];
    close(ends[!initiator]);
    if (!initiator)
        alarm(100);
    open_device(side);
    return initiator;
}

/* The initiator's end: the status of the target is part of the result. */
static inline int pair_end(struct side *side)
{
    int status = 0;
    if (side->child > 0) {
        CHECK(waitpid(side->child, &status, 0) == side->child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        puts("all right");
    }
    return 0;
}

static inline struct ibv_qp *make_qp(struct side *side, unsigned requests)
{
    struct ibv_qp_init_attr init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .cap = {.max_send_wr = requests, .max_recv_wr = requests, .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = side->is_unreliable ? IBV_QPT_UC : IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    struct ibv_qp *qp = ibv_create_qp(side->pd, &init);
    CHECK(qp);
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
    };
    if (!side->is_unreliable)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS));
    return qp;
}

/* To RTS, towards the queue pair on `card`. */
static inline void connect_qp(struct side *side, struct ibv_qp *qp, const struct card *card)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = side->mtu,
        .dest_qp_num = card->qpn,
        .rq_psn = card->psn,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1,
                    .grh = {.dgid = card->gid, .sgid_index = 0, .hop_limit = 64}},
    };
    int is_reliable = !side->is_unreliable;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        is_reliable * (IBV_QP_MAX_DEST_RD_ATOMIC |
                                                       IBV_QP_MIN_RNR_TIMER)));
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 1;
    attr.sq_psn = qp->qp_num & 0xffffff;
    attr.max_rd_atomic = 16;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN |
                                        is_reliable * (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                                       IBV_QP_RNR_RETRY |
                                                       IBV_QP_MAX_QP_RD_ATOMIC)));
}

/* A queue pair connected to the one that the other side makes at the same time; `mr` may be
 * NULL. What the other side offers is left in `theirs`. */
static inline struct ibv_qp *make_pair(struct side *side, unsigned requests, struct ibv_mr *mr,
                                       struct card *theirs)
{
    struct ibv_qp *qp = make_qp(side, requests);
    struct card ours = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffffff, .gid = side->gid};
    if (mr) {
        ours.rkey = mr->rkey;
        ours.address = (uintptr_t)mr->addr;
    }
    tell(side, &ours, sizeof ours);
    hear(side, theirs, sizeof *theirs);
    connect_qp(side, qp, theirs);
    meet(side);
    return qp;
}

static inline struct ibv_wc wait_completion(struct side *side)
{
    struct ibv_wc wc;
    double end = seconds_now() + 30;
    int count;
    while (!(count = ibv_poll_cq(side->cq, 1, &wc)))
        CHECK(seconds_now() < end);
    CHECK(count == 1);
    return wc;
}

/* Says which test it was that did not succeed. */
static inline void wait_success(struct side *side, const char *what)
{
    struct ibv_wc wc = wait_completion(side);
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc.status));
        exit(1);
    }
}

static inline int post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, const void *local,
                       uint32_t lkey, uint32_t length, uint64_t remote, uint32_t rkey)
{
    struct ibv_sge sge = {.addr = (uintptr_t)local, .length = length, .lkey = lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = remote;
    wr.wr.rdma.rkey = rkey;
    return ibv_post_send(qp, &wr, &bad);
}

static inline void post_receive(struct ibv_qp *qp, void *local, uint32_t lkey, uint32_t length)
{
    struct ibv_sge sge = {.addr = (uintptr_t)local, .length = length, .lkey = lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(qp, &wr, &bad));
}

#endif
