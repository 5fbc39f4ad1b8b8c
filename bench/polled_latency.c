/* The round trip of a READ or an atomic whose target polls its completion queue, which perftest's
 * own server does not do: it sleeps, and what is measured then is a wake-up.
 *
 *   polled_latency read|atomic COUNT
 *
 * Two processes, one line of JSON on standard output: the median, in microseconds.
 */
#include "../tests/programs/c/pair.h"

static int compare(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

static double round_trip(struct side *side, struct ibv_qp *qp, struct ibv_send_wr *request)
{
    struct ibv_send_wr *bad;
    struct ibv_wc completion;
    double start = seconds_now();
    CHECK(!ibv_post_send(qp, request, &bad));
    int count;
    while (!(count = ibv_poll_cq(side->cq, 1, &completion)))
        ;
    CHECK(count == 1 && completion.status == IBV_WC_SUCCESS);
    return (seconds_now() - start) * 1e6;
}

static void initiate(struct side *side, struct ibv_qp *qp, struct ibv_send_wr *request, int count)
{
    double *figures = calloc(count, sizeof *figures);
    CHECK(figures);
    for (int warming = 0; warming < 1000; warming++)
        round_trip(side, qp, request);
    for (int number = 0; number < count; number++)
        figures[number] = round_trip(side, qp, request);
    qsort(figures, count, sizeof *figures, compare);
    printf("{\"round_trip_us\": %.3f}\n", figures[count / 2]);
    fflush(stdout);
    free(figures);
}

int main(int argc, char **argv)
{
    static uint64_t memory[8] __attribute__((aligned(4096)));
    if (argc != 3 || atoi(argv[2]) < 1) {
        fputs("usage: polled_latency read|atomic COUNT\n", stderr);
        return 2;
    }
    int is_read = !strcmp(argv[1], "read");
    struct side side;
    int initiator = pair_start(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(mr);
    struct card theirs;
    struct ibv_qp *qp = make_pair(&side, 16, mr, &theirs);
    struct ibv_qp_attr rights = {.qp_access_flags = IBV_ACCESS_REMOTE_READ |
                                                    IBV_ACCESS_REMOTE_ATOMIC};
    CHECK(!ibv_modify_qp(qp, &rights, IBV_QP_ACCESS_FLAGS));
    meet(&side);
    if (initiator) {
        struct ibv_sge entry = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
        struct ibv_send_wr request = {
            .sg_list = &entry,
            .num_sge = 1,
            .opcode = is_read ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD,
        };
        if (is_read) {
            request.wr.rdma.remote_addr = theirs.address;
            request.wr.rdma.rkey = theirs.rkey;
        } else {
            request.wr.atomic.remote_addr = theirs.address;
            request.wr.atomic.rkey = theirs.rkey;
            request.wr.atomic.compare_add = 1;
        }
        initiate(&side, qp, &request, atoi(argv[2]));
        meet(&side);
    } else {
        /* The word that the initiator is done comes by the socket, looked at now and then. */
        struct ibv_wc completion;
        char word;
        for (uint64_t turn = 1;; turn++) {
            CHECK(ibv_poll_cq(side.cq, 1, &completion) == 0);
            if (turn % 1024 == 0 && recv(side.link, &word, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
                break;
        }
        meet(&side);
    }
    return side.child > 0 ? pair_end(&side) : 0;
}
