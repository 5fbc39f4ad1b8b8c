/* Four processes add to one word of a fifth, which does nothing: the sum is exact, and nobody
 * finds a value that another has found. */
#include "pair.h"

enum { PROCESSES = 4, ADDITIONS = 250000, IN_FLIGHT = 64 };

/* A byte for each value that may be found, seen by all processes. */
static unsigned char *found;

static void add(struct side *side)
{
    uint64_t places[IN_FLIGHT];
    struct card theirs;
    struct ibv_mr *mr = ibv_reg_mr(side->pd, places, sizeof places, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(side, IN_FLIGHT, mr, &theirs);
    uint64_t last = 0;
    for (int posted = 0, done = 0; done < ADDITIONS;) {
        for (; posted < ADDITIONS && posted - done < IN_FLIGHT; posted++) {
            int place = posted % IN_FLIGHT;
            struct ibv_sge sge = {(uintptr_t)&places[place], 8, mr->lkey};
            struct ibv_send_wr wr = {.wr_id = place, .sg_list = &sge, .num_sge = 1,
                                     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, *bad;
            wr.wr.atomic.remote_addr = theirs.address;
            wr.wr.atomic.rkey = theirs.rkey;
            wr.wr.atomic.compare_add = 1;
            CHECK(!ibv_post_send(qp, &wr, &bad));
        }
        struct ibv_wc wc = wait_completion(side);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_FETCH_ADD);
        CHECK(wc.wr_id == (uint64_t)done % IN_FLIGHT);
        uint64_t value = places[wc.wr_id];
        CHECK(value < (uint64_t)PROCESSES * ADDITIONS);
        CHECK(!done || value > last);
        CHECK(!__atomic_exchange_n(&found[value], 1, __ATOMIC_RELAXED));
        last = value;
        done++;
    }
    meet(side);
    exit(0);
}

int main(void)
{
    static uint64_t word;
    struct side sides[PROCESSES];
    alarm(150);
    found = mmap(NULL, PROCESSES * ADDITIONS, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(found != MAP_FAILED);
    for (int number = 0; number < PROCESSES; number++) {
        int ends[2];
        CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
        pid_t child = fork();
        CHECK(child >= 0);
        struct side *side = &sides[number];
        memset(side, 0, sizeof *side);
        side->link = ends[!child];
        side->child = child;
        close(ends[!!child]);
        if (!child) {
            alarm(150);
            open_device(side);
            add(side);
        }
    }
    struct side owner;
    memset(&owner, 0, sizeof owner);
    open_device(&owner);
    struct ibv_mr *mr = ibv_reg_mr(owner.pd, &word, sizeof word,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    CHECK(mr);
    for (int number = 0; number < PROCESSES; number++) {
        struct card theirs;
        owner.link = sides[number].link;
        make_pair(&owner, 1, mr, &theirs);
    }
    for (int number = 0; number < PROCESSES; number++) {
        int status;
        meet(&sides[number]);
        CHECK(waitpid(sides[number].child, &status, 0) == sides[number].child);
        CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
    }
    CHECK(word == (uint64_t)PROCESSES * ADDITIONS);
    for (int value = 0; value < PROCESSES * ADDITIONS; value++)
        CHECK(found[value]);
    puts("all right");
    return 0;
}
