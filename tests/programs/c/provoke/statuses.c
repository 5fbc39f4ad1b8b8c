/* What goes wrong on a connection gives the completion that the specification names, on both
 * sides, and flushes what is behind it. */
#include "provoke.h"

/* What is wrong, if anything. */
enum flaw {
    NONE,
    WRONG_LKEY,
    FOREIGN_LKEY, /* of another protection domain */
    LOCAL_READ_ONLY,
    LOCAL_UNMAPPED,
    WRONG_RKEY,
    FOREIGN_RKEY,
    REGION_FORBIDS,
    QP_FORBIDS,
    REMOTE_UNMAPPED,
    NO_READS,
    NO_PEER_READS,
    ABSENT,
};

struct trial {
    const char *what;
    enum ibv_wr_opcode opcode;
    enum flaw flaw;
    int64_t offset;
    uint32_t length;
    /* Posted by the target; 0 for none. */
    uint32_t receive;
    enum ibv_wc_status wanted, receiver;
    /* What the target is told; 0, which is CQ_ERR, for nothing. */
    enum ibv_event_type event;
};

#define OPERATION(name, receive)                                                                  \
    {#name, IBV_WR_##name, NONE, 0, 8, receive, IBV_WC_SUCCESS, IBV_WC_SUCCESS, 0}
#define FAILS(what, name, flaw, status, event)                                                    \
    {what, IBV_WR_##name, flaw, 0, 8, 0, IBV_WC_##status, 0, event}
#define ACCESS IBV_EVENT_QP_ACCESS_ERR
#define REQUEST IBV_EVENT_QP_REQ_ERR

static const struct trial trials[] = {
    OPERATION(SEND, 64),
    OPERATION(SEND_WITH_IMM, 64),
    OPERATION(RDMA_WRITE, 0),
    OPERATION(RDMA_WRITE_WITH_IMM, 64),
    OPERATION(RDMA_READ, 0),
    OPERATION(ATOMIC_CMP_AND_SWP, 0),
    OPERATION(ATOMIC_FETCH_AND_ADD, 0),
    {"WRITE at the very end", IBV_WR_RDMA_WRITE, NONE, BYTES - 8, 8, 0, IBV_WC_SUCCESS, 0, 0},

    {"SEND longer than the receive", IBV_WR_SEND, NONE, 0, 65, 64, IBV_WC_REM_INV_REQ_ERR,
     IBV_WC_LOC_LEN_ERR, REQUEST},
    {"SEND of packets longer than the receive", IBV_WR_SEND, NONE, 0, 20000, 12000,
     IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR, REQUEST},
    FAILS("READ without a depth", RDMA_READ, NO_READS, LOC_QP_OP_ERR, 0),
    FAILS("atomic without a depth", ATOMIC_FETCH_AND_ADD, NO_READS, LOC_QP_OP_ERR, 0),
    FAILS("SEND with a wrong lkey", SEND, WRONG_LKEY, LOC_PROT_ERR, 0),
    FAILS("WRITE with a wrong lkey", RDMA_WRITE, WRONG_LKEY, LOC_PROT_ERR, 0),
    FAILS("READ with a wrong lkey", RDMA_READ, WRONG_LKEY, LOC_PROT_ERR, 0),
    FAILS("WRITE from another domain", RDMA_WRITE, FOREIGN_LKEY, LOC_PROT_ERR, 0),
    FAILS("READ to another domain", RDMA_READ, FOREIGN_LKEY, LOC_PROT_ERR, 0),
    FAILS("READ to what may not be written", RDMA_READ, LOCAL_READ_ONLY, LOC_PROT_ERR, 0),
    FAILS("atomic to what may not be written", ATOMIC_FETCH_AND_ADD, LOCAL_READ_ONLY,
          LOC_PROT_ERR, 0),
    FAILS("WRITE from memory that is gone", RDMA_WRITE, LOCAL_UNMAPPED, LOC_PROT_ERR, 0),
    FAILS("READ to memory that is gone", RDMA_READ, LOCAL_UNMAPPED, LOC_PROT_ERR, 0),

    FAILS("READ beyond the peer's depth", RDMA_READ, NO_PEER_READS, REM_INV_REQ_ERR, REQUEST),
    FAILS("atomic beyond the peer's depth", ATOMIC_FETCH_AND_ADD, NO_PEER_READS,
          REM_INV_REQ_ERR, REQUEST),
    {"atomic at an odd address", IBV_WR_ATOMIC_FETCH_AND_ADD, NONE, 4, 8, 0,
     IBV_WC_REM_INV_REQ_ERR, 0, REQUEST},

    FAILS("WRITE with a wrong rkey", RDMA_WRITE, WRONG_RKEY, REM_ACCESS_ERR, ACCESS),
    FAILS("READ with a wrong rkey", RDMA_READ, WRONG_RKEY, REM_ACCESS_ERR, ACCESS),
    FAILS("atomic with a wrong rkey", ATOMIC_CMP_AND_SWP, WRONG_RKEY, REM_ACCESS_ERR, ACCESS),
    FAILS("WRITE to another domain", RDMA_WRITE, FOREIGN_RKEY, REM_ACCESS_ERR, ACCESS),
    FAILS("READ of another domain", RDMA_READ, FOREIGN_RKEY, REM_ACCESS_ERR, ACCESS),
    FAILS("WRITE that the region forbids", RDMA_WRITE, REGION_FORBIDS, REM_ACCESS_ERR, ACCESS),
    FAILS("READ that the region forbids", RDMA_READ, REGION_FORBIDS, REM_ACCESS_ERR, ACCESS),
    FAILS("atomic that the region forbids", ATOMIC_FETCH_AND_ADD, REGION_FORBIDS, REM_ACCESS_ERR,
          ACCESS),
    FAILS("WRITE that the queue pair forbids", RDMA_WRITE, QP_FORBIDS, REM_ACCESS_ERR, ACCESS),
    FAILS("READ that the queue pair forbids", RDMA_READ, QP_FORBIDS, REM_ACCESS_ERR, ACCESS),
    FAILS("atomic that the queue pair forbids", ATOMIC_CMP_AND_SWP, QP_FORBIDS, REM_ACCESS_ERR,
          ACCESS),
    {"WRITE past the end", IBV_WR_RDMA_WRITE, NONE, BYTES - 7, 8, 0, IBV_WC_REM_ACCESS_ERR, 0,
     ACCESS},
    {"WRITE before the begin", IBV_WR_RDMA_WRITE, NONE, -1, 8, 0, IBV_WC_REM_ACCESS_ERR, 0,
     ACCESS},
    {"READ past the end", IBV_WR_RDMA_READ, NONE, 1, BYTES, 0, IBV_WC_REM_ACCESS_ERR, 0, ACCESS},
    {"atomic past the end", IBV_WR_ATOMIC_FETCH_AND_ADD, NONE, BYTES, 8, 0,
     IBV_WC_REM_ACCESS_ERR, 0, ACCESS},
    {"SEND that invalidates no window", IBV_WR_SEND_WITH_INV, NONE, 0, 8, 64,
     IBV_WC_REM_ACCESS_ERR, IBV_WC_LOC_ACCESS_ERR, ACCESS},

    FAILS("WRITE to memory that is gone", RDMA_WRITE, REMOTE_UNMAPPED, REM_OP_ERR, REQUEST),
    FAILS("READ of memory that is gone", RDMA_READ, REMOTE_UNMAPPED, REM_OP_ERR, REQUEST),
    FAILS("atomic on memory that is gone", ATOMIC_FETCH_AND_ADD, REMOTE_UNMAPPED, REM_OP_ERR,
          REQUEST),
    FAILS("SEND to a peer that is not there", SEND, ABSENT, RETRY_EXC_ERR, 0),
    FAILS("READ of a peer that is not there", RDMA_READ, ABSENT, RETRY_EXC_ERR, 0),
    FAILS("SEND without a receive", SEND, NONE, RNR_RETRY_EXC_ERR, 0),
    FAILS("WRITE with immediate without a receive", RDMA_WRITE_WITH_IMM, NONE, RNR_RETRY_EXC_ERR,
          0),
};

/* Memory of its own for a trial, so that it can be taken away. */
static char *fresh(void)
{
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static struct ibv_mr *region(struct ibv_pd *pd, char *memory, int rights)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, rights);
    CHECK(mr);
    return mr;
}

/* What an operation does not get when it is forbidden. */
static int rights_without(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_READ:
        return ALL_RIGHTS & ~IBV_ACCESS_REMOTE_READ;
    case IBV_WR_RDMA_WRITE:
        return ALL_RIGHTS & ~IBV_ACCESS_REMOTE_WRITE;
    default:
        return ALL_RIGHTS & ~IBV_ACCESS_REMOTE_ATOMIC;
    }
}

