/* Servers that are connected and then fork: the queue pair goes over to the child that uses it.
 *
 * Usage: heir rc|uc posts|polls|early|daemon|closing|later|grandchild|siblings
 *   posts     the child registers memory and posts receives on what it has inherited
 *   polls     the receives were posted before the fork; the child only polls
 *   early     ... and the first messages arrive before the child does that
 *   daemon    ... and the parent ends at once, without a word
 *   closing   ... and the child closes all descriptors that it does not know
 *   later     ... or the parent ends in the middle of the child's work
 *   grandchild  ... and the child forks again, and only its child polls
 *   siblings  two children, each with a queue pair of its own, and the parent with a third
 */
#include "pair.h"

#include <errno.h>

enum { MESSAGES = 200, DEPTH = 32, EARLY = 8, BYTES = 3000, PAIRS = 3 };

static const char *how;
static int parents_end = -1;
static char memory[DEPTH * BYTES];
static struct ibv_mr *mr;
static struct ibv_qp *qps[PAIRS];
static struct ibv_cq *cqs[PAIRS];

static int is(const char *name)
{
    return !strcmp(how, name);
}

static void post_numbered(struct ibv_qp *qp, unsigned number)
{
    struct ibv_sge sge = {.addr = (uintptr_t)memory + number % DEPTH * BYTES, .length = BYTES,
                          .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = number, .sg_list = &sge, .num_sge = 1}, *bad;
    int error = ibv_post_recv(qp, &wr, &bad);
    if (error)
        fprintf(stderr, "post_recv: %s\n", strerror(error));
    CHECK(!error);
}

static void fill(char *at, unsigned number)
{
    for (unsigned n = 0; n < BYTES; n++)
        at[n] = number * 7 + n;
}

static void check(const char *at, unsigned number)
{
    for (unsigned n = 0; n < BYTES; n++)
        CHECK(at[n] == (char)(number * 7 + n));
}

static struct ibv_mr *registered(struct side *side)
{
    struct ibv_mr *region =
        ibv_reg_mr(side->pd, memory, sizeof memory,
                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(region);
    return region;
}

/* Answers each message with what it brought. */
static void serve(struct side *side, struct ibv_qp *qp)
{
    for (unsigned number = 0, sent = 0; number < MESSAGES || sent < MESSAGES;) {
        struct ibv_wc wc = wait_completion(side);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.qp_num == qp->qp_num);
        if (wc.opcode != IBV_WC_RECV) {
            sent++;
            continue;
        }
        CHECK(wc.wr_id == number && wc.byte_len == BYTES);
        if (number == MESSAGES / 2 && parents_end >= 0)
            CHECK(!close(parents_end));
        char *at = memory + number % DEPTH * BYTES;
        check(at, number);
        CHECK(!post(qp, IBV_WR_SEND, at, mr->lkey, BYTES, 0, 0));
        /* The answer may leave from there until it is acknowledged, and the peer waits for it. */
        if (number + DEPTH / 2 < MESSAGES && number >= DEPTH / 2)
            post_numbered(qp, number + DEPTH / 2);
        number++;
    }
}

/* Sends messages and gets them back; then reads and writes what the peer has registered. */
static void call(struct side *side, struct ibv_qp *qp, unsigned first)
{
    static char out[BYTES];
    struct ibv_mr *ours = ibv_reg_mr(side->pd, out, BYTES, IBV_ACCESS_LOCAL_WRITE);
    CHECK(ours);
    for (unsigned number = 0; number < MESSAGES; number++) {
        char *in = memory + number % DEPTH * BYTES;
        if (number >= first) {
            post_numbered(qp, number);
            fill(out, number);
            CHECK(!post(qp, IBV_WR_SEND, out, ours->lkey, BYTES, 0, 0));
            wait_success(side, "message or answer");
        }
        wait_success(side, "answer or message");
        check(in, number);
        memset(in, 0, BYTES);
    }
    if (side->is_unreliable)
        return;
    char *in = memory;
    struct card card;
    hear(side, &card, sizeof card);
    fill(out, 5);
    CHECK(!post(qp, IBV_WR_RDMA_WRITE, out, ours->lkey, BYTES, card.address, card.rkey));
    wait_success(side, "write");
    CHECK(!post(qp, IBV_WR_RDMA_READ, in, mr->lkey, BYTES, card.address, card.rkey));
    wait_success(side, "read");
    check(in, 5);
    meet(side);
}

