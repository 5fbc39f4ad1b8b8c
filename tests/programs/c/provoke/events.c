/* Every asynchronous event of an object, and its rule: the object's end waits until the event that
 * was taken is acknowledged. */
#include "provoke.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

/* Destroys an object in a thread. */
struct ending {
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    struct ibv_srq *srq;
    volatile int is_over;
};

static void *end_object(void *argument)
{
    struct ending *ending = argument;
    if (ending->qp)
        CHECK(!ibv_destroy_qp(ending->qp));
    if (ending->cq)
        CHECK(!ibv_destroy_cq(ending->cq));
    if (ending->srq)
        CHECK(!ibv_destroy_srq(ending->srq));
    ending->is_over = 1;
    return NULL;
}

/* Ends the object of an event that has not been acknowledged, which waits for that. */
static void end_waits(struct ending ending, struct ibv_async_event *event)
{
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, end_object, &ending));
    usleep(100000);
    CHECK(!ending.is_over);
    ibv_ack_async_event(event);
    CHECK(!pthread_join(thread, NULL) && ending.is_over);
}

static void end_rest(void)
{
    if (initiator.qp)
        CHECK(!ibv_destroy_qp(initiator.qp));
    if (target.qp)
        CHECK(!ibv_destroy_qp(target.qp));
    initiator.qp = target.qp = NULL;
    expect_no_event(&initiator);
    expect_no_event(&target);
}

static void end_target_qp(struct ibv_async_event *event)
{
    CHECK(event->element.qp == target.qp);
    end_waits((struct ending){.qp = target.qp}, event);
    target.qp = NULL;
    end_rest();
}

static void access_error(void)
{
    connect_ends(usual());
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    request.rkey ^= 0x100;
    CHECK(!way->post(initiator.qp, &request));
    struct ibv_async_event event = expect_event(&target, IBV_EVENT_QP_ACCESS_ERR);
    expect_status("WRITE with a wrong rkey", &initiator, IBV_WC_REM_ACCESS_ERR);
    end_target_qp(&event);
}

static void request_error(void)
{
    connect_ends(usual());
    struct request request = simple(IBV_WR_ATOMIC_FETCH_AND_ADD, 8);
    request.remote += 1;
    CHECK(!way->post(initiator.qp, &request));
    struct ibv_async_event event = expect_event(&target, IBV_EVENT_QP_REQ_ERR);
    expect_status("atomic at an odd address", &initiator, IBV_WC_REM_INV_REQ_ERR);
    end_target_qp(&event);
}

/* The first packet comes to one that cannot send yet; the second is no news. */
static void established(void)
{
    struct terms terms = usual();
    terms.target_not_sending = 1;
    connect_ends(terms);
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    for (int number = 0; number < 2; number++) {
        CHECK(!way->post(initiator.qp, &request));
        expect_status("WRITE to one that is ready to receive", &initiator, IBV_WC_SUCCESS);
    }
    struct ibv_async_event event = expect_event(&target, IBV_EVENT_COMM_EST);
    expect_no_event(&target);
    end_target_qp(&event);
}

