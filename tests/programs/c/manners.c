/* What rdma_cm's man pages say of arguments, states and answers, in one process that is both ends. */
#include "connect.h"

#include <pthread.h>
#include <sys/un.h>

static struct rdma_event_channel *channel, *theirs;

static int fails(int result, int with)
{
    if (result != -1 || errno != with)
        fprintf(stderr, "result %d, errno %d (%s)\n", result, errno, strerror(errno));
    return result == -1 && errno == with;
}

static struct rdma_cm_id *fresh(void)
{
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, (void *)7, RDMA_PS_TCP));
    CHECK(id->channel == channel && id->context == (void *)7 && id->ps == RDMA_PS_TCP &&
          id->qp_type == IBV_QPT_RC && !id->verbs && !rdma_get_src_port(id));
    return id;
}

static void ports(void)
{
    struct sockaddr_in some = loopback(0), taken = loopback(7400), nobodys = loopback(7400);
    struct sockaddr_in6 every = {.sin6_family = AF_INET6, .sin6_port = htons(7400)};
    struct sockaddr_un foreign = {.sun_family = AF_UNIX};
    nobodys.sin_addr.s_addr = htonl(0xcb007101);
    struct rdma_cm_id *ids[6];
    for (int n = 0; n < 6; n++)
        ids[n] = fresh();
    CHECK(fails(rdma_bind_addr(ids[0], (struct sockaddr *)&foreign), EAFNOSUPPORT));
    CHECK(fails(rdma_bind_addr(ids[0], (struct sockaddr *)&nobodys), ENODEV));
    CHECK(fails(rdma_bind_addr(ids[0], NULL), EINVAL));
    CHECK(!rdma_bind_addr(ids[0], (struct sockaddr *)&taken));
    CHECK(ids[0]->verbs && ids[0]->pd && ntohs(rdma_get_src_port(ids[0])) == 7400);
    CHECK(fails(rdma_bind_addr(ids[0], (struct sockaddr *)&taken), EINVAL));
    CHECK(fails(rdma_bind_addr(ids[1], (struct sockaddr *)&taken), EADDRINUSE));
    CHECK(fails(rdma_bind_addr(ids[1], (struct sockaddr *)&every), EADDRINUSE));
    int yes = 1;
    CHECK(!rdma_set_option(ids[1], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes));
    CHECK(!rdma_bind_addr(ids[1], (struct sockaddr *)&every));
    CHECK(!rdma_bind_addr(ids[2], (struct sockaddr *)&some) && rdma_get_src_port(ids[2]));
    CHECK(!rdma_listen(ids[3], -1) && rdma_get_src_port(ids[3]));
    /* Two may share a port while neither listens. */
    struct sockaddr_in shared = loopback(7401);
    for (int n = 4; n < 6; n++) {
        CHECK(!rdma_set_option(ids[n], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof yes));
        CHECK(!rdma_bind_addr(ids[n], (struct sockaddr *)&shared));
    }
    CHECK(fails(rdma_listen(ids[4], 1), EADDRINUSE));
    CHECK(!rdma_destroy_id(ids[5]));
    CHECK(!rdma_listen(ids[4], 1));
    unsigned char class = 96, timeout = 32;
    CHECK(!rdma_set_option(ids[2], RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &class, 1));
    CHECK(fails(rdma_set_option(ids[2], RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &yes, 4), EINVAL));
    CHECK(fails(rdma_set_option(ids[2], RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1),
                EINVAL));
    CHECK(fails(rdma_set_option(ids[2], 7, 7, &yes, 4), ENOSYS));
    for (int n = 0; n < 5; n++)
        CHECK(!rdma_destroy_id(ids[n]));
}

