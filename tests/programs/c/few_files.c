/* A limit of open files that is lowered below our descriptors in the middle: what there is goes on,
 * what needs more descriptors fails or works, and all is as before when the limit is.
 */
#include "pair.h"

#include <errno.h>
#include <sys/resource.h>

static char memory[256];
static struct ibv_mr *mr;

static void write_to_self(struct side *side, struct ibv_qp *qp, const char *text)
{
    memset(memory, 0, sizeof memory);
    strcpy(memory, text);
    CHECK(!post(qp, IBV_WR_RDMA_WRITE, memory, mr->lkey, 64, (uintptr_t)memory + 64, mr->rkey));
    CHECK(wait_completion(side).status == IBV_WC_SUCCESS && !strcmp(memory + 64, text));
}

static struct ibv_qp *loop_to_self(struct side *side)
{
    struct ibv_qp *qp = make_qp(side, 8);
    struct card self = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffffff, .gid = side->gid};
    connect_qp(side, qp, &self);
    return qp;
}

int main(void)
{
    struct side side = {0};
    struct rlimit before, low;
    alarm(60);
    open_device(&side);
    mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = loop_to_self(&side);
    write_to_self(&side, qp, "before");
    CHECK(!getrlimit(RLIMIT_NOFILE, &before));
    for (rlim_t limit = 64; limit >= 4; limit /= 2) {
        low = before;
        low.rlim_cur = limit;
        CHECK(!setrlimit(RLIMIT_NOFILE, &low));
        write_to_self(&side, qp, "low");
        /* Needs no descriptor that cannot be shared. */
        write_to_self(&side, loop_to_self(&side), "another");
    }
    /* There is no room for any descriptor. */
    CHECK(!ibv_create_comp_channel(side.context) && errno == EMFILE);
    low.rlim_cur = before.rlim_cur;
    CHECK(!setrlimit(RLIMIT_NOFILE, &low));
    CHECK(ibv_create_comp_channel(side.context));
    write_to_self(&side, loop_to_self(&side), "after");
    puts("all right");
    return 0;
}
