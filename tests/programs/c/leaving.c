/* The target leaves in the middle of a transfer, as processes do; the initiator is told that
 * nobody answers any more, and what it has posted behind that is flushed.
 *
 * Usage: leaving exit|_exit|abort|term|kill|quick|exec
 */
#define _GNU_SOURCE
#include "pair.h"

#include <signal.h>
#include <sys/resource.h>

enum { BYTES = 64 << 10, DEPTH = 16 };

static char memory[BYTES] __attribute__((aligned(4096)));

static void leave(const char *how)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick"))
        quick_exit(0);
    if (!strcmp(how, "abort"))
        abort();
    if (!strcmp(how, "exec"))
        execl("/bin/true", "true", NULL);
    raise(!strcmp(how, "term") ? SIGTERM : SIGKILL);
}

int main(int count, char **words)
{
    CHECK(count == 2);
    const char *how = words[1];
    struct side side;
    struct card card;
    int initiator = pair_start(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, BYTES,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(&side, DEPTH, mr, &card);
    if (!initiator) {
        char word;
        hear(&side, &word, 1);
        leave(how);
        return 1;
    }
    int posted = 0, done = 0;
    struct ibv_wc wc = {0};
    /* wait_completion has a limit. */
    while (wc.status == IBV_WC_SUCCESS) {
        for (; posted - done < DEPTH; posted++)
            CHECK(!post(qp, posted % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, memory, mr->lkey,
                        BYTES, card.address, card.rkey));
        if (done == 4 * DEPTH)
            tell(&side, "x", 1);
        wc = wait_completion(&side);
        done++;
    }
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && done > 4 * DEPTH);
    for (; done < posted; done++)
        CHECK(wait_completion(&side).status == IBV_WC_WR_FLUSH_ERR);
    int status, is_signal = !strcmp(how, "abort") || !strcmp(how, "term") || !strcmp(how, "kill");
    CHECK(waitpid(side.child, &status, 0) == side.child);
    CHECK(is_signal ? WIFSIGNALED(status) : WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
    puts("all right");
    return 0;
}
