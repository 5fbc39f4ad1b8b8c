/* The old way: ibv_post_send and ibv_poll_cq. */
#include "provoke.h"

static struct ibv_cq *make_cq(struct ibv_context *context, int depth)
{
    return ibv_create_cq(context, depth, NULL, NULL, 0);
}

static struct ibv_qp *make_qp(struct ibv_context *context, struct ibv_pd *pd,
                              struct ibv_qp_init_attr *init)
{
    (void)context;
    return ibv_create_qp(pd, init);
}

static int post_one(struct ibv_qp *qp, const struct request *request)
{
    struct ibv_send_wr wr = {
        .wr_id = request->wr_id,
        .sg_list = (struct ibv_sge *)request->pieces,
        .num_sge = request->count,
        .opcode = request->opcode,
        .send_flags = request->flags,
        .imm_data = request->immediate,
    }, *bad = NULL;
    switch (request->opcode) {
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wr.wr.atomic.remote_addr = request->remote;
        wr.wr.atomic.rkey = request->rkey;
        wr.wr.atomic.compare_add = request->operand;
        wr.wr.atomic.swap = request->swap;
        break;
    case IBV_WR_SEND_WITH_INV:
        wr.invalidate_rkey = request->rkey;
        break;
    default:
        if (qp->qp_type == IBV_QPT_UD) {
            wr.wr.ud.ah = request->ah;
            wr.wr.ud.remote_qpn = request->qpn;
            wr.wr.ud.remote_qkey = request->qkey;
        } else {
            wr.wr.rdma.remote_addr = request->remote;
            wr.wr.rdma.rkey = request->rkey;
        }
    }
    int error = ibv_post_send(qp, &wr, &bad);
    CHECK(!error || bad == &wr);
    return error;
}

static int poll_one(struct ibv_cq *cq, struct outcome *outcome)
{
    struct ibv_wc wc;
    int count = ibv_poll_cq(cq, 1, &wc);
    CHECK(count >= 0);
    if (count)
        *outcome = (struct outcome){.wr_id = wc.wr_id, .status = wc.status, .opcode = wc.opcode,
                                    .bytes = wc.byte_len, .immediate = wc.imm_data,
                                    .qpn = wc.qp_num, .flags = wc.wc_flags};
    return count;
}

const struct way old_way = {"old", make_cq, make_qp, post_one, poll_one};
