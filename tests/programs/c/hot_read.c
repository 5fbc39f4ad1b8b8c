/* A target's thread rewrites 4 KiB in a tight loop while the initiator READs them 100,000 times.
 * Every READ must succeed; that nothing was dropped or sent again, the caller sees by the
 * counters. */
#include "pair.h"
#include <pthread.h>

enum { BYTES = 4096, READS = 100000, DEPTH = 16 };

static char memory[BYTES] __attribute__((aligned(4096)));
static volatile int stop;

static void *rewrite(void *unused)
{
    (void)unused;
    for (uint64_t value = 0; !stop; value++)
        for (int at = 0; at < BYTES; at += 8)
            *(volatile uint64_t *)(memory + at) = value;
    return NULL;
}

int main(void)
{
    struct side side;
    struct card card;
    int initiator = pair_start(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, BYTES,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(&side, DEPTH, mr, &card);
    if (initiator) {
        for (int posted = 0, done = 0; done < READS;) {
            for (; posted < READS && posted - done < DEPTH; posted++)
                CHECK(!post(qp, IBV_WR_RDMA_READ, memory, mr->lkey, BYTES, card.address,
                            card.rkey));
            struct ibv_wc wc = wait_completion(&side);
            CHECK(wc.status == IBV_WC_SUCCESS);
            done++;
        }
        meet(&side);
    } else {
        pthread_t thread;
        CHECK(!pthread_create(&thread, NULL, rewrite, NULL));
        meet(&side);
        stop = 1;
        pthread_join(thread, NULL);
    }
    return pair_end(&side);
}
