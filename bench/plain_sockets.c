/* What plain sockets can do on loopback: the figures that Converb's are divided by.
 *
 *   plain_sockets stream SEGMENT_BYTES SEGMENTS SECONDS   super-packets (GSO out, GRO in), one way
 *   plain_sockets pingpong BYTES SECONDS                  busy polling on both sides
 *   plain_sockets connect COUNT                           TCP connections, one after the other
 *
 * UDP sockets are unconnected and probe the path MTU, as RoCEv2 needs it: the kernel then leaves the
 * IPv4 identification at zero. Two processes, one line of JSON on standard output.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

/* What both processes see. The receiver tells the sender what it has taken, which is a flow
 * control that costs nothing: a real protocol can only be slower. */
struct shared {
    _Alignas(64) _Atomic uint64_t received_bytes;
    _Alignas(64) _Atomic uint64_t received_packets;
    _Alignas(64) _Atomic int stop;
};

static void fail(const char *what)
{
    fprintf(stderr, "plain_sockets: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static int open_socket(struct sockaddr_in *address)
{
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0)
        fail("socket");
    int probe = IP_PMTUDISC_PROBE, buffer = 4 << 20;
    if (setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &probe, sizeof probe))
        fail("IP_MTU_DISCOVER");
    /* As much as the system gives without privilege. */
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof *address;
    if (bind(fd, (struct sockaddr *)address, length) ||
        getsockname(fd, (struct sockaddr *)address, &length))
        fail("bind");
    return fd;
}

static int receive_buffer(int fd)
{
    int bytes = 0;
    socklen_t length = sizeof bytes;
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, &length);
    return bytes;
}

/* Receives one datagram or super-packet; the length of its segments, or of all of it. */
static ssize_t receive(int fd, void *buffer, size_t size, int *segment)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec iov = {buffer, size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    ssize_t length = recvmsg(fd, &message, MSG_DONTWAIT);
    *segment = (int)length;
    for (struct cmsghdr *c = length < 0 ? NULL : CMSG_FIRSTHDR(&message); c;
         c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
            memcpy(segment, CMSG_DATA(c), sizeof *segment);
    return length;
}

static void sink(int fd, struct shared *shared)
{
    static char buffer[1 << 16];
    int fruitless = 0;
    while (!atomic_load_explicit(&shared->stop, memory_order_relaxed)) {
        int segment;
        ssize_t length = receive(fd, buffer, sizeof buffer, &segment);
        if (length < 0) {
            if (++fruitless % 4096 == 0)
                sched_yield();
            continue;
        }
        atomic_fetch_add_explicit(&shared->received_packets,
                                  (length + segment - 1) / (segment > 0 ? segment : 1),
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&shared->received_bytes, length, memory_order_release);
    }
}

static void stream(int segment, int segments, double seconds)
{
    struct shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct sockaddr_in to, from;
    int receiver = open_socket(&to), sender = open_socket(&from), on = 1;
    if (setsockopt(receiver, IPPROTO_UDP, UDP_GRO, &on, sizeof on))
        fail("UDP_GRO");
    uint64_t total = (uint64_t)segment * segments;
    /* The buffer counts what packets occupy, not what they carry: short ones cost far more. */
    uint64_t cost = (uint64_t)segments * (segment + 800);
    uint64_t fits = receive_buffer(receiver) / 2 / cost;
    uint64_t window = total * (fits ? fits : 1);
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        sink(receiver, shared);
        _exit(0);
    }

    static char payload[1 << 16];
    char control[CMSG_SPACE(sizeof(uint16_t))] = {0};
    struct iovec iov = {payload, total};
    struct msghdr message = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &iov,
                             .msg_iovlen = 1, .msg_control = control,
                             .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = IPPROTO_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof(uint16_t));
    uint16_t size = segment;
    memcpy(CMSG_DATA(c), &size, sizeof size);

    uint64_t sent = 0, first_bytes = 0, first_packets = 0;
    /* A fifth of the time goes by before anything counts. */
    double begin = now(), warm = begin + seconds / 5, end = begin + seconds, moved = begin;
    double started = 0;
    uint64_t seen = 0;
    for (;;) {
        double t = now();
        uint64_t received = atomic_load_explicit(&shared->received_bytes, memory_order_acquire);
        if (!started && t > warm) {
            started = t;
            first_bytes = received;
            first_packets = atomic_load(&shared->received_packets);
        }
        if (t > end)
            break;
        if (received != seen) {
            seen = received;
            moved = t;
        }
        /* Something was lost after all: forget it, or the stream would stand still. */
        if (t - moved > 0.01)
            sent = received, moved = t;
        if (sent - received + total > window && sent > received) {
            sched_yield();
            continue;
        }
        if (sendmsg(sender, &message, MSG_DONTWAIT) == (ssize_t)total)
            sent += total;
        else if (errno != EAGAIN && errno != ENOBUFS)
            fail("sendmsg");
    }
    double span = now() - started;
    uint64_t bytes = atomic_load(&shared->received_bytes) - first_bytes;
    uint64_t packets = atomic_load(&shared->received_packets) - first_packets;
    atomic_store(&shared->stop, 1);
    waitpid(child, NULL, 0);
    printf("{\"bytes_per_second\": %.0f, \"packets_per_second\": %.0f}\n", bytes / span,
           packets / span);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void poll_one(int fd, void *buffer, size_t size, struct sockaddr_in *from)
{
    socklen_t length = sizeof *from;
    int fruitless = 0;
    while (recvfrom(fd, buffer, size, MSG_DONTWAIT, (struct sockaddr *)from, &length) < 0) {
        length = sizeof *from;
        if (++fruitless % 4096 == 0)
            sched_yield();
    }
}

