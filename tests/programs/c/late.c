/* Handlers that run when a process exits still use verbs: one transfers, then objects end there,
 * some in an exit handler from before the first verb, some in a destructor.
 *
 * Usage: late             returns from main
 *        late exit        calls exit from another thread
 */
#include "pair.h"

#include <errno.h>
#include <pthread.h>

static char memory[256];
static struct side side;
static struct ibv_qp *qp, *other;
static struct ibv_mr *mr;
/* exit in an exit handler is not defined. */
#define EXPECT(condition)                                                                         \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);               \
            _exit(1);                                                                             \
        }                                                                                         \
    } while (0)

static void write_to_self(struct ibv_qp *by, const char *text)
{
    struct ibv_wc wc;
    strcpy(memory, text);
    EXPECT(!post(by, IBV_WR_RDMA_WRITE, memory, mr->lkey, 64, (uintptr_t)memory + 64, mr->rkey));
    double end = seconds_now() + 30;
    while (!ibv_poll_cq(side.cq, 1, &wc))
        EXPECT(seconds_now() < end);
    EXPECT(wc.status == IBV_WC_SUCCESS && !strcmp(memory + 64, text));
}

static void at_exit(void)
{
    write_to_self(qp, "in the handler");
    EXPECT(!ibv_destroy_qp(qp));
    /* New objects can be made still. */
    struct ibv_cq *cq = ibv_create_cq(side.context, 16, NULL, NULL, 0);
    EXPECT(cq && !ibv_destroy_cq(cq));
}

__attribute__((destructor)) static void destructor(void)
{
    if (!qp)
        return;
    write_to_self(other, "in the destructor");
    EXPECT(!ibv_destroy_qp(other) && !ibv_dereg_mr(mr) && !ibv_destroy_cq(side.cq));
    EXPECT(!ibv_dealloc_pd(side.pd) && !ibv_close_device(side.context));
    puts("all right");
}

static struct ibv_qp *loop_to_self(void)
{
    struct ibv_qp *made = make_qp(&side, 8);
    struct card self = {.qpn = made->qp_num, .psn = made->qp_num & 0xffffff, .gid = side.gid};
    connect_qp(&side, made, &self);
    return made;
}

static void *leave(void *unused)
{
    (void)unused;
    exit(0);
}

int main(int count, char **words)
{
    alarm(60);
    CHECK(!atexit(at_exit));
    open_device(&side);
    mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    qp = loop_to_self();
    other = loop_to_self();
    write_to_self(qp, "before");
    if (count > 1) {
        CHECK(!strcmp(words[1], "exit"));
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, leave, NULL));
        for (;;)
            pause();
    }
    return 0;
}