static void states(void)
{
    struct rdma_cm_id *id = fresh(), *none;
    struct rdma_conn_param parameters = usual_parameters();
    CHECK(fails(rdma_create_id(channel, &none, NULL, 0x7777), EPROTONOSUPPORT));
    CHECK(fails(rdma_resolve_route(id, 100), EINVAL));
    CHECK(fails(rdma_connect(id, &parameters), EINVAL));
    CHECK(fails(rdma_connect(id, NULL), EINVAL));
    CHECK(fails(rdma_accept(id, &parameters), EINVAL));
    CHECK(fails(rdma_reject(id, NULL, 0), EINVAL));
    CHECK(fails(rdma_disconnect(id), EINVAL));
    CHECK(fails(rdma_establish(id), EINVAL));
    struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};
    CHECK(fails(rdma_create_qp(id, NULL, &init), EINVAL));
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;
    CHECK(fails(rdma_init_qp_attr(id, &attr, &mask), EINVAL));
    CHECK(fails(rdma_get_request(id, &none), EINVAL));
    CHECK(!rdma_destroy_id(id));
    CHECK(fails(rdma_join_multicast(NULL, NULL, NULL), EOPNOTSUPP));
    CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
    CHECK(!strcmp(rdma_event_str(99), "UNKNOWN EVENT"));
    /* Nothing leads there. */
    id = fresh();
    struct sockaddr_in nowhere = loopback(1);
    nowhere.sin_addr.s_addr = htonl(0xcb007101);
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&nowhere, 100));
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    CHECK(event->event == RDMA_CM_EVENT_ADDR_ERROR && event->status == -ENETUNREACH);
    CHECK(!rdma_ack_cm_event(event) && !rdma_destroy_id(id));
}

static void names(void)
{
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
    CHECK(!rdma_getaddrinfo("127.0.0.1", "7471", &hints, &found));
    struct sockaddr_in *address = (struct sockaddr_in *)found->ai_dst_addr;
    CHECK(found->ai_qp_type == IBV_QPT_RC && !found->ai_src_addr && found->ai_family == AF_INET);
    CHECK(found->ai_dst_len == sizeof *address && ntohs(address->sin_port) == 7471);
    rdma_freeaddrinfo(found);
    hints.ai_flags = RAI_PASSIVE;
    hints.ai_port_space = RDMA_PS_UDP;
    CHECK(!rdma_getaddrinfo(NULL, "7471", &hints, &found));
    CHECK(found->ai_qp_type == IBV_QPT_UD && found->ai_src_addr && !found->ai_dst_addr);
    rdma_freeaddrinfo(found);
    hints.ai_flags = RAI_NUMERICHOST;
    CHECK(fails(rdma_getaddrinfo("localhost", "1", &hints, &found), ENODEV));
    CHECK(fails(rdma_getaddrinfo(NULL, NULL, NULL, &found), EINVAL));
    hints.ai_family = 27;
    CHECK(fails(rdma_getaddrinfo("127.0.0.1", "1", &hints, &found), EOPNOTSUPP));
    int count;
    struct ibv_context **list = rdma_get_devices(&count);
    CHECK(list && count >= 1 && list[0] && !list[count]);
    rdma_free_devices(list);
}

/* A request that came, and what it says. */
static struct rdma_cm_id *requested(const char *words, unsigned reads)
{
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(theirs, &event));
    CHECK(event->event == RDMA_CM_EVENT_CONNECT_REQUEST && event->listen_id);
    CHECK(event->param.conn.private_data_len == 56);
    CHECK(!memcmp(event->param.conn.private_data, words, strlen(words)));
    CHECK(event->param.conn.responder_resources == reads);
    struct rdma_cm_id *id = event->id;
    CHECK(id->context == event->listen_id->context && id->verbs);
    CHECK(!rdma_ack_cm_event(event));
    return id;
}