static void pingpong(int bytes, double seconds)
{
    enum { SAMPLES_MAX = 2000000 };
    struct sockaddr_in here, there, from;
    int near = open_socket(&here), far = open_socket(&there);
    char buffer[1 << 16] = {0};
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        for (;;) {
            poll_one(far, buffer, sizeof buffer, &from);
            sendto(far, buffer, bytes, 0, (struct sockaddr *)&from, sizeof from);
        }
    }
    double *samples = malloc(sizeof *samples * SAMPLES_MAX);
    int count = 0;
    double end = now() + seconds;
    while (now() < end && count < SAMPLES_MAX) {
        double t = now();
        sendto(near, buffer, bytes, 0, (struct sockaddr *)&there, sizeof there);
        poll_one(near, buffer, sizeof buffer, &from);
        samples[count++] = (now() - t) / 2;
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    qsort(samples, count, sizeof *samples, compare);
    printf("{\"half_round_trip_us\": %.3f, \"minimum_us\": %.3f}\n", samples[count / 2] * 1e6,
           samples[0] * 1e6);
}

/* A connection counts as made when the accepting side has said a word. */
static void connections(int count)
{
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&here, length) ||
        listen(listener, 128) || getsockname(listener, (struct sockaddr *)&here, &length))
        fail("listen");
    pid_t child = fork();
    if (child < 0)
        fail("fork");
    if (child == 0) {
        for (int n = 0; n < count; n++) {
            int accepted = accept(listener, NULL, NULL);
            if (accepted < 0 || write(accepted, "x", 1) != 1)
                fail("accept");
            close(accepted);
        }
        _exit(0);
    }
    double begun = now();
    for (int n = 0; n < count; n++) {
        char word;
        int connected = socket(AF_INET, SOCK_STREAM, 0);
        if (connected < 0 || connect(connected, (struct sockaddr *)&here, sizeof here) ||
            read(connected, &word, 1) != 1)
            fail("connect");
        close(connected);
    }
    printf("{\"connection_us\": %.3f}\n", (now() - begun) / count * 1e6);
    waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
    /* A peer that hangs must not hold the benchmark up. */
    alarm(60);
    if (argc == 5 && !strcmp(argv[1], "stream"))
        stream(atoi(argv[2]), atoi(argv[3]), atof(argv[4]));
    else if (argc == 4 && !strcmp(argv[1], "pingpong"))
        pingpong(atoi(argv[2]), atof(argv[3]));
    else if (argc == 3 && !strcmp(argv[1], "connect"))
        connections(atoi(argv[2]));
    else {
        fprintf(stderr, "usage: plain_sockets stream BYTES SEGMENTS SECONDS | pingpong BYTES "
                        "SECONDS | connect COUNT\n");
        return 2;
    }
    return 0;
}
