/* Datagrams and unreliable connections that do not fit: what is sent in vain vanishes, and what
 * cannot be sent stops the send queue, which may go on afterwards. */
#include "provoke.h"

enum { GRH = 40 };

static struct ibv_ah *handle_of_target(struct ibv_pd *pd)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1,
                               .grh = {.dgid = target.gid, .sgid_index = 0, .hop_limit = 64}};
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    CHECK(ah);
    return ah;
}

/* Sends what arrives, and sees that it is the only thing that does. */
static void arrives(struct request request, uint64_t wr_id)
{
    request.wr_id = wr_id;
    CHECK(!way->post(initiator.qp, &request));
    expect_status("a datagram that arrives", &initiator, IBV_WC_SUCCESS);
    struct outcome outcome = expect_outcome(&target);
    CHECK(outcome.status == IBV_WC_SUCCESS && outcome.wr_id == wr_id);
    CHECK(outcome.bytes == GRH + request.pieces[0].length && outcome.flags & IBV_WC_GRH);
    expect_no_outcome(&target);
}

static void in_vain(const char *what, struct request request)
{
    CHECK(!way->post(initiator.qp, &request));
    expect_status(what, &initiator, IBV_WC_SUCCESS);
}

/* The send queue stops with a status, flushes, and is started again. */
static void stops(const char *what, struct request request, enum ibv_wc_status wanted)
{
    CHECK(!way->post(initiator.qp, &request));
    expect_status(what, &initiator, wanted);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_STATE, &init));
    CHECK(attr.qp_state == IBV_QPS_SQE);
    CHECK(!way->post(initiator.qp, &request));
    expect_status("one behind it", &initiator, IBV_WC_WR_FLUSH_ERR);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(!ibv_modify_qp(initiator.qp, &attr, IBV_QP_STATE));
}

void try_datagrams(void)
{
    struct terms terms = usual();
    terms.type = IBV_QPT_UD;
    connect_ends(terms);
    for (int number = 0; number < 4; number++)
        receive(&target, 1 + number, number == 3 ? GRH + 63 : 4096);
    struct ibv_ah *ah = handle_of_target(initiator.pd);
    struct request request = simple(IBV_WR_SEND, 64), other;
    request.ah = ah;
    request.qpn = target.qp->qp_num;
    request.qkey = terms.qkey;

    arrives(request, 1);
    other = request;
    other.qkey ^= 1;
    in_vain("a wrong Q_Key", other);
    other = request;
    other.qpn ^= 0x2000;
    in_vain("nobody's number", other);
    arrives(request, 2);

    other = request;
    other.pieces[0].length = (128u << target.mtu) + 1;
    stops("a datagram beyond the MTU", other, IBV_WC_LOC_LEN_ERR);
    other = request;
    other.ah = NULL;
    stops("a datagram to nowhere", other, IBV_WC_LOC_QP_OP_ERR);
    struct ibv_pd *foreign = ibv_alloc_pd(initiator.context);
    CHECK(foreign);
    other.ah = handle_of_target(foreign);
    stops("an address handle of another domain", other, IBV_WC_LOC_QP_OP_ERR);
    CHECK(!ibv_destroy_ah(other.ah) && !ibv_dealloc_pd(foreign));
    other = request;
    other.pieces[0].lkey ^= 0x100;
    stops("a datagram with a wrong lkey", other, IBV_WC_LOC_PROT_ERR);
    other = request;
    other.opcode = IBV_WR_RDMA_WRITE;
    if (way == &old_way)
        CHECK(way->post(initiator.qp, &other) == EINVAL);
    arrives(request, 3);

    /* A receive that is too short ends the receiver: it cannot say so to anybody. */
    CHECK(!way->post(initiator.qp, &request));
    expect_status("a datagram that does not fit", &initiator, IBV_WC_SUCCESS);
    expect_status("its receive", &target, IBV_WC_LOC_LEN_ERR);
    CHECK(!ibv_destroy_ah(ah));
    end_pair();

    /* An unreliable connection: a wrong key is nobody's business but the receiver's. */
    terms.type = IBV_QPT_UC;
    terms.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_ends(terms);
    memset(target.memory, 0, 16);
    memset(initiator.memory, 'x', 16);
    request = simple(IBV_WR_RDMA_WRITE, 8);
    request.rkey ^= 0x100;
    in_vain("a wrong rkey", request);
    receive(&target, 1, 64);
    request = simple(IBV_WR_RDMA_WRITE_WITH_IMM, 8);
    request.remote += 8;
    in_vain("a WRITE with immediate", request);
    expect_status("the immediate", &target, IBV_WC_SUCCESS);
    CHECK(!memcmp(target.memory, "\0\0\0\0\0\0\0\0xxxxxxxx", 16));
    request = simple(IBV_WR_RDMA_WRITE, 8);
    request.pieces[0].lkey ^= 0x100;
    CHECK(!way->post(initiator.qp, &request));
    expect_status("a WRITE with a wrong lkey", &initiator, IBV_WC_LOC_PROT_ERR);
    end_pair();
}
