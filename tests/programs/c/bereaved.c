/* One end of a connection is killed at each step of it. The other one is told, soon, and the port is
 * free again.
 *
 * Usage: bereaved asking|answering|connected|leaving client|server
 *   asking     the server has the request and has not decided
 *   answering  the server has accepted and the client has not read it
 *   connected  there is a connection
 *   leaving    ... and the survivor is ending it
 */
#include "connect.h"

#include <poll.h>

static const char *step;
static int link_of[2];

static int is(const char *name)
{
    return !strcmp(step, name);
}

static void say(int descriptor)
{
    CHECK(write(descriptor, "x", 1) == 1);
}

static void wait_for_word(int descriptor)
{
    char word;
    CHECK(read(descriptor, &word, 1) == 1);
}

static void sleep_until_killed(int descriptor)
{
    say(descriptor);
    for (;;)
        pause();
}

/* The survivor hears of it within two seconds; what it hears. */
static enum rdma_cm_event_type hear(struct rdma_event_channel *channel)
{
    struct pollfd wanted = {.fd = channel->fd, .events = POLLIN};
    CHECK(poll(&wanted, 1, 2000) == 1);
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    enum rdma_cm_event_type kind = event->event;
    CHECK(!rdma_ack_cm_event(event));
    return kind;
}

static void must_be_the_end(enum rdma_cm_event_type kind)
{
    int is_good = kind == RDMA_CM_EVENT_DISCONNECTED || kind == RDMA_CM_EVENT_UNREACHABLE ||
                  kind == RDMA_CM_EVENT_REJECTED;
    if (!is_good)
        fprintf(stderr, "it was told %s\n", rdma_event_str(kind));
    CHECK(is_good);
}

/* The other one is killed between the words. */
static void survive(int descriptor, struct rdma_event_channel *channel, struct rdma_cm_id *id)
{
    say(descriptor);
    wait_for_word(descriptor);
    if (is("leaving"))
        CHECK(!rdma_disconnect(id));
    must_be_the_end(hear(channel));
}

static void server(int descriptor, int dies)
{
    struct rdma_event_channel *channel = make_channel();
    struct rdma_cm_id *listener = make_listener(channel, PORT);
    say(descriptor);
    struct rdma_cm_id *id = expect(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    make_queue_pair(id);
    struct rdma_conn_param parameters = usual_parameters();
    if (is("asking") && dies)
        sleep_until_killed(descriptor);
    if (is("asking")) {
        /* The client is gone when this returns. */
        say(descriptor);
        wait_for_word(descriptor);
        CHECK(!rdma_accept(id, &parameters) || errno == EINVAL);
        must_be_the_end(hear(channel));
    } else {
        CHECK(!rdma_accept(id, &parameters));
        if (is("answering") && dies)
            sleep_until_killed(descriptor);
        if (!is("answering"))
            CHECK(expect(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
        if (dies)
            sleep_until_killed(descriptor);
        survive(descriptor, channel, id);
    }
    end_identifier(id);
    end_identifier(listener);
    rdma_destroy_event_channel(channel);
}

static void client(int descriptor, int dies)
{
    struct rdma_event_channel *channel = make_channel();
    wait_for_word(descriptor);
    struct rdma_cm_id *id = make_asker(channel, PORT);
    make_queue_pair(id);
    struct rdma_conn_param parameters = usual_parameters();
    CHECK(!rdma_connect(id, &parameters));
    if (dies && !is("connected") && !is("leaving"))
        sleep_until_killed(descriptor);
    if (is("connected") || is("leaving") || is("answering"))
        CHECK(expect(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
    if (dies)
        sleep_until_killed(descriptor);
    survive(descriptor, channel, id);
    end_identifier(id);
    rdma_destroy_event_channel(channel);
}

static pid_t start(void (*side)(int, int), int which, int dies)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (!child) {
        alarm(60);
        side(link_of[which], dies);
        _exit(0);
    }
    return child;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    step = argv[1];
    int server_dies = !strcmp(argv[2], "server");
    alarm(60);
    int to_server[2], to_client[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, to_server));
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, to_client));
    link_of[0] = to_server[1];
    link_of[1] = to_client[1];
    pid_t serving = start(server, 0, server_dies);
    wait_for_word(to_server[0]);
    pid_t asking = start(client, 1, !server_dies);
    say(to_client[0]);
    /* Both are where they should be. */
    wait_for_word(to_server[0]);
    wait_for_word(to_client[0]);
    pid_t dying = server_dies ? serving : asking, living = server_dies ? asking : serving;
    CHECK(!kill(dying, SIGKILL));
    int status;
    CHECK(waitpid(dying, &status, 0) == dying && WIFSIGNALED(status));
    double then = seconds_now();
    say(server_dies ? to_client[0] : to_server[0]);
    CHECK(waitpid(living, &status, 0) == living);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fprintf(stderr, "told after %.3f s\n", seconds_now() - then);
    /* The port of the dead is free. */
    struct rdma_event_channel *channel = make_channel();
    end_identifier(make_listener(channel, PORT));
    rdma_destroy_event_channel(channel);
    puts("all right");
    return 0;
}
