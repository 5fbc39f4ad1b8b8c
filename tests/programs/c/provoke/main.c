/* Provokes every completion status and every asynchronous event of objects, and what each verb
 * does with arguments that do not fit.
 *
 * Usage: provoke old|newer                     both ends in this process
 *        provoke old|newer forged ADDRESS     against a script that answers wrongly there
 */
#include "provoke.h"

const struct way *way;

int main(int count, char **words)
{
    int is_forged = count == 4 && !strcmp(words[2], "forged");
    CHECK(count == 2 || is_forged);
    way = !strcmp(words[1], "newer") ? &newer_way : &old_way;
    CHECK(!strcmp(words[1], way->name));
    alarm(100);
    open_end(&initiator);
    open_end(&target);
    if (is_forged) {
        try_forged(words[3]);
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
