/* A process forks while a queue pair of its own is connected to itself, and goes on using it. The
 * child gets EIO for it and nothing worse, can make its own in the same protection domain, and does
 * not disturb the parent. */
#include "pair.h"

#include <errno.h>

static void write_to_self(struct side *side, struct ibv_qp *qp, struct ibv_mr *mr, char *memory,
                          const char *text)
{
    strcpy(memory, text);
    CHECK(!post(qp, IBV_WR_RDMA_WRITE, memory, mr->lkey, 64, (uintptr_t)memory + 64, mr->rkey));
    CHECK(wait_completion(side).status == IBV_WC_SUCCESS);
    CHECK(!strcmp(memory + 64, text));
}

static struct ibv_qp *loop_to_self(struct side *side)
{
    struct ibv_qp *qp = make_qp(side, 8);
    struct card self = {.qpn = qp->qp_num, .psn = qp->qp_num & 0xffffff, .gid = side->gid};
    connect_qp(side, qp, &self);
    return qp;
}

/* Why is said on stderr, once. */
static void told_why(int errors)
{
    char text[1000], start[100];
    ssize_t length = read(errors, text, sizeof text - 1);
    CHECK(length > 0);
    text[length] = 0;
    sprintf(start, "converb: process %d cannot use a verbs object that the process", getpid());
    CHECK(!strncmp(text, start, strlen(start)) && strstr(text, "uses it itself"));
    CHECK(strchr(text, '\n') == text + length - 1 && read(errors, text, 1) == 0);
}

static void in_the_child(struct side *parents, struct ibv_qp *qp, struct ibv_mr *mr, char *memory,
                         int parents_word)
{
    struct ibv_wc wc;
    char word;
    int errors[2], terminal = dup(2);
    alarm(60);
    CHECK(read(parents_word, &word, 1) == 1);
    CHECK(!pipe(errors) && dup2(errors[1], 2) == 2);
    CHECK(post(qp, IBV_WR_RDMA_WRITE, memory, mr->lkey, 8, (uintptr_t)memory, mr->rkey) == EIO);
    CHECK(ibv_poll_cq(parents->cq, 1, &wc) < 0);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == EIO);
    CHECK(dup2(terminal, 2) == 2 && !close(errors[1]));
    told_why(errors[0]);
    struct ibv_mr *inherited = ibv_reg_mr(parents->pd, memory, 8, IBV_ACCESS_LOCAL_WRITE);
    CHECK(inherited && inherited->lkey != mr->lkey && !ibv_dereg_mr(inherited));

    static char own[256];
    struct side side = {0};
    open_device(&side);
    struct ibv_mr *own_mr = ibv_reg_mr(side.pd, own, sizeof own,
                                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(own_mr);
    struct ibv_qp *own_qp = loop_to_self(&side);
    CHECK(own_qp->qp_num != qp->qp_num);
    write_to_self(&side, own_qp, own_mr, own, "the child's");

    /* Objects of the parent end here without ending there. */
    CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
    _exit(0);
}

int main(void)
{
    static char memory[256];
    struct side side = {0};
    alarm(60);
    open_device(&side);
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qp = loop_to_self(&side);
    write_to_self(&side, qp, mr, memory, "before");
    for (int round = 0; round < 3; round++) {
        int ends[2];
        CHECK(!pipe(ends));
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child)
            in_the_child(&side, qp, mr, memory, ends[0]);
        /* From now on it is the parent's. */
        write_to_self(&side, qp, mr, memory, "meanwhile");
        CHECK(write(ends[1], "x", 1) == 1);
        int status;
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
        write_to_self(&side, qp, mr, memory, "after");
        CHECK(!close(ends[0]) && !close(ends[1]));
    }
    puts("all right");
    return 0;
}
