/* Connections by address for the programs beside this file: a listener, and who asks it. Each program
 * forks before any call. */
#ifndef CONNECT_H
#define CONNECT_H

#include "check.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { PORT = 7200 };

static inline struct sockaddr_in loopback(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static inline struct rdma_event_channel *make_channel(void)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel && channel->fd >= 0);
    return channel;
}

/* The next event, which must be of this kind; its identifier. */
static inline struct rdma_cm_id *expect(struct rdma_event_channel *channel,
                                        enum rdma_cm_event_type kind)
{
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(channel, &event));
    if (event->event != kind)
        fprintf(stderr, "%s (%d), not %s\n", rdma_event_str(event->event), event->status,
                rdma_event_str(kind));
    CHECK(event->event == kind);
    struct rdma_cm_id *id = event->id;
    CHECK(!rdma_ack_cm_event(event));
    return id;
}

static inline struct rdma_cm_id *make_listener(struct rdma_event_channel *channel, int port)
{
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    struct sockaddr_in address = loopback(port);
    CHECK(!rdma_bind_addr(id, (struct sockaddr *)&address));
    CHECK(!rdma_listen(id, 0));
    return id;
}

/* A queue pair of the identifier's, with completion queues of its own or with this one. */
static inline void make_queue_pair_on(struct rdma_cm_id *id, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
    CHECK(!rdma_create_qp(id, NULL, &init));
    CHECK(id->qp && id->qp->state == IBV_QPS_INIT);
}

static inline void make_queue_pair(struct rdma_cm_id *id)
{
    make_queue_pair_on(id, NULL);
}

/* An identifier that may connect. */
static inline struct rdma_cm_id *make_asker(struct rdma_event_channel *channel, int port)
{
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(channel, &id, NULL, RDMA_PS_TCP));
    struct sockaddr_in address = loopback(port);
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&address, 1000));
    CHECK(expect(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
    CHECK(id->verbs && id->port_num == 1);
    CHECK(!rdma_resolve_route(id, 1000));
    CHECK(expect(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
    return id;
}

static inline struct rdma_conn_param usual_parameters(void)
{
    struct rdma_conn_param parameters = {.responder_resources = 1, .initiator_depth = 1,
                                         .retry_count = 7, .rnr_retry_count = 7};
    return parameters;
}

static inline void end_identifier(struct rdma_cm_id *id)
{
    if (id->qp)
        rdma_destroy_qp(id);
    CHECK(!rdma_destroy_id(id));
}

#endif
