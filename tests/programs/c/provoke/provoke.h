/* What the files of this program share: two ends in one process, each with a device opened for
 * itself, and two ways to drive them, the old one (ibv_post_send, ibv_poll_cq) and the newer one
 * (ibv_wr_*, ibv_start_poll).
 */
#ifndef PROVOKE_H
#define PROVOKE_H

#include "../check.h"

#include <errno.h>

enum { BYTES = 64 << 10, QUEUE = 8, PIECES = 2, INLINE_BYTES = 64 };

#define ALL_RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |     \
                    IBV_ACCESS_REMOTE_ATOMIC)

/* A send work request, for either way. */
struct request {
    uint64_t wr_id;
    enum ibv_wr_opcode opcode;
    unsigned flags;
    struct ibv_sge pieces[8];
    int count;
    uint64_t remote, operand, swap;
    uint32_t rkey, immediate;
    struct ibv_ah *ah;
    uint32_t qpn, qkey;
};

/* What both ways tell of a completion. */
struct outcome {
    uint64_t wr_id;
    enum ibv_wc_status status;
    enum ibv_wc_opcode opcode;
    uint32_t bytes, immediate, qpn;
    unsigned flags;
};

struct way {
    const char *name;
    struct ibv_cq *(*make_cq)(struct ibv_context *context, int depth);
    struct ibv_qp *(*make_qp)(struct ibv_context *context, struct ibv_pd *pd,
                              struct ibv_qp_init_attr *init);
    /* 0 or an error number. */
    int (*post)(struct ibv_qp *qp, const struct request *request);
    /* 1, or 0 if there is none. */
    int (*poll)(struct ibv_cq *cq, struct outcome *outcome);
};

extern const struct way old_way, newer_way;
/* The one that was asked for. */
extern const struct way *way;

/* One end. */
struct end {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    union ibv_gid gid;
    enum ibv_mtu mtu;
    char *memory;
    struct ibv_mr *mr;
    struct ibv_qp *qp;
    struct ibv_srq *srq;
};

/* How a pair of queue pairs is made; zero is the usual. */
struct terms {
    enum ibv_qp_type type;
    int rights, no_reads, no_peer_reads, absent, rnr_retry, target_not_sending;
    /* The exponent of the local ACK timeout. */
    int timeout;
    uint32_t qkey;
};

extern struct end initiator, target;

void open_end(struct end *end);
struct terms usual(void);
void connect_ends(struct terms terms);
struct ibv_qp *make_end_qp(struct end *end, enum ibv_qp_type type, struct ibv_cq *cq);
void raise_end(struct end *end, const struct end *other, struct terms terms, int to_send);
void end_pair(void);
struct request simple(enum ibv_wr_opcode opcode, uint32_t length);
void receive(struct end *end, uint64_t wr_id, uint32_t length);
struct outcome expect_outcome(struct end *end);
void expect_status(const char *what, struct end *end, enum ibv_wc_status wanted);
void expect_no_outcome(struct end *end);
struct ibv_async_event expect_event(struct end *end, enum ibv_event_type wanted);
void expect_no_event(struct end *end);

/* The trials. */
void try_statuses(void);
void try_datagrams(void);
void try_refusals(void);
void try_shared_receives(void);
void try_events(void);
void try_forged(const char *address);
void prepare_memory(const char *mode);
void try_memory(void);

#endif
