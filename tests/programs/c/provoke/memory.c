/* Registered memory that is gone, may not be written, or lies behind the end of its file: each
 * operation ends with the status that the specification names, whatever the program has made of
 * SIGSEGV and SIGBUS, and the program's own faults are still its own.
 *
 * Modes: `plain`; `blocked`: both signals are blocked in all threads; `before` and `after`: the
 * program has handlers, from before or after the first verb.
 */
#define _GNU_SOURCE
#include "provoke.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum damage { GONE, READ_ONLY, TRUNCATED, DAMAGES };
enum place { SOURCE, TARGET, RECEIVE };

static const char *const damages[] = {"gone", "read-only", "truncated"};
static const char *const places[] = {"local", "remote", "a receive's"};
enum { PAGE = 4096, LAST_PAGE = BYTES - PAGE };

static const char *mode;
static volatile sig_atomic_t handled;
static sigjmp_buf after_fault;

static void handle(int signal, siginfo_t *info, void *context)
{
    (void)context;
    (void)info;
    handled++;
    siglongjmp(after_fault, signal);
}

static void install(void)
{
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
}

/* Before the first verb. */
void prepare_memory(const char *wanted)
{
    mode = wanted;
    struct rlimit none = {0, 0};
    CHECK(!setrlimit(RLIMIT_CORE, &none));
    if (!strcmp(mode, "blocked")) {
        sigset_t both;
        sigemptyset(&both);
        sigaddset(&both, SIGSEGV);
        sigaddset(&both, SIGBUS);
        CHECK(!pthread_sigmask(SIG_BLOCK, &both, NULL));
    } else if (!strcmp(mode, "before")) {
        install();
    } else {
        CHECK(!strcmp(mode, "plain") || !strcmp(mode, "after"));
    }
}

struct piece {
    char *memory;
    int file;
    struct ibv_mr *mr;
};

static struct piece make_piece(struct ibv_pd *pd)
{
    struct piece piece = {.file = memfd_create("piece", 0)};
    CHECK(piece.file >= 0 && !ftruncate(piece.file, BYTES));
    piece.memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, piece.file, 0);
    CHECK(piece.memory != MAP_FAILED);
    piece.mr = ibv_reg_mr(pd, piece.memory, BYTES, ALL_RIGHTS);
    CHECK(piece.mr);
    return piece;
}

static void end_piece(struct piece *piece)
{
    CHECK(!ibv_dereg_mr(piece->mr) && !munmap(piece->memory, BYTES) && !close(piece->file));
}

/* Of the last page. */
static void do_damage(struct piece *piece, enum damage damage)
{
    switch (damage) {
    case GONE:
        CHECK(!munmap(piece->memory + LAST_PAGE, PAGE));
        break;
    case READ_ONLY:
        CHECK(!mprotect(piece->memory + LAST_PAGE, PAGE, PROT_READ));
        break;
    default:
        CHECK(!ftruncate(piece->file, LAST_PAGE));
    }
}

static struct request request_of(enum ibv_wr_opcode opcode, int is_long, struct piece *here,
                                 struct piece *there)
{
    int offset = is_long ? 0 : LAST_PAGE;
    struct request request = simple(opcode, is_long ? BYTES : 8);
    request.pieces[0].addr = (uintptr_t)here->memory + offset;
    request.pieces[0].lkey = here->mr->lkey;
    request.remote = (uintptr_t)there->memory + offset;
    request.rkey = there->mr->rkey;
    return request;
}

static void receive_into(struct piece *piece, int is_long)
{
    struct ibv_sge sge = {(uintptr_t)piece->memory + (is_long ? 0 : LAST_PAGE),
                          is_long ? BYTES : 64, piece->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = 100, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(target.qp, &wr, &bad));
}

static int changes_local(enum ibv_wr_opcode opcode)
{
    return opcode != IBV_WR_SEND && opcode != IBV_WR_RDMA_WRITE;
}

static int changes_remote(enum ibv_wr_opcode opcode)
{
    return opcode != IBV_WR_SEND && opcode != IBV_WR_RDMA_READ;
}

