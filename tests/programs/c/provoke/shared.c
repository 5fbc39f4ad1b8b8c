/* A shared receive queue that runs dry and comes back, and what it refuses. */
#include "provoke.h"

#include <unistd.h>

void try_shared_receives(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    target.srq = ibv_create_srq(target.pd, &init);
    CHECK(target.srq);
    struct terms terms = usual();
    terms.rnr_retry = 7;
    connect_ends(terms);

    /* Nobody may post to a queue pair that has none of its own. */
    struct ibv_recv_wr wr = {0}, *bad = NULL;
    CHECK(ibv_post_recv(target.qp, &wr, &bad) == EINVAL && bad == &wr);
    CHECK(ibv_destroy_srq(target.srq) == EBUSY);

    /* Dry: the sender waits, and goes on as soon as there is a receive. */
    struct request request = simple(IBV_WR_SEND, 8);
    CHECK(!way->post(initiator.qp, &request) && !way->post(initiator.qp, &request));
    usleep(50000);
    expect_no_outcome(&initiator);
    receive(&target, 1, 64);
    expect_status("the first", &initiator, IBV_WC_SUCCESS);
    expect_status("its receive", &target, IBV_WC_SUCCESS);
    usleep(20000);
    expect_no_outcome(&initiator);
    receive(&target, 2, 64);
    expect_status("the second", &initiator, IBV_WC_SUCCESS);
    CHECK(expect_outcome(&target).wr_id == 2);

    /* Full: the one that was not taken is named. */
    struct ibv_srq_attr attr;
    CHECK(!ibv_query_srq(target.srq, &attr) && attr.max_wr >= 4 && attr.max_wr < 64);
    struct ibv_recv_wr many[65] = {{0}};
    for (int number = 0; number < 64; number++)
        many[number].next = &many[number + 1];
    CHECK(ibv_post_srq_recv(target.srq, many, &bad) == ENOMEM && bad == &many[attr.max_wr]);
    /* More are posted than would fit. */
    struct ibv_srq_attr smaller = {.max_wr = 1};
    CHECK(ibv_modify_srq(target.srq, &smaller, IBV_SRQ_MAX_WR) == EINVAL);
    struct ibv_srq_attr beyond = {.srq_limit = attr.max_wr + 1};
    CHECK(ibv_modify_srq(target.srq, &beyond, IBV_SRQ_LIMIT) == EINVAL);
    CHECK(ibv_modify_srq(target.srq, &attr, 1 << 5) == EINVAL);

    end_pair();
    CHECK(!ibv_destroy_srq(target.srq));
    target.srq = NULL;
}
