/* Prints, for each asynchronous event, what a program finds that asks at once: the port's state
 * and its GIDs, the old way and by the table. Run by scenarios/ports.py. */
#include "check.h"

#include <arpa/inet.h>
#include <errno.h>

static void print_gids(struct ibv_context *context, int count)
{
    struct ibv_gid_entry table[256];
    ssize_t entries = ibv_query_gid_table(context, table, 256, 0);
    CHECK(entries >= 0);
    for (int index = 0; index < count; index++) {
        union ibv_gid gid;
        char text[INET6_ADDRSTRLEN];
        CHECK(!ibv_query_gid(context, 1, index, &gid));
        struct ibv_gid_entry entry;
        int missing = ibv_query_gid_ex(context, 1, index, &entry, 0);
        if (!gid.global.subnet_prefix && !gid.global.interface_id) {
            CHECK(missing == ENODATA);
            continue;
        }
        CHECK(!missing && !memcmp(&entry.gid, &gid, sizeof gid));
        entries--;
        inet_ntop(AF_INET6, &gid, text, sizeof text);
        printf(" %d=%s", index, text);
    }
    CHECK(!entries);
}

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct ibv_context *context = ibv_open_device(list[0]);
    ibv_free_device_list(list);
    CHECK(context);
    alarm(60);
    for (struct ibv_async_event event = {.event_type = -1};;) {
        struct ibv_port_attr port;
        CHECK(!ibv_query_port(context, 1, &port));
        printf("event %d of port %d: %s", event.event_type, event.element.port_num,
               port.state == IBV_PORT_ACTIVE ? "active" : "down");
        print_gids(context, port.gid_tbl_len);
        puts("");
        fflush(stdout);
        CHECK(!ibv_get_async_event(context, &event));
        ibv_ack_async_event(&event);
    }
}
