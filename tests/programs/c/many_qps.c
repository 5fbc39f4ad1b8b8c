/* A thousand connected queue pairs in one process: how much memory each takes besides its queues,
 * and whether each carries a message. */
#include "pair.h"

enum { QPS = 1000, KIB_MAX = 32 };

static long resident_kib(void)
{
    long total, resident;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%ld %ld", &total, &resident) == 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(void)
{
    static struct ibv_qp *qps[QPS];
    static struct card cards[QPS], ours[QPS];
    static char memory[4096] __attribute__((aligned(4096)));
    struct side side;
    int initiator = pair_start(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    /* What the first one brings along counts once. */
    struct card first;
    make_pair(&side, 1, mr, &first);
    long before = resident_kib();
    for (int number = 0; number < QPS; number++) {
        qps[number] = make_qp(&side, 1);
        ours[number] = (struct card){.qpn = qps[number]->qp_num,
                                     .psn = qps[number]->qp_num & 0xffffff,
                                     .rkey = mr->rkey,
                                     .address = (uintptr_t)memory,
                                     .gid = side.gid};
    }
    /* One after the other: two sides that both only write would wait for each other. */
    if (initiator)
        tell(&side, ours, sizeof ours);
    hear(&side, cards, sizeof cards);
    if (!initiator)
        tell(&side, ours, sizeof ours);
    for (int number = 0; number < QPS; number++)
        connect_qp(&side, qps[number], &cards[number]);
    meet(&side);
    if (initiator) {
        for (int number = 0; number < QPS; number++) {
            CHECK(!post(qps[number], IBV_WR_RDMA_WRITE, memory, mr->lkey, 64,
                        cards[number].address, cards[number].rkey));
            struct ibv_wc wc = wait_completion(&side);
            CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qps[number]->qp_num);
        }
    }
    long each = (resident_kib() - before) / QPS;
    printf("%s: %ld KiB for each of %d queue pairs\n", initiator ? "initiator" : "target", each,
           QPS);
    fflush(stdout);
    CHECK(each < KIB_MAX);
    meet(&side);
    return pair_end(&side);
}