static void check_success(const struct trial *trial, struct outcome outcome)
{
    static const enum ibv_wc_opcode done[] = {
        [IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
        [IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
        [IBV_WR_SEND] = IBV_WC_SEND,
        [IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
        [IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
        [IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
        [IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
    };
    CHECK(outcome.wr_id == 1 && outcome.qpn == initiator.qp->qp_num);
    CHECK(outcome.opcode == done[trial->opcode]);
}

static void check_receive(const struct trial *trial)
{
    struct outcome outcome = expect_outcome(&target);
    CHECK(outcome.status == trial->receiver && outcome.wr_id == 100);
    CHECK(outcome.qpn == target.qp->qp_num);
    if (outcome.status != IBV_WC_SUCCESS)
        return;
    int is_write = trial->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    int has_immediate = is_write || trial->opcode == IBV_WR_SEND_WITH_IMM;
    CHECK(outcome.opcode == (is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
    CHECK(outcome.bytes == trial->length);
    CHECK(!!(outcome.flags & IBV_WC_WITH_IMM) == has_immediate);
    CHECK(!has_immediate || outcome.immediate == 0x01020304);
}

static void try_one(const struct trial *trial)
{
    printf("%s: %s\n", trial->what, ibv_wc_status_str(trial->wanted));
    fflush(stdout);
    char *memories[2] = {fresh(), fresh()};
    struct ibv_pd *domains[2] = {ibv_alloc_pd(initiator.context), ibv_alloc_pd(target.context)};
    CHECK(domains[0] && domains[1]);
    struct ibv_mr *here =
        region(trial->flaw == FOREIGN_LKEY ? domains[0] : initiator.pd, memories[0],
               trial->flaw == LOCAL_READ_ONLY ? IBV_ACCESS_REMOTE_READ : ALL_RIGHTS);
    struct ibv_mr *there =
        region(trial->flaw == FOREIGN_RKEY ? domains[1] : target.pd, memories[1],
               trial->flaw == REGION_FORBIDS ? rights_without(trial->opcode) : ALL_RIGHTS);

    struct terms terms = usual();
    terms.no_reads = trial->flaw == NO_READS;
    terms.no_peer_reads = trial->flaw == NO_PEER_READS;
    terms.absent = trial->flaw == ABSENT;
    if (trial->flaw == QP_FORBIDS)
        terms.rights = rights_without(trial->opcode);
    connect_ends(terms);
    if (trial->receive)
        receive(&target, 100, trial->receive);
    if (trial->flaw == LOCAL_UNMAPPED)
        CHECK(!munmap(memories[0], BYTES));
    if (trial->flaw == REMOTE_UNMAPPED)
        CHECK(!munmap(memories[1], BYTES));

    struct request request = simple(trial->opcode, trial->length);
    request.pieces[0].addr = (uintptr_t)memories[0];
    request.pieces[0].lkey = here->lkey ^ (trial->flaw == WRONG_LKEY ? 0x100 : 0);
    request.remote = (uintptr_t)memories[1] + trial->offset;
    request.rkey = there->rkey ^ (trial->flaw == WRONG_RKEY ? 0x100 : 0);
    CHECK(!way->post(initiator.qp, &request));
    /* It may be refused already, where the first has failed: then it was never there. */
    struct request behind = simple(IBV_WR_RDMA_WRITE, 0);
    behind.wr_id = 2;
    behind.remote = (uintptr_t)memories[1];
    behind.rkey = there->rkey;
    CHECK(!way->post(initiator.qp, &behind));

    struct outcome outcome = expect_outcome(&initiator);
    if (outcome.status != trial->wanted) {
        fprintf(stderr, "%s: %s\n", trial->what, ibv_wc_status_str(outcome.status));
        exit(1);
    }
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    if (outcome.status == IBV_WC_SUCCESS) {
        check_success(trial, outcome);
        expect_status("the one behind it", &initiator, IBV_WC_SUCCESS);
    } else {
        expect_status("the one behind it", &initiator, IBV_WC_WR_FLUSH_ERR);
        CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_STATE, &init));
        CHECK(attr.qp_state == IBV_QPS_ERR);
        /* What comes later is flushed too. */
        CHECK(!way->post(initiator.qp, &request));
        expect_status("one that came later", &initiator, IBV_WC_WR_FLUSH_ERR);
    }
    if (trial->receive)
        check_receive(trial);
    if (trial->event) {
        struct ibv_async_event event = expect_event(&target, trial->event);
        CHECK(event.element.qp == target.qp);
        ibv_ack_async_event(&event);
        CHECK(!ibv_query_qp(target.qp, &attr, IBV_QP_STATE, &init));
        CHECK(attr.qp_state == IBV_QPS_ERR);
    }
    end_pair();
    CHECK(!ibv_dereg_mr(here) && !ibv_dereg_mr(there));
    CHECK(!ibv_dealloc_pd(domains[0]) && !ibv_dealloc_pd(domains[1]));
    if (trial->flaw != LOCAL_UNMAPPED)
        munmap(memories[0], BYTES);
    if (trial->flaw != REMOTE_UNMAPPED)
        munmap(memories[1], BYTES);
}

/* A receive whose memory is no good: the peer is told that the operation failed here. */
static void try_bad_receive(void)
{
    connect_ends(usual());
    struct ibv_sge piece = {(uintptr_t)target.memory, 64, target.mr->lkey ^ 0x100};
    struct ibv_recv_wr wr = {.wr_id = 100, .sg_list = &piece, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(target.qp, &wr, &bad));
    struct request request = simple(IBV_WR_SEND, 8);
    CHECK(!way->post(initiator.qp, &request));
    expect_status("SEND into a receive with a wrong lkey", &initiator, IBV_WC_REM_OP_ERR);
    expect_status("its receive", &target, IBV_WC_LOC_PROT_ERR);
    struct ibv_async_event event = expect_event(&target, REQUEST);
    ibv_ack_async_event(&event);
    end_pair();
}

/* Whoever goes to the error state flushes both queues. */
static void try_flush(void)
{
    connect_ends(usual());
    for (int number = 0; number < 3; number++)
        receive(&target, 100 + number, 64);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(target.qp, &attr, IBV_QP_STATE));
    for (int number = 0; number < 3; number++) {
        struct outcome outcome = expect_outcome(&target);
        CHECK(outcome.status == IBV_WC_WR_FLUSH_ERR && outcome.wr_id == 100u + number);
    }
    receive(&target, 200, 64);
    expect_status("a receive posted in the error state", &target, IBV_WC_WR_FLUSH_ERR);
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    CHECK(!way->post(target.qp, &request));
    expect_status("a WRITE posted in the error state", &target, IBV_WC_WR_FLUSH_ERR);
    end_pair();
}

void try_statuses(void)
{
    for (unsigned number = 0; number < sizeof trials / sizeof *trials; number++)
        try_one(&trials[number]);
    try_bad_receive();
    try_flush();
}
