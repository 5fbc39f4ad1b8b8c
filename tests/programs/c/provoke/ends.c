/* Two ends: opened once, with a new pair of queue pairs for every trial. */
#include "provoke.h"

#include <fcntl.h>
#include <poll.h>

struct end initiator, target;

void open_end(struct end *end)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    end->context = ibv_open_device(list[0]);
    CHECK(end->context);
    ibv_free_device_list(list);
    struct ibv_port_attr port;
    CHECK(!ibv_query_port(end->context, 1, &port));
    end->mtu = port.active_mtu;
    CHECK(!ibv_query_gid(end->context, 1, 0, &end->gid));
    CHECK(!fcntl(end->context->async_fd, F_SETFL, O_NONBLOCK));
    end->pd = ibv_alloc_pd(end->context);
    end->cq = way->make_cq(end->context, 64);
    CHECK(end->pd && end->cq);
    end->memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(end->memory != MAP_FAILED);
    end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_RIGHTS);
    CHECK(end->mr);
}

struct terms usual(void)
{
    return (struct terms){.type = IBV_QPT_RC, .rights = ALL_RIGHTS, .rnr_retry = 1,
                          .qkey = 0x1234, .timeout = 10};
}

struct ibv_qp *make_end_qp(struct end *end, enum ibv_qp_type type, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .srq = end->srq, .qp_type = type, .sq_sig_all = 1,
        .cap = {.max_send_wr = QUEUE, .max_recv_wr = QUEUE, .max_send_sge = PIECES,
                .max_recv_sge = PIECES, .max_inline_data = INLINE_BYTES}};
    struct ibv_qp *qp = way->make_qp(end->context, end->pd, &init);
    CHECK(qp);
    return qp;
}

/* To INIT, ready to receive and, if asked for, ready to send. */
void raise_end(struct end *end, const struct end *other, struct terms terms, int to_send)
{
    int is_rc = terms.type == IBV_QPT_RC, is_ud = terms.type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = terms.rights, .qkey = terms.qkey};
    CHECK(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = end->mtu,
        /* A number of this process's that it has not given out. */
        .dest_qp_num = other->qp->qp_num ^ (terms.absent ? 0x2000 : 0),
        .rq_psn = 7, .max_dest_rd_atomic = terms.no_peer_reads ? 0 : 4, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1,
                    .grh = {.dgid = other->gid, .sgid_index = 0, .hop_limit = 64}}};
    CHECK(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE |
                             (is_ud ? 0
                                    : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                          IBV_QP_RQ_PSN) |
                             (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
    if (!to_send)
        return;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = terms.timeout, .retry_cnt = 1,
                                .rnr_retry = terms.rnr_retry, .sq_psn = 7,
                                .max_rd_atomic = terms.no_reads ? 0 : 4};
    CHECK(!ibv_modify_qp(end->qp, &attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN |
                             (is_rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                          IBV_QP_MAX_QP_RD_ATOMIC
                                    : 0)));
}

void connect_ends(struct terms terms)
{
    initiator.qp = make_end_qp(&initiator, terms.type, initiator.cq);
    target.qp = make_end_qp(&target, terms.type, target.cq);
    raise_end(&target, &initiator, terms, !terms.target_not_sending);
    raise_end(&initiator, &target, terms, 1);
}

void end_pair(void)
{
    CHECK(!ibv_destroy_qp(initiator.qp) && !ibv_destroy_qp(target.qp));
    initiator.qp = target.qp = NULL;
    expect_no_outcome(&initiator);
    expect_no_outcome(&target);
    expect_no_event(&initiator);
    expect_no_event(&target);
}

/* A request about the begin of both memories. */
struct request simple(enum ibv_wr_opcode opcode, uint32_t length)
{
    return (struct request){
        .wr_id = 1, .opcode = opcode, .flags = IBV_SEND_SIGNALED, .count = 1,
        .pieces = {{(uintptr_t)initiator.memory, length, initiator.mr->lkey}},
        .remote = (uintptr_t)target.memory, .rkey = target.mr->rkey, .immediate = 0x01020304};
}

void receive(struct end *end, uint64_t wr_id, uint32_t length)
{
    struct ibv_sge piece = {(uintptr_t)end->memory, length, end->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &piece, .num_sge = 1}, *bad;
    CHECK(!(end->srq ? ibv_post_srq_recv(end->srq, &wr, &bad)
                     : ibv_post_recv(end->qp, &wr, &bad)));
}

struct outcome expect_outcome(struct end *end)
{
    struct outcome outcome;
    double limit = seconds_now() + 20;
    while (!way->poll(end->cq, &outcome))
        CHECK(seconds_now() < limit);
    return outcome;
}

void expect_status(const char *what, struct end *end, enum ibv_wc_status wanted)
{
    struct outcome outcome = expect_outcome(end);
    if (outcome.status != wanted) {
        fprintf(stderr, "%s: %s instead of %s\n", what, ibv_wc_status_str(outcome.status),
                ibv_wc_status_str(wanted));
        exit(1);
    }
}

void expect_no_outcome(struct end *end)
{
    struct outcome outcome;
    CHECK(!way->poll(end->cq, &outcome));
}

/* The next event, which is not acknowledged yet. */
struct ibv_async_event expect_event(struct end *end, enum ibv_event_type wanted)
{
    struct pollfd descriptor = {.fd = end->context->async_fd, .events = POLLIN};
    if (poll(&descriptor, 1, 10000) != 1) {
        fprintf(stderr, "no event, where %s should come\n", ibv_event_type_str(wanted));
        exit(1);
    }
    struct ibv_async_event event;
    CHECK(!ibv_get_async_event(end->context, &event));
    if (event.event_type != wanted) {
        fprintf(stderr, "%s instead of %s\n", ibv_event_type_str(event.event_type),
                ibv_event_type_str(wanted));
        exit(1);
    }
    return event;
}

void expect_no_event(struct end *end)
{
    struct pollfd descriptor = {.fd = end->context->async_fd, .events = POLLIN};
    CHECK(poll(&descriptor, 1, 0) == 0);
    struct ibv_async_event event;
    CHECK(ibv_get_async_event(end->context, &event) == -1 && errno == EAGAIN);
}
