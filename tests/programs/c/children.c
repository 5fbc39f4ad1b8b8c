/* A side of a connection starts children in every way there is, and goes on transferring while
 * they run. Both sides do so: the initiator between its completions, the target while it only
 * waits.
 *
 * Usage: children fork|exit|exec|vfork|spawn|system|popen|daemon
 */
#define _GNU_SOURCE
#include "pair.h"

#include <errno.h>
#include <spawn.h>

enum { BYTES = 64 << 10, DEPTH = 8, CHILDREN = 6 };

extern char **environ;
static const char *how;
static char memory[2 * BYTES] __attribute__((aligned(4096)));
static char *const sleeper[] = {"sleep", "0.1", NULL};

/* The child's process, or 0 if it has ended already. */
static pid_t start_child(void)
{
    pid_t child = 0;
    if (!strcmp(how, "vfork")) {
        child = vfork();
        if (!child) {
            execv("/bin/sleep", sleeper);
            _exit(127);
        }
    } else if (!strcmp(how, "spawn")) {
        CHECK(!posix_spawn(&child, "/bin/sleep", NULL, NULL, sleeper, environ));
    } else if (!strcmp(how, "system")) {
        CHECK(!system("exec sleep 0.02"));
        return 0;
    } else if (!strcmp(how, "popen")) {
        char line[16] = "";
        FILE *output = popen("echo heard", "r");
        CHECK(output && fgets(line, sizeof line, output) && !strcmp(line, "heard\n"));
        CHECK(!pclose(output));
        return 0;
    } else {
        child = fork();
        if (!child && !strcmp(how, "exec")) {
            execv("/bin/sleep", sleeper);
            _exit(127);
        }
        if (!child && !strcmp(how, "daemon")) {
            CHECK(!daemon(0, 1));
            usleep(100000);
            exit(0);
        }
        if (!child) {
            usleep(100000);
            /* What the parent would do when it exits must not be done by the child. */
            if (!strcmp(how, "exit"))
                exit(0);
            CHECK(!strcmp(how, "fork"));
            _exit(0);
        }
    }
    CHECK(child > 0);
    return child;
}

static int has_ended(pid_t child)
{
    int status;
    pid_t seen = child ? waitpid(child, &status, WNOHANG) : 0;
    CHECK(!child || seen == 0 || (seen == child && WIFEXITED(status) && !WEXITSTATUS(status)));
    return !child || seen == child;
}

/* A few WRITEs of contents that were never there, read back. */
static void transfer(struct side *side, struct ibv_qp *qp, struct ibv_mr *mr,
                     const struct card *card)
{
    static int number;
    memset(memory, ++number, BYTES);
    for (int part = 0; part < DEPTH; part++) {
        int at = part * (BYTES / DEPTH);
        CHECK(!post(qp, IBV_WR_RDMA_WRITE, memory + at, mr->lkey, BYTES / DEPTH,
                    card->address + at, card->rkey));
    }
    for (int part = 0; part < DEPTH; part++)
        wait_success(side, how);
    CHECK(!post(qp, IBV_WR_RDMA_READ, memory + BYTES, mr->lkey, BYTES, card->address,
                card->rkey));
    wait_success(side, how);
    CHECK(!memcmp(memory, memory + BYTES, BYTES));
}

int main(int count, char **words)
{
    CHECK(count == 2);
    how = words[1];
    struct side side;
    struct card card;
    int initiator = pair_start(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = make_pair(&side, DEPTH, mr, &card);
    int transfers = 0;
    for (int number = 0; number < CHILDREN; number++) {
        pid_t child = start_child();
        do {
            if (initiator) {
                transfer(&side, qp, mr, &card);
                transfers++;
            } else {
                usleep(1000);
            }
        } while (!has_ended(child));
    }
    CHECK(!initiator || transfers >= CHILDREN);
    meet(&side);
    return pair_end(&side);
}
