/* Answers that do not fit their requests, by a peer that is a script (scenarios/forged.py). It
 * knows what to do by the length that it is asked for, and answers to the number that it is
 * called by, which is our own. */
#include "provoke.h"

#include <arpa/inet.h>

struct forgery {
    const char *what;
    enum ibv_wr_opcode opcode;
    uint32_t length;
    enum ibv_wc_status wanted;
};

static const struct forgery forgeries[] = {
    {"READ answered in full", IBV_WR_RDMA_READ, 60, IBV_WC_SUCCESS},
    {"READ answered with too little", IBV_WR_RDMA_READ, 64, IBV_WC_BAD_RESP_ERR},
    {"READ answered with too much", IBV_WR_RDMA_READ, 68, IBV_WC_BAD_RESP_ERR},
    {"READ answered by an atomic", IBV_WR_RDMA_READ, 72, IBV_WC_BAD_RESP_ERR},
    {"WRITE answered with data", IBV_WR_RDMA_WRITE, 76, IBV_WC_BAD_RESP_ERR},
    {"atomic answered by a READ", IBV_WR_ATOMIC_FETCH_AND_ADD, 8, IBV_WC_BAD_RESP_ERR},
    /* Nothing but the last answer counts. */
    {"READ answered late, early, for others", IBV_WR_RDMA_READ, 80, IBV_WC_SUCCESS},
    {"WRITE refused in a way of tomorrow", IBV_WR_RDMA_WRITE, 84, IBV_WC_REM_INV_REQ_ERR},
    {"WRITE refused for its keys", IBV_WR_RDMA_WRITE, 88, IBV_WC_REM_ACCESS_ERR},
    {"WRITE that failed there", IBV_WR_RDMA_WRITE, 92, IBV_WC_REM_OP_ERR},
};

void try_forged(const char *address)
{
    struct end forger = {0};
    forger.gid.raw[10] = forger.gid.raw[11] = 0xff;
    CHECK(inet_pton(AF_INET, address, forger.gid.raw + 12) == 1);
    struct terms terms = usual();
    /* A second, for a script on a busy machine. */
    terms.timeout = 18;
    for (unsigned number = 0; number < sizeof forgeries / sizeof *forgeries; number++) {
        const struct forgery *forgery = &forgeries[number];
        printf("%s\n", forgery->what);
        fflush(stdout);
        initiator.qp = make_end_qp(&initiator, IBV_QPT_RC, initiator.cq);
        target.qp = make_end_qp(&target, IBV_QPT_RC, target.cq);
        forger.qp = initiator.qp;
        raise_end(&initiator, &forger, terms, 1);
        memset(initiator.memory, 0, 128);
        struct request request = simple(forgery->opcode, forgery->length);
        CHECK(!way->post(initiator.qp, &request));
        CHECK(!way->post(initiator.qp, &request));
        expect_status(forgery->what, &initiator, forgery->wanted);
        if (forgery->wanted == IBV_WC_SUCCESS) {
            for (uint32_t byte = 0; byte < forgery->length; byte++)
                CHECK(initiator.memory[byte] == 'r');
            expect_status("again", &initiator, IBV_WC_SUCCESS);
        } else {
            expect_status("the one behind it", &initiator, IBV_WC_WR_FLUSH_ERR);
        }
        end_pair();
    }
}
