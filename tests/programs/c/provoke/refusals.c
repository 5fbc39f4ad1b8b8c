/* What a verb does not take: the error number, and which request was meant. */
#include "provoke.h"

#define GIVES_NULL(number, call) CHECK((errno = 0, !(call)) && errno == (number))

/* Nothing is posted before its state. */
static void wrong_state(void)
{
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    struct ibv_recv_wr receive_wr = {0}, *bad = NULL;
    initiator.qp = make_end_qp(&initiator, IBV_QPT_RC, initiator.cq);
    target.qp = make_end_qp(&target, IBV_QPT_RC, target.cq);
    CHECK(way->post(initiator.qp, &request) == EINVAL);
    CHECK(ibv_post_recv(initiator.qp, &receive_wr, &bad) == EINVAL && bad == &receive_wr);
    raise_end(&initiator, &target, usual(), 0);
    CHECK(way->post(initiator.qp, &request) == EINVAL);
    CHECK(!ibv_post_recv(initiator.qp, &receive_wr, &bad));
    end_pair();
}

/* Requests that are too large for the queue pair; the queue pair goes on. */
static void too_much(void)
{
    connect_ends(usual());
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_CAP, &init));
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    CHECK(init.cap.max_send_sge < 8);
    for (int number = 1; number < 8; number++)
        request.pieces[number] = request.pieces[0];
    request.count = init.cap.max_send_sge + 1;
    CHECK(way->post(initiator.qp, &request) == EINVAL);

    request = simple(IBV_WR_RDMA_WRITE, init.cap.max_inline_data + 1);
    request.flags |= IBV_SEND_INLINE;
    int error = way->post(initiator.qp, &request);
    CHECK(error == EINVAL || error == ENOMEM);
    request = simple(IBV_WR_RDMA_READ, 8);
    request.flags |= IBV_SEND_INLINE;
    CHECK(way->post(initiator.qp, &request) == EINVAL);
    request = simple(IBV_WR_ATOMIC_FETCH_AND_ADD, 4);
    CHECK(way->post(initiator.qp, &request) == EINVAL);
    request = simple(IBV_WR_RDMA_WRITE, 1u << 31);
    request.count = 2;
    request.pieces[1] = request.pieces[0];
    CHECK(way->post(initiator.qp, &request) == EINVAL);

    struct ibv_sge pieces[PIECES + 1] = {{0}};
    struct ibv_recv_wr wide = {.sg_list = pieces, .num_sge = init.cap.max_recv_sge + 1}, *bad;
    CHECK(init.cap.max_recv_sge <= PIECES);
    CHECK(ibv_post_recv(target.qp, &wide, &bad) == EINVAL && bad == &wide);

    request = simple(IBV_WR_RDMA_WRITE, init.cap.max_inline_data);
    request.flags |= IBV_SEND_INLINE;
    CHECK(!way->post(initiator.qp, &request));
    expect_status("inline data of the greatest length", &initiator, IBV_WC_SUCCESS);
    end_pair();
}

/* A queue takes as many as it was made for, and the next when one has completed. */
static void full_queue(void)
{
    struct terms terms = usual();
    terms.rnr_retry = 7;
    connect_ends(terms);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_CAP, &init));
    /* The first waits for a receive, and all the others for it. */
    struct request request = simple(IBV_WR_SEND, 8);
    for (unsigned number = 0; number < init.cap.max_send_wr; number++)
        CHECK(!way->post(initiator.qp, &request));
    CHECK(way->post(initiator.qp, &request) == ENOMEM);
    if (way == &old_way) {
        struct ibv_send_wr wrs[3] = {{.next = &wrs[1], .opcode = IBV_WR_SEND},
                                     {.next = &wrs[2], .opcode = IBV_WR_SEND},
                                     {.opcode = IBV_WR_SEND}}, *bad = NULL;
        receive(&target, 100, 64);
        expect_status("the first", &initiator, IBV_WC_SUCCESS);
        expect_status("its receive", &target, IBV_WC_SUCCESS);
        CHECK(ibv_post_send(initiator.qp, wrs, &bad) == ENOMEM && bad == &wrs[1]);
    }
    struct ibv_recv_wr receives[QUEUE + 2] = {{0}}, *bad = NULL;
    unsigned count = init.cap.max_recv_wr + 1;
    CHECK(count <= QUEUE + 1);
    for (unsigned number = 0; number < count; number++)
        receives[number].next = &receives[number + 1];
    CHECK(ibv_post_recv(initiator.qp, receives, &bad) == ENOMEM);
    CHECK(bad == &receives[count - 1]);
    end_pair();
}

