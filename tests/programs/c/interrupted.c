/* Calls that wait end with EINTR when a signal comes whose handler was installed without SA_RESTART,
 * and go on where it was installed with that. */
#include "pair.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t caught;

static void handler(int signal)
{
    (void)signal;
    caught++;
}

static void install(int flags)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(!sigaction(SIGALRM, &action, NULL));
}

static void ring_in(int milliseconds, int again)
{
    struct itimerval timer = {.it_value = {.tv_usec = milliseconds * 1000},
                              .it_interval = {.tv_usec = again * 1000}};
    CHECK(!setitimer(ITIMER_REAL, &timer, NULL));
}

/* The queue pair's error flushes a receive, when some signals have come. */
static void *fail_later(void *qp)
{
    sigset_t all;
    sigfillset(&all);
    CHECK(!pthread_sigmask(SIG_BLOCK, &all, NULL));
    usleep(300000);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    return NULL;
}

int main(void)
{
    struct side side;
    memset(&side, 0, sizeof side);
    open_device(&side);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(side.context);
    CHECK(channel);
    struct ibv_cq *cq = ibv_create_cq(side.context, 4, NULL, channel, 0), *of;
    CHECK(cq && !ibv_req_notify_cq(cq, 0));
    struct ibv_qp *qp = make_qp(&side, 4);
    struct ibv_async_event event;
    void *context;

    install(0);
    ring_in(100, 0);
    errno = 0;
    CHECK(ibv_get_cq_event(channel, &of, &context) == -1 && errno == EINTR && caught == 1);
    ring_in(100, 0);
    errno = 0;
    CHECK(ibv_get_async_event(side.context, &event) == -1 && errno == EINTR && caught == 2);

    /* Now a completion ends the wait, and no signal does. */
    install(SA_RESTART);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1,
                                            .max_recv_sge = 1}};
    struct ibv_qp *flushed = ibv_create_qp(side.pd, &init);
    CHECK(flushed);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(!ibv_modify_qp(flushed, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    struct ibv_recv_wr wr = {.wr_id = 7}, *bad;
    CHECK(!ibv_post_recv(flushed, &wr, &bad));
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, fail_later, flushed));
    int before = caught;
    ring_in(50, 50);
    CHECK(!ibv_get_cq_event(channel, &of, &context) && of == cq);
    CHECK(caught > before);
    ring_in(0, 0);
    ibv_ack_cq_events(cq, 1);
    CHECK(!pthread_join(thread, NULL));
    CHECK(!ibv_destroy_qp(flushed) && !ibv_destroy_qp(qp));
    puts("all right");
    return 0;
}
