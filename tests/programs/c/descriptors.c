/* Both sides of a connection lose every descriptor that they do not know, as daemons do it, again
 * and again, before and in the middle of transfers. The same queue pairs go on, and nothing that
 * was acknowledged is missing.
 *
 * Usage: descriptors loop|range|from|null|socket [idle]
 *
 * `null` and `socket` do not close: another file takes the place of each. (`socket` is in no table: no
 * call fails on a stranger's socket, and on a busy machine that is found too late for a connection
 * with common time-outs.) With `idle` nobody calls
 * the library for longer than the agent keeps a slot for someone who has hung up.
 */
#define _GNU_SOURCE
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>

enum { LINK = 3, FIRST = LINK + 1, LAST = 8192, BYTES = 64 << 10, DEPTH = 8, WRITES = 400,
       ROUNDS = 4 };

static const char *how;
static char memory[2 * BYTES] __attribute__((aligned(4096)));

static void lose_all(void)
{
    if (!strcmp(how, "range")) {
        CHECK(!close_range(FIRST, ~0u, 0));
    } else if (!strcmp(how, "from")) {
        closefrom(FIRST);
    } else if (!strcmp(how, "loop")) {
        for (int number = FIRST; number < LAST; number++)
            close(number);
    } else {
        int is_socket = !strcmp(how, "socket");
        CHECK(is_socket || !strcmp(how, "null"));
        int stranger = is_socket ? socket(AF_INET, SOCK_DGRAM, 0) : open("/dev/null", O_RDWR);
        CHECK(stranger >= 0);
        int lost = 0;
        for (int number = FIRST; number < LAST; number++)
            if (number != stranger && fcntl(number, F_GETFD) >= 0) {
                CHECK(dup2(stranger, number) == number);
                lost++;
            }
        CHECK(lost > 0);
    }
}

/* WRITEs, with the loss in their middle; then READs what has become of the other side. */
static void transfer(struct side *side, struct ibv_qp *qp, struct ibv_mr *mr,
                     const struct card *card, int round)
{
    for (int posted = 0, done = 0; done < WRITES; done++) {
        for (; posted < WRITES && posted - done < DEPTH; posted++) {
            int part = posted % DEPTH * (BYTES / DEPTH);
            memset(memory + part, round * WRITES + posted, BYTES / DEPTH);
            CHECK(!post(qp, IBV_WR_RDMA_WRITE, memory + part, mr->lkey, BYTES / DEPTH,
                        card->address + part, card->rkey));
        }
        if (done == WRITES / 2)
            lose_all();
        wait_success(side, how);
    }
    CHECK(!post(qp, IBV_WR_RDMA_READ, memory + BYTES, mr->lkey, BYTES, card->address,
                card->rkey));
    wait_success(side, how);
    CHECK(!memcmp(memory, memory + BYTES, BYTES));
}

int main(int count, char **words)
{
    CHECK(count == 2 || (count == 3 && !strcmp(words[2], "idle")));
    how = words[1];
    struct side side;
    struct card card;
    int initiator = pair_start(&side);
    CHECK(dup2(side.link, LINK) == LINK);
    side.link = LINK;
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(&side, DEPTH, mr, &card);
    for (int round = 0; round < ROUNDS; round++) {
        if (round || count == 3)
            lose_all();
        if (count == 3)
            sleep(5);
        meet(&side);
        if (initiator)
            transfer(&side, qp, mr, &card, round);
        /* A SEND, which the other side polls for. */
        if (!initiator)
            post_receive(qp, memory + BYTES, mr->lkey, 8);
        meet(&side);
        if (initiator) {
            memory[0] = round;
            CHECK(!post(qp, IBV_WR_SEND, memory, mr->lkey, 8, 0, 0));
        }
        wait_success(&side, how);
        CHECK(initiator || memory[BYTES] == round);
    }
    /* New objects can be made as before. */
    CHECK(make_qp(&side, DEPTH));
    meet(&side);
    return pair_end(&side);
}
