/* Threads that post and poll at once: all of them on one queue pair and one completion queue, and
 * each on its own. Each request completes once, and what they add up to is right.
 *
 * Usage: threads shared|own|crossed     (crossed: a queue pair each, one completion queue)
 */
#include "pair.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 6, EACH = 3000, DEPTH = 64 };

struct worker {
    struct side side;
    struct ibv_qp *qp;
    uint64_t *result;
    atomic_int *free;
};

static struct side side;
static struct ibv_mr *mr;
static uint64_t memory[THREADS + 1];
static atomic_int seen[THREADS * EACH], next, done;

static void take(struct ibv_cq *cq, atomic_int *room)
{
    struct ibv_wc wcs[4];
    int count = ibv_poll_cq(cq, 4, wcs);
    CHECK(count >= 0);
    for (int index = 0; index < count; index++) {
        CHECK(wcs[index].status == IBV_WC_SUCCESS);
        CHECK(!atomic_fetch_add(&seen[wcs[index].wr_id], 1));
    }
    atomic_fetch_add(&done, count);
    if (room)
        atomic_fetch_add(room, count);
}

/* Adds one to the counter with each request; whoever polls takes anybody's completions. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    double end = seconds_now() + 60;
    for (int number = 0; number < EACH;) {
        if (atomic_fetch_sub(worker->free, 1) <= 0) {
            atomic_fetch_add(worker->free, 1);
            take(worker->side.cq, worker->free);
            CHECK(seconds_now() < end);
            continue;
        }
        struct ibv_sge sge = {(uintptr_t)worker->result, 8, mr->lkey};
        struct ibv_send_wr wr = {.wr_id = atomic_fetch_add(&next, 1), .sg_list = &sge,
                                 .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 .send_flags = IBV_SEND_SIGNALED}, *bad;
        wr.wr.atomic.remote_addr = (uintptr_t)&memory[THREADS];
        wr.wr.atomic.rkey = mr->rkey;
        wr.wr.atomic.compare_add = 1;
        CHECK(!ibv_post_send(worker->qp, &wr, &bad));
        number++;
    }
    while (atomic_load(&done) < THREADS * EACH) {
        take(worker->side.cq, worker->free);
        CHECK(seconds_now() < end);
    }
    return NULL;
}

static struct ibv_qp *loop_to_self(struct side *of, int depth)
{
    struct ibv_qp *qp = make_qp(of, depth);
    struct card self = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffffff, .gid = of->gid};
    connect_qp(of, qp, &self);
    return qp;
}

int main(int count, char **words)
{
    CHECK(count == 2);
    int is_shared = !strcmp(words[1], "shared"), is_own = !strcmp(words[1], "own");
    CHECK(is_shared || is_own || !strcmp(words[1], "crossed"));
    alarm(100);
    open_device(&side);
    mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(mr);
    static struct worker workers[THREADS];
    static atomic_int rooms[THREADS];
    pthread_t threads[THREADS];
    struct ibv_qp *shared = loop_to_self(&side, DEPTH * THREADS);
    for (int index = 0; index < THREADS; index++) {
        struct worker *worker = &workers[index];
        worker->side = side;
        /* With one completion queue anybody's completion makes room anywhere: so there are as many
         * places in each queue pair as all threads may use together. */
        worker->free = is_own ? &rooms[index] : &rooms[0];
        atomic_fetch_add(worker->free, DEPTH);
        worker->result = &memory[index];
        if (is_own) {
            worker->side.cq = ibv_create_cq(side.context, DEPTH, NULL, NULL, 0);
            CHECK(worker->side.cq);
        }
        worker->qp = is_shared ? shared : loop_to_self(&worker->side, DEPTH * THREADS);
    }
    for (int index = 0; index < THREADS; index++)
        CHECK(!pthread_create(&threads[index], NULL, work, &workers[index]));
    for (int index = 0; index < THREADS; index++)
        CHECK(!pthread_join(threads[index], NULL));
    CHECK(atomic_load(&done) == THREADS * EACH && memory[THREADS] == THREADS * EACH);
    for (int index = 0; index < THREADS * EACH; index++)
        CHECK(atomic_load(&seen[index]) == 1);
    puts("all right");
    return 0;
}
