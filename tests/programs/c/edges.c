/* Many connections at once, over one event channel that never blocks and is watched edge-triggered,
 * and one completion queue. Several events come before one is read, and none is lost. Then each
 * connection carries a message.
 *
 * Usage: edges [CONNECTIONS]
 */
#include "connect.h"

#include <fcntl.h>
#include <sys/epoll.h>

static int wanted = 200;

/* What one side has seen of each kind. */
static int seen[16];

static struct ibv_cq *cq;
static char memory[64];
static struct ibv_mr *mr;

static void prepare(struct rdma_cm_id *id)
{
    if (!cq) {
        cq = ibv_create_cq(id->verbs, 4 * wanted, NULL, NULL, 0);
        mr = ibv_reg_mr(id->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    }
    CHECK(cq && mr);
    make_queue_pair_on(id, cq);
    struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(id->qp, &wr, &bad));
}

/* So many completions, all of them good. */
static void complete(int count)
{
    double begun = seconds_now();
    while (count > 0) {
        struct ibv_wc wc[16];
        int found = ibv_poll_cq(cq, 16, wc);
        CHECK(found >= 0 && seconds_now() - begun < 60);
        for (int n = 0; n < found; n++)
            CHECK(wc[n].status == IBV_WC_SUCCESS);
        count -= found;
    }
}

static int watch(struct rdma_event_channel *channel)
{
    int flags = fcntl(channel->fd, F_GETFL);
    CHECK(flags >= 0 && !fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK));
    struct rdma_cm_event *event;
    CHECK(rdma_get_cm_event(channel, &event) == -1 && errno == EAGAIN);
    int set = epoll_create1(0);
    struct epoll_event interest = {.events = EPOLLIN | EPOLLET};
    CHECK(set >= 0 && !epoll_ctl(set, EPOLL_CTL_ADD, channel->fd, &interest));
    return set;
}

/* Reads all that there is after each edge, until `kind` has come often enough. */
static void serve(int set, struct rdma_event_channel *channel, enum rdma_cm_event_type kind,
                  int often)
{
    struct rdma_conn_param parameters = usual_parameters();
    while (seen[kind] < often) {
        struct epoll_event edge;
        CHECK(epoll_wait(set, &edge, 1, 20000) == 1);
        struct rdma_cm_event *event;
        while (!rdma_get_cm_event(channel, &event)) {
            struct rdma_cm_id *id = event->id;
            enum rdma_cm_event_type what = event->event;
            CHECK(what < 16 && !event->status);
            seen[what]++;
            CHECK(!rdma_ack_cm_event(event));
            switch (what) {
            case RDMA_CM_EVENT_ADDR_RESOLVED:
                CHECK(!rdma_resolve_route(id, 1000));
                break;
            case RDMA_CM_EVENT_ROUTE_RESOLVED:
                prepare(id);
                CHECK(!rdma_connect(id, &parameters));
                break;
            case RDMA_CM_EVENT_CONNECT_REQUEST:
                prepare(id);
                CHECK(!rdma_accept(id, &parameters));
                break;
            case RDMA_CM_EVENT_DISCONNECTED:
                CHECK(!rdma_disconnect(id));
                end_identifier(id);
                break;
            case RDMA_CM_EVENT_ESTABLISHED:
            case RDMA_CM_EVENT_TIMEWAIT_EXIT:
                break;
            default:
                fprintf(stderr, "unexpected: %s\n", rdma_event_str(what));
                exit(1);
            }
        }
        CHECK(errno == EAGAIN);
    }
}

static void server(int descriptor)
{
    struct rdma_event_channel *channel = make_channel();
    struct rdma_cm_id *listener = make_listener(channel, PORT);
    int set = watch(channel);
    CHECK(write(descriptor, "x", 1) == 1);
    serve(set, channel, RDMA_CM_EVENT_ESTABLISHED, wanted);
    complete(wanted);
    CHECK(write(descriptor, "x", 1) == 1);
    serve(set, channel, RDMA_CM_EVENT_DISCONNECTED, wanted);
    CHECK(seen[RDMA_CM_EVENT_CONNECT_REQUEST] == wanted);
    CHECK(seen[RDMA_CM_EVENT_ESTABLISHED] == wanted);
    CHECK(!rdma_destroy_id(listener));
    rdma_destroy_event_channel(channel);
}

static void client(int descriptor)
{
    struct rdma_event_channel *channel = make_channel();
    int set = watch(channel);
    struct rdma_cm_id **ids = calloc(wanted, sizeof *ids);
    struct sockaddr_in address = loopback(PORT);
    for (int n = 0; n < wanted; n++) {
        CHECK(!rdma_create_id(channel, &ids[n], NULL, RDMA_PS_TCP));
        CHECK(!rdma_resolve_addr(ids[n], NULL, (struct sockaddr *)&address, 1000));
    }
    serve(set, channel, RDMA_CM_EVENT_ESTABLISHED, wanted);
    for (int n = 0; n < wanted; n++) {
        struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = 8, .lkey = mr->lkey};
        struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
        CHECK(!ibv_post_send(ids[n]->qp, &wr, &bad));
    }
    complete(wanted);
    char word;
    CHECK(read(descriptor, &word, 1) == 1);
    for (int n = 0; n < wanted; n++)
        CHECK(!rdma_disconnect(ids[n]));
    serve(set, channel, RDMA_CM_EVENT_DISCONNECTED, wanted);
    CHECK(seen[RDMA_CM_EVENT_ADDR_RESOLVED] == wanted);
    CHECK(seen[RDMA_CM_EVENT_ROUTE_RESOLVED] == wanted);
    rdma_destroy_event_channel(channel);
    free(ids);
}

int main(int argc, char **argv)
{
    if (argc > 1)
        wanted = atoi(argv[1]);
    alarm(100);
    int ends[2];
    char word;
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        alarm(100);
        server(ends[1]);
        return 0;
    }
    close(ends[1]);
    CHECK(read(ends[0], &word, 1) == 1);
    client(ends[0]);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && !WEXITSTATUS(status));
    puts("all right");
    return 0;
}