static void refusals(void)
{
    struct rdma_conn_param parameters = usual_parameters();
    char words[200] = "please";
    struct rdma_cm_id *id = make_asker(channel, 7402);
    make_queue_pair(id);
    parameters.private_data = words;
    parameters.private_data_len = 57;
    CHECK(fails(rdma_connect(id, &parameters), EINVAL));
    parameters.private_data_len = 7;
    parameters.initiator_depth = 200;
    CHECK(fails(rdma_connect(id, &parameters), EINVAL));
    parameters.initiator_depth = 3;
    struct ibv_ece offer = {.vendor_id = 0x15b3, .options = 0x12345678}, seen;
    CHECK(!rdma_set_local_ece(id, &offer));
    CHECK(!rdma_connect(id, &parameters));
    struct rdma_cm_id *peer = requested("please", 3);
    CHECK(!rdma_get_remote_ece(peer, &seen) && seen.vendor_id == 0x15b3 &&
          seen.options == 0x12345678);
    CHECK(fails(rdma_reject(peer, words, 149), EINVAL));
    strcpy(words, "no");
    CHECK(!rdma_reject(peer, words, 3));
    CHECK(fails(rdma_reject(peer, words, 3), EINVAL));
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    CHECK(event->event == RDMA_CM_EVENT_REJECTED && event->status == 28);
    CHECK(event->param.conn.private_data_len == 148);
    CHECK(!memcmp(event->param.conn.private_data, "no", 3));
    CHECK(id->qp->state == IBV_QPS_ERR);
    CHECK(!rdma_ack_cm_event(event));
    CHECK(!rdma_destroy_id(peer));
    end_identifier(id);
}

static void *acknowledge_late(void *event)
{
    usleep(200000);
    CHECK(!rdma_ack_cm_event(event));
    return NULL;
}

/* A connection whose client manages its queue pair itself; and an event that is held. */
static void by_hand(void)
{
    struct rdma_conn_param parameters = usual_parameters();
    struct rdma_cm_id *id = make_asker(channel, 7402);
    struct ibv_cq *cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                    .cap = {2, 2, 1, 1, 0}};
    struct ibv_qp *qp = ibv_create_qp(id->pd, &init);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    CHECK(cq && qp && !rdma_init_qp_attr(id, &attr, &mask) && !ibv_modify_qp(qp, &attr, mask));
    parameters.qp_num = qp->qp_num;
    CHECK(!rdma_connect(id, &parameters));
    struct rdma_cm_id *peer = requested("", 1);
    make_queue_pair(peer);
    CHECK(!rdma_accept(peer, NULL));
    CHECK(expect(channel, RDMA_CM_EVENT_CONNECT_RESPONSE) == id);
    for (int state = IBV_QPS_RTR; state <= IBV_QPS_RTS; state++) {
        attr.qp_state = state;
        CHECK(!rdma_init_qp_attr(id, &attr, &mask) && !ibv_modify_qp(qp, &attr, mask));
    }
    CHECK(!rdma_establish(id));
    CHECK(expect(theirs, RDMA_CM_EVENT_ESTABLISHED) == peer);
    CHECK(peer->qp->state == IBV_QPS_RTS && attr.dest_qp_num == peer->qp->qp_num);
    CHECK(!rdma_disconnect(peer) && peer->qp->state == IBV_QPS_ERR);
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event) && event->event == RDMA_CM_EVENT_DISCONNECTED);
    CHECK(!rdma_disconnect(id));
    CHECK(expect(theirs, RDMA_CM_EVENT_DISCONNECTED) == peer);
    end_identifier(peer);
    /* It ends when its last event is acknowledged, and not before. */
    double then = seconds_now();
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, acknowledge_late, event));
    CHECK(!rdma_destroy_id(id) && seconds_now() - then >= 0.2);
    CHECK(!pthread_join(thread, NULL));
    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
}

int main(void)
{
    alarm(60);
    channel = make_channel();
    theirs = make_channel();
    struct rdma_cm_id *listener = make_listener(theirs, 7402);
    CHECK(fails(rdma_listen(listener, 0), EINVAL));
    ports();
    states();
    names();
    refusals();
    by_hand();
    /* Who has asked a listener that goes is told so. */
    struct rdma_cm_id *id = make_asker(channel, 7402);
    make_queue_pair(id);
    struct rdma_conn_param parameters = usual_parameters();
    CHECK(!rdma_connect(id, &parameters));
    usleep(100000);
    CHECK(!rdma_destroy_id(listener));
    CHECK(expect(channel, RDMA_CM_EVENT_REJECTED) == id);
    end_identifier(id);
    rdma_destroy_event_channel(channel);
    rdma_destroy_event_channel(theirs);
    puts("all right");
    return 0;
}