static void try_damage(enum ibv_qp_type type, enum ibv_wr_opcode opcode, enum place place,
                       enum damage damage, int is_long)
{
    char what[200];
    snprintf(what, sizeof what, "%s: type %d, operation %d, %s memory is %s, %s", mode, type,
             opcode, places[place], damages[damage], is_long ? "long" : "short");
    struct piece here = make_piece(initiator.pd), there = make_piece(target.pd);
    struct terms terms = usual();
    terms.type = type;
    if (type == IBV_QPT_UC)
        terms.rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    connect_ends(terms);
    do_damage(place == SOURCE ? &here : &there, damage);
    struct request request = request_of(opcode, is_long, &here, &there);
    struct ibv_ah *ah = NULL;
    if (type == IBV_QPT_UD) {
        struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1,
                                   .grh = {.dgid = target.gid, .hop_limit = 64}};
        ah = ibv_create_ah(initiator.pd, &attr);
        CHECK(ah);
        request.ah = ah;
        request.qpn = target.qp->qp_num;
        request.qkey = terms.qkey;
    }
    if (opcode == IBV_WR_SEND && place == RECEIVE)
        receive_into(&there, is_long);
    else if (opcode == IBV_WR_SEND)
        receive(&target, 100, BYTES);
    CHECK(!way->post(initiator.qp, &request));

    int fails = damage != READ_ONLY || (place == SOURCE ? changes_local(opcode)
                                                        : changes_remote(opcode) ||
                                                              place == RECEIVE);
    enum ibv_wc_status wanted = !fails                 ? IBV_WC_SUCCESS
                                : place == SOURCE      ? IBV_WC_LOC_PROT_ERR
                                : type == IBV_QPT_RC   ? IBV_WC_REM_OP_ERR
                                                       : IBV_WC_SUCCESS;
    expect_status(what, &initiator, wanted);
    if (opcode == IBV_WR_SEND && place == RECEIVE)
        expect_status(what, &target, IBV_WC_LOC_PROT_ERR);
    else if (opcode == IBV_WR_SEND && !fails)
        expect_status(what, &target, IBV_WC_SUCCESS);
    if (handled) {
        fprintf(stderr, "%s: the program's handler was called\n", what);
        exit(1);
    }
    end_pair();
    if (ah)
        CHECK(!ibv_destroy_ah(ah));
    end_piece(&here);
    end_piece(&there);
}

static volatile int is_loaded;

static void *unmap(void *piece)
{
    while (!is_loaded)
        usleep(100);
    do_damage(piece, GONE);
    return NULL;
}

/* Memory that another thread unmaps while READs, WRITEs and SENDs go on. */
static void try_under_load(enum ibv_wr_opcode opcode, enum place place)
{
    struct piece here = make_piece(initiator.pd), there = make_piece(target.pd);
    connect_ends(usual());
    is_loaded = 0;
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, unmap, place == SOURCE ? &here : &there));
    struct request request = request_of(opcode, 1, &here, &there);
    enum ibv_wc_status status = IBV_WC_SUCCESS;
    double limit = seconds_now() + 20;
    for (int posted = 0, done = 0; status == IBV_WC_SUCCESS; done++) {
        for (; posted - done < QUEUE / 2; posted++)
            CHECK(!way->post(initiator.qp, &request));
        status = expect_outcome(&initiator).status;
        is_loaded = done >= 50;
        CHECK(seconds_now() < limit);
    }
    pthread_join(thread, NULL);
    CHECK(status == (place == SOURCE ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR));
    for (int left = 1; left < QUEUE / 2; left++)
        expect_status("one behind it", &initiator, IBV_WC_WR_FLUSH_ERR);
    CHECK(!handled);
    end_pair();
    end_piece(&here);
    end_piece(&there);
}

/* The program's own faults. */
static void try_own_faults(void)
{
    struct piece piece = make_piece(target.pd);
    volatile char *byte = piece.memory + LAST_PAGE;
    int has_handler = !strcmp(mode, "before") || !strcmp(mode, "after");
    for (enum damage damage = READ_ONLY; has_handler && damage < DAMAGES; damage++) {
        do_damage(&piece, damage);
        int wanted = damage == TRUNCATED ? SIGBUS : SIGSEGV, got = sigsetjmp(after_fault, 1);
        if (!got)
            *byte = 1;
        CHECK(got == wanted && handled == (int)damage);
        CHECK(!mprotect(piece.memory, BYTES, PROT_READ | PROT_WRITE));
    }
    /* Without a handler a fault ends the process, and so does the signal itself. */
    for (int is_sent = 0; !has_handler && is_sent < 2; is_sent++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (!child) {
            sigset_t none;
            sigemptyset(&none);
            CHECK(!is_sent || !sigprocmask(SIG_SETMASK, &none, NULL));
            do_damage(&piece, GONE);
            if (is_sent)
                raise(SIGSEGV);
            else
                *byte = 1;
            _exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    }
    end_piece(&piece);
}

void try_memory(void)
{
    static const enum ibv_wr_opcode operations[] = {
        IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_ATOMIC_FETCH_AND_ADD};
    static const struct {
        enum ibv_qp_type type;
        int operations, is_long;
    } services[] = {{IBV_QPT_RC, 5, 1}, {IBV_QPT_UC, 2, 1}, {IBV_QPT_UD, 1, 0}};
    if (!strcmp(mode, "after"))
        install();
    for (int service = 0; service < 3; service++)
        for (int number = 0; number < services[service].operations; number++)
            for (enum damage damage = GONE; damage < DAMAGES; damage++)
                for (int is_long = 0; is_long <= (number < 3 && services[service].is_long);
                     is_long++) {
                    try_damage(services[service].type, operations[number], SOURCE, damage,
                               is_long);
                    try_damage(services[service].type, operations[number],
                               number ? TARGET : RECEIVE, damage, is_long);
                }
    try_under_load(IBV_WR_RDMA_READ, SOURCE);
    try_under_load(IBV_WR_RDMA_READ, TARGET);
    try_under_load(IBV_WR_RDMA_WRITE, SOURCE);
    try_under_load(IBV_WR_RDMA_WRITE, TARGET);
    try_own_faults();
}
