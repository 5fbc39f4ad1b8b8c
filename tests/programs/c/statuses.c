/* What goes wrong gives the completion that the specification names. */
#include "pair.h"

enum { BYTES = 4096 };

static char *memory;
static int faults;

static void expect(const char *what, struct ibv_wc wc, enum ibv_wc_status wanted)
{
    int right = wc.status == wanted;
    printf("%-44s %2d %s%s\n", what, wc.status, ibv_wc_status_str(wc.status),
           right ? "" : "  <- wrong");
    if (!right) {
        printf("    wanted %d %s\n", wanted, ibv_wc_status_str(wanted));
        faults++;
    }
}

/* One request that fails on a queue pair of its own, and the request behind it, flushed. */
struct trial {
    const char *what;
    enum ibv_wr_opcode opcode;
    int64_t remote_offset;
    uint32_t rkey_change, lkey_change, length;
    int access;
    int receive_bytes;
    enum ibv_wc_status wanted, receiver;
};

#define ALL (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)

static const struct trial trials[] = {
    {"WRITE that is allowed", IBV_WR_RDMA_WRITE, 0, 0, 0, 64, ALL, 0, IBV_WC_SUCCESS, 0},
    {"READ that is allowed", IBV_WR_RDMA_READ, 0, 0, 0, 64, ALL, 0, IBV_WC_SUCCESS, 0},
    {"WRITE with a wrong rkey", IBV_WR_RDMA_WRITE, 0, 0x100, 0, 64, ALL, 0,
     IBV_WC_REM_ACCESS_ERR, 0},
    {"READ with a wrong rkey", IBV_WR_RDMA_READ, 0, 0x100, 0, 64, ALL, 0, IBV_WC_REM_ACCESS_ERR,
     0},
    {"WRITE past the end", IBV_WR_RDMA_WRITE, BYTES - 63, 0, 0, 64, ALL, 0,
     IBV_WC_REM_ACCESS_ERR, 0},
    {"WRITE before the begin", IBV_WR_RDMA_WRITE, -1, 0, 0, 64, ALL, 0, IBV_WC_REM_ACCESS_ERR, 0},
    {"READ past the end", IBV_WR_RDMA_READ, 1, 0, 0, BYTES, ALL, 0, IBV_WC_REM_ACCESS_ERR, 0},
    {"WRITE at the very end", IBV_WR_RDMA_WRITE, BYTES - 64, 0, 0, 64, ALL, 0, IBV_WC_SUCCESS, 0},
    {"WRITE to what may be read only", IBV_WR_RDMA_WRITE, 0, 0, 0, 64,
     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, 0, IBV_WC_REM_ACCESS_ERR, 0},
    {"READ of what may be written only", IBV_WR_RDMA_READ, 0, 0, 0, 64,
     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, 0, IBV_WC_REM_ACCESS_ERR, 0},
    {"WRITE with a wrong lkey", IBV_WR_RDMA_WRITE, 0, 0, 0x100, 64, ALL, 0, IBV_WC_LOC_PROT_ERR,
     0},
    {"SEND that is received", IBV_WR_SEND, 0, 0, 0, 64, ALL, 64, IBV_WC_SUCCESS, IBV_WC_SUCCESS},
    {"SEND longer than the receive", IBV_WR_SEND, 0, 0, 0, 65, ALL, 64, IBV_WC_REM_INV_REQ_ERR,
     IBV_WC_LOC_LEN_ERR},
    {"SEND without a receive", IBV_WR_SEND, 0, 0, 0, 64, ALL, 0, IBV_WC_RNR_RETRY_EXC_ERR, 0},
};

static void run(struct side *side, const struct trial *trial, int initiator)
{
    struct card card;
    struct ibv_mr *mr = ibv_reg_mr(side->pd, memory, BYTES, initiator ? ALL : trial->access);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(side, 4, mr, &card);
    if (initiator) {
        meet(side);
        /* A region of the other side is as long as ours. */
        for (int number = 0; number < 2; number++)
            CHECK(!post(qp, trial->opcode, memory, mr->lkey + trial->lkey_change, trial->length,
                        card.address + trial->remote_offset, card.rkey + trial->rkey_change) ||
                  number);
        expect(trial->what, wait_completion(side), trial->wanted);
        if (trial->wanted != IBV_WC_SUCCESS)
            expect("    and the one behind it", wait_completion(side), IBV_WC_WR_FLUSH_ERR);
        else if (trial->opcode != IBV_WR_SEND)
            CHECK(wait_completion(side).status == IBV_WC_SUCCESS);
    } else {
        if (trial->receive_bytes)
            post_receive(qp, memory, mr->lkey, trial->receive_bytes);
        meet(side);
        if (trial->receive_bytes)
            expect("    its receive", wait_completion(side), trial->receiver);
    }
    meet(side);
    CHECK(!ibv_destroy_qp(qp));
    CHECK(!ibv_dereg_mr(mr));
    /* A second SEND had no receive: what it left belongs to no later trial. */
    struct ibv_wc wc;
    while (ibv_poll_cq(side->cq, 1, &wc) > 0)
        ;
    meet(side);
}

/* The target's memory goes away under its region: an error on the initiator, no crash. */
static void unmapped(struct side *side, int initiator, enum ibv_wr_opcode opcode, const char *what)
{
    struct card card;
    char *gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gone != MAP_FAILED);
    struct ibv_mr *mr = ibv_reg_mr(side->pd, initiator ? memory : gone, BYTES, ALL);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(side, 4, mr, &card);
    if (!initiator)
        CHECK(!munmap(gone, BYTES));
    meet(side);
    if (initiator) {
        CHECK(!post(qp, opcode, memory, mr->lkey, 64, card.address, card.rkey));
        expect(what, wait_completion(side), IBV_WC_REM_OP_ERR);
    }
    meet(side);
    CHECK(!ibv_destroy_qp(qp));
    CHECK(!ibv_dereg_mr(mr));
    meet(side);
}

int main(void)
{
    struct side side;
    int initiator = pair_start(&side);
    CHECK(!posix_memalign((void **)&memory, 4096, BYTES));
    for (unsigned number = 0; number < sizeof trials / sizeof *trials; number++)
        run(&side, &trials[number], initiator);
    unmapped(&side, initiator, IBV_WR_RDMA_WRITE, "WRITE to memory that was unmapped");
    unmapped(&side, initiator, IBV_WR_RDMA_READ, "READ of memory that was unmapped");
    fflush(stdout);
    if (faults)
        return 1;
    return pair_end(&side);
}
