/* A program closes every descriptor that it does not know, and opens files of its own, which get the
 * numbers: of the kinds that Converb has, too. They stay as they are, under traffic and at the end.
 *
 * Usage: kin epoll|eventfd|timer|file|pipe
 */
#define _GNU_SOURCE
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

/* So low a limit that the numbers of Converb's descriptors are in the way of a small program. */
enum { LIMIT = 256, COUNT = 60, HIGH = 300 };

static char memory[4096];

static int open_one(const char *kind, int *other)
{
    *other = -1;
    if (!strcmp(kind, "epoll"))
        return epoll_create1(0);
    if (!strcmp(kind, "eventfd"))
        return eventfd(0, EFD_NONBLOCK);
    if (!strcmp(kind, "timer"))
        return timerfd_create(CLOCK_MONOTONIC, 0);
    if (!strcmp(kind, "file"))
        return open("/tmp", O_RDWR | O_TMPFILE, 0600);
    CHECK(!strcmp(kind, "pipe"));
    int ends[2];
    CHECK(!pipe(ends));
    *other = ends[0];
    return ends[1];
}

static void name(int number, char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fdinfo/%d", number);
    memset(text, 0, 256);
    int info = open(path, O_RDONLY);
    if (info >= 0) {
        CHECK(read(info, text, 255) > 0);
        close(info);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    struct rlimit limit = {LIMIT, LIMIT};
    CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
    struct side side;
    memset(&side, 0, sizeof side);
    open_device(&side);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(side.context);
    CHECK(channel);
    int shown[] = {channel->fd, side.context->async_fd, side.context->cmd_fd};
    struct ibv_mr *mr = ibv_reg_mr(side.pd, memory, sizeof memory,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr);
    struct ibv_qp *qps[] = {make_qp(&side, 4), make_qp(&side, 4)};
    for (int n = 0; n < 2; n++) {
        unsigned peer = qps[1 - n]->qp_num;
        struct card card = {.qpn = peer, .psn = peer & 0xffffff, .gid = side.gid};
        connect_qp(&side, qps[n], &card);
    }
    for (int number = 3; number < HIGH; number++)
        close(number);
    int own[COUNT], other[COUNT];
    static char before[COUNT][256], now[256];
    for (int n = 0; n < COUNT; n++) {
        own[n] = open_one(argv[1], &other[n]);
        CHECK(own[n] >= 0);
        name(own[n], before[n]);
    }
    for (int n = 0; n < 1500; n++) {
        CHECK(!post(qps[0], IBV_WR_RDMA_WRITE, memory, mr->lkey, 64, (uintptr_t)memory + 1024,
                    mr->rkey));
        wait_success(&side, "write");
        usleep(1000);
    }
    CHECK(!ibv_destroy_qp(qps[0]) && !ibv_destroy_qp(qps[1]) && !ibv_dereg_mr(mr));
    CHECK(!ibv_destroy_cq(side.cq) && !ibv_destroy_comp_channel(channel));
    CHECK(!ibv_dealloc_pd(side.pd) && !ibv_close_device(side.context));
    for (int n = 0; n < COUNT; n++) {
        /* These the program has seen, and closed itself: libibverbs closes them once more. */
        int is_shown = 0;
        for (int m = 0; m < 3; m++)
            is_shown |= own[n] == shown[m] || other[n] == shown[m];
        if (is_shown)
            continue;
        name(own[n], now);
        if (strcmp(before[n], now))
            fprintf(stderr, "%d was\n%sis\n%s", own[n], before[n], now);
        CHECK(!strcmp(before[n], now));
        struct pollfd wanted = {.fd = other[n] < 0 ? own[n] : other[n], .events = POLLIN};
        CHECK(!strcmp(argv[1], "file") || poll(&wanted, 1, 0) == 0);
    }
    puts("all right");
    return 0;
}