/* Attributes that are out of range; the state stays. */
static void attributes(void)
{
    struct end *end = &initiator;
    end->qp = make_end_qp(end, IBV_QPT_RC, end->cq);
    target.qp = make_end_qp(&target, IBV_QPT_UD, target.cq);
    int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 2};
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.port_num = 1;
    attr.pkey_index = 1;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.pkey_index = 0;
    CHECK(ibv_modify_qp(end->qp, &attr, mask & ~IBV_QP_PORT) == EINVAL);
    CHECK(ibv_modify_qp(end->qp, &attr, mask | IBV_QP_QKEY) == EINVAL);
    CHECK(ibv_modify_qp(target.qp, &attr, mask) == EINVAL);
    CHECK(end->qp->state == IBV_QPS_RESET);
    CHECK(!ibv_modify_qp(end->qp, &attr, mask));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = 6, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = end->gid}}};
    mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.path_mtu = end->mtu;
    attr.min_rnr_timer = 32;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.min_rnr_timer = 1;
    attr.max_dest_rd_atomic = 255;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.max_dest_rd_atomic = 1;
    attr.ah_attr.grh.sgid_index = 200;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    attr.ah_attr.grh.sgid_index = 0;
    attr.ah_attr.is_global = 0;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    CHECK(end->qp->state == IBV_QPS_INIT);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(ibv_modify_qp(end->qp, &attr, mask) == EINVAL);
    end_pair();
}

/* Objects that do not belong together, and masks from the future. */
static void creation(void)
{
    struct ibv_qp_init_attr init = {.send_cq = initiator.cq, .recv_cq = target.cq,
                                    .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = 1}};
    GIVES_NULL(EINVAL, ibv_create_qp(initiator.pd, &init));
    init.recv_cq = NULL;
    GIVES_NULL(EINVAL, ibv_create_qp(initiator.pd, &init));
    init.recv_cq = initiator.cq;
    init.qp_type = 99;
    errno = 0;
    CHECK(!ibv_create_qp(initiator.pd, &init) && (errno == EINVAL || errno == EOPNOTSUPP));

    struct ibv_comp_channel *channel = ibv_create_comp_channel(target.context);
    CHECK(channel);
    GIVES_NULL(EINVAL, ibv_create_cq(initiator.context, 4, NULL, channel, 0));
    CHECK(!ibv_destroy_comp_channel(channel));
    struct ibv_qp_init_attr_ex ex = {.send_cq = initiator.cq, .recv_cq = initiator.cq,
                                     .qp_type = IBV_QPT_UD, .pd = initiator.pd,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD |
                                                  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
    GIVES_NULL(EOPNOTSUPP, ibv_create_qp_ex(initiator.context, &ex));
    ex.send_ops_flags = IBV_QP_EX_WITH_SEND;
    GIVES_NULL(EINVAL, ibv_create_qp_ex(target.context, &ex));

    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 0, .max_sge = 1}};
    GIVES_NULL(EINVAL, ibv_create_srq(initiator.pd, &srq));
    struct ibv_srq_init_attr_ex srq_ex = {.attr = {.max_wr = 4, .max_sge = 1}, .pd = initiator.pd,
                                          .comp_mask = IBV_SRQ_INIT_ATTR_PD | 1u << 30};
    errno = 0;
    CHECK(!ibv_create_srq_ex(initiator.context, &srq_ex));
    CHECK(errno == EINVAL || errno == EOPNOTSUPP);

    struct ibv_ah_attr ah = {.is_global = 1, .port_num = 2, .grh = {.dgid = target.gid}};
    GIVES_NULL(EINVAL, ibv_create_ah(initiator.pd, &ah));
    ah.port_num = 1;
    ah.grh.sgid_index = 200;
    GIVES_NULL(EINVAL, ibv_create_ah(initiator.pd, &ah));
    ah.grh.sgid_index = 0;
    ah.is_global = 0;
    GIVES_NULL(EINVAL, ibv_create_ah(initiator.pd, &ah));

    GIVES_NULL(EINVAL, ibv_reg_mr(initiator.pd, initiator.memory, SIZE_MAX, 0));
    struct ibv_query_device_ex_input input = {.comp_mask = 1};
    struct ibv_device_attr_ex device;
    CHECK(ibv_query_device_ex(initiator.context, &input, &device) == EINVAL);
    struct ibv_modify_cq_attr moderation = {.attr_mask = 1u << 30};
    int error = ibv_modify_cq(initiator.cq, &moderation);
    CHECK(error == EINVAL || error == EOPNOTSUPP);
}

void try_refusals(void)
{
    wrong_state();
    too_much();
    full_queue();
    attributes();
    creation();
}
