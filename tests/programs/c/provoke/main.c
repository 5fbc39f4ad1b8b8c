/* Provokes every completion status and every asynchronous event of objects, and what each verb
 * does with arguments that do not fit.
 *
 * Usage: provoke old|newer                     both ends in this process
 *        provoke old|newer forged ADDRESS     against a script that answers wrongly there
 *        provoke old|newer memory MODE        memory that vanishes; memory.c has the modes
 */
#include "provoke.h"

const struct way *way;

int main(int count, char **words)
{
    int is_forged = count == 4 && !strcmp(words[2], "forged");
    int is_memory = count == 4 && !strcmp(words[2], "memory");
    CHECK(count == 2 || is_forged || is_memory);
    way = !strcmp(words[1], "newer") ? &newer_way : &old_way;
    CHECK(!strcmp(words[1], way->name));
    alarm(100);
    if (is_memory)
        prepare_memory(words[3]);
    open_end(&initiator);
    open_end(&target);
    if (is_forged) {
        try_forged(words[3]);
    } else if (is_memory) {
        try_memory();
    } else {
        try_statuses();
        try_datagrams();
        try_refusals();
        try_shared_receives();
        try_events();
    }
    CHECK(!ibv_dereg_mr(initiator.mr) && !ibv_dereg_mr(target.mr));
    CHECK(!ibv_destroy_cq(initiator.cq) && !ibv_destroy_cq(target.cq));
    CHECK(!ibv_dealloc_pd(initiator.pd) && !ibv_dealloc_pd(target.pd));
    CHECK(!ibv_close_device(initiator.context) && !ibv_close_device(target.context));
    puts("all right");
    return 0;
}