static void be_the_heir(struct side *side, struct ibv_qp *qp)
{
    alarm(60);
    if (is("closing"))
        for (int descriptor = 3; descriptor < 256; descriptor++)
            if (descriptor != side->link)
                close(descriptor);
    if (is("posts") || is("siblings")) {
        mr = registered(side);
        for (unsigned number = 0; number < DEPTH; number++)
            post_numbered(qp, number);
        meet(side);
    }
    if (is("early"))
        meet(side);
    serve(side, qp);
    if (!side->is_unreliable) {
        struct ibv_mr *own = registered(side);
        struct card card = {.rkey = own->rkey, .address = (uintptr_t)memory};
        tell(side, &card, sizeof card);
        meet(side);
        check(memory, 5);
        CHECK(!ibv_dereg_mr(own));
    }
    CHECK(!ibv_destroy_qp(qp));
}

/* Returns in the grandchild alone. */
static void fork_again(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child) {
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        _exit(!WIFEXITED(status) || WEXITSTATUS(status));
    }
}

static int server(struct side *side)
{
    mr = registered(side);
    int count = is("siblings") ? PAIRS : 1;
    for (int pair = 0; pair < count; pair++) {
        struct card theirs;
        if (pair)
            side->cq = ibv_create_cq(side->context, 64, NULL, NULL, 0);
        CHECK(side->cq);
        cqs[pair] = side->cq;
        qps[pair] = make_pair(side, DEPTH, NULL, &theirs);
        if (!is("posts") && !is("siblings"))
            for (unsigned number = 0; number < DEPTH; number++)
                post_numbered(qps[pair], number);
    }
    for (int pair = 0; pair < count; pair++) {
        side->cq = cqs[pair];
        meet(side);
        int ends[2];
        CHECK(!pipe(ends));
        pid_t child = is("siblings") && pair == PAIRS - 1 ? 0 : fork();
        CHECK(child >= 0);
        if (!child) {
            close(ends[0]);
            if (is("later"))
                parents_end = ends[1];
            if (is("grandchild"))
                fork_again();
            be_the_heir(side, qps[pair]);
            if (!is("siblings") || pair < PAIRS - 1)
                _exit(0);
            continue;
        }
        CHECK(!close(ends[1]));
        if (is("later"))
            CHECK(read(ends[0], ends, 1) == 0);
        if (is("daemon") || is("closing") || is("later"))
            _exit(0);
        /* As a server that accepts the next one, in the meantime. */
        if (is("early"))
            meet(side);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
        struct ibv_wc wc;
        CHECK(!is("posts") || post(qps[pair], IBV_WR_SEND, memory, mr->lkey, 1, 0, 0) == EIO);
        CHECK(is("posts") || is("siblings") || ibv_poll_cq(side->cq, 1, &wc) == 0);
    }
    for (int pair = 0; pair < PAIRS - 1 && qps[pair]; pair++)
        CHECK(!ibv_destroy_qp(qps[pair]));
    return 0;
}

static int client(struct side *side)
{
    int count = is("siblings") ? PAIRS : 1;
    mr = registered(side);
    for (int pair = 0; pair < count; pair++) {
        struct card theirs;
        qps[pair] = make_pair(side, DEPTH, NULL, &theirs);
    }
    for (int pair = 0; pair < count; pair++) {
        unsigned first = 0;
        meet(side);
        if (is("posts") || is("siblings"))
            meet(side);
        if (is("early")) {
            static char out[BYTES];
            struct ibv_mr *ours = ibv_reg_mr(side->pd, out, BYTES, IBV_ACCESS_LOCAL_WRITE);
            for (; first < EARLY; first++) {
                post_numbered(qps[pair], first);
                fill(out, first);
                CHECK(!post(qps[pair], IBV_WR_SEND, out, ours->lkey, BYTES, 0, 0));
                wait_success(side, "early message");
            }
            /* One word for the parent, one for the child. */
            meet(side);
            meet(side);
        }
        call(side, qps[pair], first);
    }
    return pair_end(side);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    how = argv[2];
    struct side side;
    int is_client = pair_start(&side);
    side.is_unreliable = !strcmp(argv[1], "uc");
    return is_client ? client(&side) : server(&side);
}
