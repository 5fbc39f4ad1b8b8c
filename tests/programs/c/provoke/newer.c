/* The newer way: ibv_wr_* and ibv_start_poll. */
#include "provoke.h"

static struct ibv_cq *make_cq(struct ibv_context *context, int depth)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = depth, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);
    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_pd *pd,
                              struct ibv_qp_init_attr *init)
{
    uint64_t operations = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    if (init->qp_type != IBV_QPT_UD)
        operations |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    if (init->qp_type == IBV_QPT_RC)
        operations |= IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;
    struct ibv_qp_init_attr_ex ex = {
        .send_cq = init->send_cq, .recv_cq = init->recv_cq, .srq = init->srq, .cap = init->cap,
        .qp_type = init->qp_type, .sq_sig_all = init->sq_sig_all, .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = operations};
    struct ibv_qp *qp = ibv_create_qp_ex(context, &ex);
    init->cap = ex.cap;
    return qp;
}

static int post_one(struct ibv_qp *plain, const struct request *request)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(plain);
    CHECK(qp);
    ibv_wr_start(qp);
    qp->wr_id = request->wr_id;
    qp->wr_flags = request->flags;
    switch (request->opcode) {
    case IBV_WR_SEND:
        ibv_wr_send(qp);
        break;
    case IBV_WR_SEND_WITH_IMM:
        ibv_wr_send_imm(qp, request->immediate);
        break;
    case IBV_WR_SEND_WITH_INV:
        ibv_wr_send_inv(qp, request->rkey);
        break;
    case IBV_WR_RDMA_WRITE:
        ibv_wr_rdma_write(qp, request->rkey, request->remote);
        break;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        ibv_wr_rdma_write_imm(qp, request->rkey, request->remote, request->immediate);
        break;
    case IBV_WR_RDMA_READ:
        ibv_wr_rdma_read(qp, request->rkey, request->remote);
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        ibv_wr_atomic_cmp_swp(qp, request->rkey, request->remote, request->operand,
                              request->swap);
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        ibv_wr_atomic_fetch_add(qp, request->rkey, request->remote, request->operand);
        break;
    default:
        CHECK(!"an operation that the trials use");
    }
    if (plain->qp_type == IBV_QPT_UD)
        ibv_wr_set_ud_addr(qp, request->ah, request->qpn, request->qkey);
    if (request->flags & IBV_SEND_INLINE)
        ibv_wr_set_inline_data(qp, (void *)(uintptr_t)request->pieces[0].addr,
                               request->pieces[0].length);
    else if (request->count == 1)
        ibv_wr_set_sge(qp, request->pieces[0].lkey, request->pieces[0].addr,
                       request->pieces[0].length);
    else
        ibv_wr_set_sge_list(qp, request->count, request->pieces);
    return ibv_wr_complete(qp);
}

static int poll_one(struct ibv_cq *plain, struct outcome *outcome)
{
    struct ibv_cq_ex *cq = (struct ibv_cq_ex *)plain;
    struct ibv_poll_cq_attr attr = {0};
    int result = ibv_start_poll(cq, &attr);
    if (result == ENOENT)
        return 0;
    CHECK(!result);
    *outcome = (struct outcome){.wr_id = cq->wr_id, .status = cq->status,
                                .qpn = ibv_wc_read_qp_num(cq)};
    if (cq->status == IBV_WC_SUCCESS) {
        outcome->opcode = ibv_wc_read_opcode(cq);
        outcome->bytes = ibv_wc_read_byte_len(cq);
        outcome->flags = ibv_wc_read_wc_flags(cq);
        outcome->immediate = ibv_wc_read_imm_data(cq);
    }
    ibv_end_poll(cq);
    return 1;
}

const struct way newer_way = {"newer", make_cq, make_qp, post_one, poll_one};
