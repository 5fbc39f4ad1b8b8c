/* Listens, and never reads what it is told. */
#include "connect.h"

int main(void)
{
    alarm(100);
    struct rdma_event_channel *channel = make_channel();
    make_listener(channel, 7300);
    puts("listening");
    fflush(stdout);
    for (;;)
        pause();
}
