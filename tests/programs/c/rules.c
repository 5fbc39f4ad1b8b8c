/* What the man pages say about lifetimes, error numbers and what is not there, in one process. */
#include "pair.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

/* A call that must fail with an error number as its result, or with errno set. */
#define FAILS_WITH(number, call) CHECK((call) == (number))
#define GIVES_NULL(number, call) CHECK((errno = 0, !(call)) && errno == (number))

static void devices(struct ibv_context *context)
{
    union ibv_gid gid;
    struct ibv_gid_entry entry, table[64];
    struct ibv_port_attr port;
    struct ibv_device_attr_ex device;
    __be16 pkey;

    CHECK(ibv_query_port(context, 2, &port) == EINVAL);
    CHECK(!ibv_query_port(context, 1, &port));
    CHECK(port.link_layer == IBV_LINK_LAYER_ETHERNET && port.state == IBV_PORT_ACTIVE);

    /* An empty entry: a zero GID for the old call, ENODATA for the newer one. */
    int empty = port.gid_tbl_len - 1;
    CHECK(!ibv_query_gid(context, 1, empty, &gid) && !gid.global.interface_id);
    CHECK(ibv_query_gid_ex(context, 1, empty, &entry, 0) == ENODATA);
    CHECK(ibv_query_gid(context, 1, port.gid_tbl_len, &gid) == -1);
    CHECK(ibv_query_gid_ex(context, 1, port.gid_tbl_len, &entry, 0) == EINVAL);
    CHECK(!ibv_query_gid_ex(context, 1, 3, &entry, 0));
    CHECK(entry.gid_index == 3 && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && entry.port_num == 1);
    CHECK(ibv_query_gid_table(context, table, 64, 0) >= 4);
    CHECK(ibv_query_gid_table(context, table, 1, 0) == -EINVAL);

    CHECK(!ibv_query_pkey(context, 1, 0, &pkey) && pkey == 0xffff);
    CHECK(ibv_query_pkey(context, 1, 1, &pkey) == -1);
    CHECK(ibv_get_pkey_index(context, 1, pkey) == 0);

    CHECK(!ibv_query_device_ex(context, NULL, &device));
    CHECK(device.phys_port_cnt_ex == 1 && device.orig_attr.max_qp > 0);
    CHECK(device.orig_attr.node_guid == ibv_get_device_guid(context->device));

    /* To ourselves packets go by the interface's own address. */
    uint8_t mac[ETHERNET_LL_SIZE];
    uint16_t vlan = 1;
    struct ibv_ah_attr self = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 0}};
    CHECK(!ibv_query_gid(context, 1, 0, &self.grh.dgid));
    CHECK(!ibv_resolve_eth_l2_from_gid(context, &self, mac, &vlan) && vlan == 0xffff);
    self.is_global = 0;
    CHECK(ibv_resolve_eth_l2_from_gid(context, &self, mac, NULL) == EINVAL);

    struct pollfd quiet[] = {{.fd = context->async_fd, .events = POLLIN},
                             {.fd = context->cmd_fd, .events = POLLIN}};
    CHECK(poll(quiet, 2, 0) == 0);
    CHECK(!fcntl(context->async_fd, F_SETFL, O_NONBLOCK));
    struct ibv_async_event event;
    CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
}