/* The send queue is drained: what had begun ends, what had not waits until it goes on. */
static void drained(void)
{
    connect_ends(usual());
    struct request request = simple(IBV_WR_RDMA_WRITE, BYTES);
    CHECK(!way->post(initiator.qp, &request));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    CHECK(!ibv_modify_qp(initiator.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
    struct ibv_async_event event = expect_event(&initiator, IBV_EVENT_SQ_DRAINED);
    CHECK(event.element.qp == initiator.qp);
    expect_status("what had begun", &initiator, IBV_WC_SUCCESS);
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_STATE, &init));
    CHECK(attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
    CHECK(!way->post(initiator.qp, &request));
    usleep(30000);
    expect_no_outcome(&initiator);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(!ibv_modify_qp(initiator.qp, &attr, IBV_QP_STATE));
    expect_status("what had waited", &initiator, IBV_WC_SUCCESS);
    end_waits((struct ending){.qp = initiator.qp}, &event);
    initiator.qp = NULL;
    end_rest();
}

/* Posts one more than a completion queue holds; the send queue is shorter and needs to drain. */
static void post_too_many(const struct ibv_cq *cq)
{
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    for (int number = 0; number <= cq->cqe; number++) {
        int refused = way->post(initiator.qp, &request);
        for (int tries = 0; refused == ENOMEM && tries < 5000; tries++) {
            usleep(1000);
            refused = way->post(initiator.qp, &request);
        }
        CHECK(!refused);
    }
}

/* More completions than a queue holds: it says so once, and so does the queue pair, which ends. */
static void overrun(void)
{
    struct ibv_cq *small = way->make_cq(initiator.context, 2);
    CHECK(small && small->cqe >= 2);
    initiator.qp = make_end_qp(&initiator, IBV_QPT_RC, small);
    target.qp = make_end_qp(&target, IBV_QPT_RC, target.cq);
    raise_end(&target, &initiator, usual(), 1);
    raise_end(&initiator, &target, usual(), 1);
    post_too_many(small);
    struct ibv_async_event of_queue = expect_event(&initiator, IBV_EVENT_CQ_ERR);
    CHECK(of_queue.element.cq == small);
    struct ibv_async_event of_pair = expect_event(&initiator, IBV_EVENT_QP_FATAL);
    CHECK(of_pair.element.qp == initiator.qp);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(initiator.qp, &attr, IBV_QP_STATE, &init));
    CHECK(attr.qp_state == IBV_QPS_ERR);
    /* What had fitted is still there, and nothing comes behind it. */
    struct outcome outcome;
    for (int number = 0; number < small->cqe; number++)
        CHECK(way->poll(small, &outcome) == 1 && outcome.status == IBV_WC_SUCCESS);
    CHECK(!way->poll(small, &outcome));
    CHECK(ibv_destroy_cq(small) == EBUSY);
    end_waits((struct ending){.qp = initiator.qp}, &of_pair);
    initiator.qp = NULL;
    end_waits((struct ending){.cq = small}, &of_queue);
    end_rest();
}

/* The limit is told once, then is to be set again. */
static void limit_reached(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    target.srq = ibv_create_srq(target.pd, &init);
    CHECK(target.srq);
    connect_ends(usual());
    for (int number = 0; number < 4; number++)
        receive(&target, number, 64);
    struct ibv_srq_attr attr = {.srq_limit = 3};
    CHECK(!ibv_modify_srq(target.srq, &attr, IBV_SRQ_LIMIT));
    struct request request = simple(IBV_WR_SEND, 8);
    for (int number = 0; number < 4; number++) {
        CHECK(!way->post(initiator.qp, &request));
        expect_status("SEND", &initiator, IBV_WC_SUCCESS);
        expect_status("its receive", &target, IBV_WC_SUCCESS);
        /* Three are left after the first, which is the limit and not below it. */
        if (number == 0)
            expect_no_event(&target);
    }
    struct ibv_async_event event = expect_event(&target, IBV_EVENT_SRQ_LIMIT_REACHED);
    CHECK(event.element.srq == target.srq);
    CHECK(!ibv_query_srq(target.srq, &attr) && attr.srq_limit == 0);
    end_rest();
    end_waits((struct ending){.srq = target.srq}, &event);
    target.srq = NULL;
}

/* One that has taken its last receive from a shared queue, because it is in error. */
static void last_receive(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    target.srq = ibv_create_srq(target.pd, &init);
    CHECK(target.srq);
    connect_ends(usual());
    receive(&target, 1, 64);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(target.qp, &attr, IBV_QP_STATE));
    struct ibv_async_event event = expect_event(&target, IBV_EVENT_QP_LAST_WQE_REACHED);
    /* Receives of a shared queue are nobody's to flush. */
    expect_no_outcome(&target);
    end_target_qp(&event);
    CHECK(!ibv_destroy_srq(target.srq));
    target.srq = NULL;
}

/* An event that nobody took does not hold up the end of its object, and is never seen. */
static void not_taken(void)
{
    struct terms terms = usual();
    terms.target_not_sending = 1;
    connect_ends(terms);
    struct request request = simple(IBV_WR_RDMA_WRITE, 8);
    CHECK(!way->post(initiator.qp, &request));
    expect_status("WRITE", &initiator, IBV_WC_SUCCESS);
    end_rest();
}

void try_events(void)
{
    access_error();
    request_error();
    established();
    drained();
    overrun();
    limit_reached();
    last_receive();
    not_taken();
}
