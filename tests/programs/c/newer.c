/* The newer way to post (ibv_wr_*) and to poll (ibv_start_poll): lists, inline data in pieces,
 * immediate data, giving up, and a mistake that nothing of is posted. */
#include "pair.h"

#include <arpa/inet.h>
#include <errno.h>

enum { SIZE = 4096, LIST = 48 };

static struct ibv_qp_ex *make_newer(struct side *side, struct ibv_mr *mr, struct card *theirs)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = side->cq,
        .recv_cq = side->cq,
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 4, .max_recv_sge = 1,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = side->pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
                          IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                          IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(side->context, &init);
    CHECK(qp && ibv_qp_to_qp_ex(qp));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_LOCAL_WRITE |
                                                  IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_WRITE};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS));
    struct card ours = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffffff, .rkey = mr->rkey,
                        .address = (uintptr_t)mr->addr, .gid = side->gid};
    tell(side, &ours, sizeof ours);
    hear(side, theirs, sizeof *theirs);
    connect_qp(side, qp, theirs);
    return ibv_qp_to_qp_ex(qp);
}

/* Polls one completion the newer way. */
static void poll_newer(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr attr = {0};
    double end = seconds_now() + 30;
    int result;
    while ((result = ibv_start_poll(cq, &attr)) == ENOENT)
        CHECK(seconds_now() < end);
    CHECK(!result);
}

static void initiate(struct side *side, struct ibv_qp_ex *qp, struct ibv_mr *mr, char *memory,
                     const struct card *theirs)
{
    struct ibv_wc wc;
    /* A list: each writes its own byte from two pieces; only the last is signaled. */
    for (int number = 0; number < LIST; number++)
        memory[number] = 'a' + number % 26;
    ibv_wr_start(qp);
    for (int number = 0; number < LIST; number += 2) {
        struct ibv_sge pieces[2] = {{(uintptr_t)memory + number, 1, mr->lkey},
                                    {(uintptr_t)memory + number + 1, 1, mr->lkey}};
        qp->wr_id = number;
        qp->wr_flags = number == LIST - 2 ? IBV_SEND_SIGNALED : 0;
        ibv_wr_rdma_write(qp, theirs->rkey, theirs->address + number);
        ibv_wr_set_sge_list(qp, 2, pieces);
    }
    CHECK(!ibv_wr_complete(qp));
    wc = wait_completion(side);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == LIST - 2 && wc.opcode == IBV_WC_RDMA_WRITE);

    /* It comes back the same. */
    ibv_wr_start(qp);
    qp->wr_id = 1000;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(qp, theirs->rkey, theirs->address);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory + 1024, LIST);
    CHECK(!ibv_wr_complete(qp));
    wc = wait_completion(side);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1000 && wc.opcode == IBV_WC_RDMA_READ);
    CHECK(!memcmp(memory, memory + 1024, LIST));

    /* Given up: nothing happens. Inline data too long: nothing of the list is posted. */
    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_send(qp);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    qp->wr_id = 2;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, memory, 2000);
    CHECK(ibv_wr_complete(qp));

    /* Inline data in pieces, which may change at once, and immediate data. */
    char pieces[] = "inline";
    struct ibv_data_buf buffers[] = {{pieces, 2}, {pieces + 2, 4}};
    ibv_wr_start(qp);
    qp->wr_id = 3;
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_wr_send_imm(qp, htonl(0x12345678));
    ibv_wr_set_inline_data_list(qp, 2, buffers);
    CHECK(!ibv_wr_complete(qp));
    memset(pieces, 0, sizeof pieces);
    wc = wait_completion(side);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 3 && wc.opcode == IBV_WC_SEND);
}

int main(void)
{
    static char memory[SIZE];
    struct side side;
    int initiator = pair_start(&side);
    struct ibv_cq_init_attr_ex attr = {.cqe = 128, .wc_flags = IBV_WC_STANDARD_FLAGS};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(side.context, &attr);
    CHECK(cq && !ibv_destroy_cq(side.cq));
    side.cq = ibv_cq_ex_to_cq(cq);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, SIZE,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING);
    CHECK(mr);
    struct card theirs;
    struct ibv_qp_ex *qp = make_newer(&side, mr, &theirs);
    if (!initiator) {
        memset(memory + 2048, 0, 64);
        post_receive(&qp->qp_base, memory + 2048, mr->lkey, 64);
    }
    meet(&side);
    if (initiator) {
        initiate(&side, qp, mr, memory, &theirs);
    } else {
        poll_newer(cq);
        CHECK(cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_RECV);
        CHECK(ibv_wc_read_byte_len(cq) == 6 && ibv_wc_read_qp_num(cq) == qp->qp_base.qp_num);
        CHECK(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM);
        CHECK(ibv_wc_read_imm_data(cq) == htonl(0x12345678));
        CHECK(ibv_next_poll(cq) == ENOENT);
        ibv_end_poll(cq);
        CHECK(!memcmp(memory + 2048, "inline\0", 7));
        for (int number = 0; number < LIST; number++)
            CHECK(memory[number] == 'a' + number % 26);
    }
    meet(&side);
    CHECK(!ibv_destroy_qp(&qp->qp_base) && !ibv_destroy_cq(side.cq) && !ibv_dereg_mr(mr));
    return pair_end(&side);
}