static void lifetimes(struct ibv_context *context)
{
    static char memory[4096];
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq = ibv_create_cq(context, 10, memory, channel, 0);
    CHECK(pd && channel && cq && cq->cqe >= 10 && cq->cq_context == memory);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr && mr->length == sizeof memory);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2,
                                            .max_recv_sge = 2, .max_inline_data = 100}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp && qp->state == IBV_QPS_RESET && init.cap.max_inline_data >= 100);

    FAILS_WITH(EBUSY, ibv_dealloc_pd(pd));
    FAILS_WITH(EBUSY, ibv_destroy_cq(cq));
    FAILS_WITH(EBUSY, ibv_destroy_comp_channel(channel));
    CHECK(!ibv_resize_cq(cq, 100) && cq->cqe >= 100);

    /* Nothing can be posted before its state, and the culprit is named. */
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
    CHECK(ibv_post_send(qp, &send, &bad_send) == EINVAL && bad_send == &send);
    struct ibv_recv_wr receives[6] = {0}, *bad_receive = NULL;
    CHECK(ibv_post_recv(qp, receives, &bad_receive) == EINVAL && bad_receive == receives);

    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
    FAILS_WITH(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    FAILS_WITH(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE | 1 << 30));
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS));
    CHECK(qp->state == IBV_QPS_INIT);
    for (int number = 0; number < 5; number++)
        receives[number].next = &receives[number + 1];
    CHECK(ibv_post_recv(qp, receives, &bad_receive) == ENOMEM && bad_receive == &receives[4]);

    struct ibv_qp_init_attr asked;
    CHECK(!ibv_query_qp(qp, &attr, IBV_QP_STATE, &asked));
    CHECK(attr.qp_state == IBV_QPS_INIT && asked.send_cq == cq && asked.cap.max_send_wr >= 4);

    /* An error flushes what was posted, and an armed queue says so on its channel. */
    struct ibv_cq *from = NULL;
    void *given = NULL;
    struct ibv_wc wc[8];
    CHECK(!ibv_req_notify_cq(cq, 0));
    attr.qp_state = IBV_QPS_ERR;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    CHECK(!ibv_get_cq_event(channel, &from, &given) && from == cq && given == memory);
    CHECK(ibv_poll_cq(cq, 8, wc) == 4 && wc[3].status == IBV_WC_WR_FLUSH_ERR);
    ibv_ack_cq_events(cq, 1);

    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
    FAILS_WITH(EBUSY, ibv_dealloc_pd(pd));
    CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
}

static void what_is_not_there(struct ibv_context *context)
{
    static char memory[64];
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 10, NULL, NULL, 0);
    CHECK(pd && cq);

    GIVES_NULL(EINVAL, ibv_create_cq(context, 0, NULL, NULL, 0));
    GIVES_NULL(EINVAL, ibv_create_cq(context, 1 << 30, NULL, NULL, 0));
    GIVES_NULL(EINVAL, ibv_create_cq(context, 10, NULL, NULL, context->num_comp_vectors));
    struct ibv_cq_init_attr_ex wide = {.cqe = 10, .comp_mask = 1u << 20};
    GIVES_NULL(EINVAL, ibv_create_cq_ex(context, &wide));
    wide = (struct ibv_cq_init_attr_ex){.cqe = 10, .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    GIVES_NULL(EOPNOTSUPP, ibv_create_cq_ex(context, &wide));

    GIVES_NULL(EINVAL, ibv_reg_mr(pd, memory, 64, IBV_ACCESS_REMOTE_WRITE));
    GIVES_NULL(EOPNOTSUPP, ibv_reg_mr(pd, memory, 64, IBV_ACCESS_ON_DEMAND));
    GIVES_NULL(EOPNOTSUPP, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    GIVES_NULL(EOPNOTSUPP, ibv_alloc_null_mr(pd));
    struct ibv_td_init_attr td = {0};
    GIVES_NULL(EOPNOTSUPP, ibv_alloc_td(context, &td));
    struct ibv_qp_init_attr_ex ex = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .pd = pd,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD | 1u << 30};
    GIVES_NULL(EINVAL, ibv_create_qp_ex(context, &ex));
    ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
    GIVES_NULL(EOPNOTSUPP, ibv_create_qp_ex(context, &ex));
    struct ibv_qp_init_attr raw = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RAW_PACKET};
    GIVES_NULL(EOPNOTSUPP, ibv_create_qp(pd, &raw));
    raw.qp_type = IBV_QPT_RC;
    raw.cap.max_send_wr = 1 << 30;
    GIVES_NULL(EINVAL, ibv_create_qp(pd, &raw));
    GIVES_NULL(EOPNOTSUPP, ibv_import_device(0));

    CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd));
}

int main(void)
{
    alarm(60);
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHECK(context);
    devices(context);
    lifetimes(context);
    what_is_not_there(context);
    CHECK(!ibv_close_device(context));
    puts("all right");
    return 0;
}
