/* Sends packets that nobody asked for to the RoCEv2 port: random bytes of any length, and packets
 * with a right invariant CRC that break a rule, aimed at live queue pairs.
 *
 * usage: storm TARGET RIGHT_SOURCE WRONG_SOURCE COUNT PER_SECOND SEED QPN...
 *
 * What the CRC-right packets are not: a packet of the connection. Whoever has the peer's address,
 * the number of the queue pair and a packet number of its window can disturb the connection, with
 * a NIC as with us. So what comes from the right address breaks one rule whatever its packet
 * number is: another service's opcode, another partition, another transport version, or a queue
 * pair that is none of those at work. What comes from the wrong address may be right in all else. */
#define _GNU_SOURCE
#include "check.h"
#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

enum { BATCH = 64, LONGEST = 9000, PORT = 4791 };

static uint64_t state;

static uint32_t number(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 32;
}

static uint32_t crc_table[256];

static uint32_t crc_of(uint32_t crc, const uint8_t *bytes, size_t length)
{
    while (length--)
        crc = crc_table[(crc ^ *bytes++) & 255] ^ crc >> 8;
    return crc;
}

struct sender {
    int plain, exact; /* may be cut into fragments; never, and without an identification */
    uint32_t crc;     /* of what all packets begin with: the masked local route header */
    uint8_t ip[40];   /* the IP header as the CRC sees it */
    int ip_length;
    uint8_t udp[8];
};

static union { struct sockaddr a; struct sockaddr_in v4; struct sockaddr_in6 v6; } target;
static socklen_t target_length;

static int socket_from(const char *source, int discovery)
{
    int family = target.a.sa_family, made = socket(family, SOCK_DGRAM, 0);
    CHECK(made >= 0);
    if (family == AF_INET) {
        struct sockaddr_in from = {.sin_family = AF_INET};
        CHECK(inet_pton(AF_INET, source, &from.sin_addr) == 1);
        CHECK(!setsockopt(made, IPPROTO_IP, IP_MTU_DISCOVER, &discovery, sizeof discovery));
        CHECK(!bind(made, (struct sockaddr *)&from, sizeof from));
    } else {
        struct sockaddr_in6 from = {.sin6_family = AF_INET6};
        CHECK(inet_pton(AF_INET6, source, &from.sin6_addr) == 1);
        CHECK(!setsockopt(made, IPPROTO_IPV6, IPV6_MTU_DISCOVER, &discovery, sizeof discovery));
        CHECK(!bind(made, (struct sockaddr *)&from, sizeof from));
    }
    CHECK(!connect(made, &target.a, target_length));
    return made;
}

static void open_sender(struct sender *s, const char *source)
{
    union { struct sockaddr_in v4; struct sockaddr_in6 v6; } own;
    socklen_t length = sizeof own;
    s->plain = socket_from(source, IP_PMTUDISC_DONT);
    s->exact = socket_from(source, IP_PMTUDISC_PROBE);
    CHECK(!getsockname(s->exact, (struct sockaddr *)&own, &length));
    memset(s->udp, 0xff, 8);
    memcpy(s->udp, &own.v4.sin_port, 2);
    s->udp[2] = PORT >> 8;
    s->udp[3] = PORT & 255;
    memset(s->ip, 0, sizeof s->ip);
    if (target.a.sa_family == AF_INET) {
        uint8_t head[12] = {0x45, 0xff, 0, 0, 0, 0, 0x40, 0, 0xff, 17, 0xff, 0xff};
        s->ip_length = 20;
        memcpy(s->ip, head, 12);
        memcpy(s->ip + 12, &own.v4.sin_addr, 4);
        memcpy(s->ip + 16, &target.v4.sin_addr, 4);
    } else {
        uint8_t head[8] = {0x6f, 0xff, 0xff, 0xff, 0, 0, 17, 0xff};
        s->ip_length = 40;
        memcpy(s->ip, head, 8);
        memcpy(s->ip + 8, &own.v6.sin6_addr, 16);
        memcpy(s->ip + 24, &target.v6.sin6_addr, 16);
    }
}

/* Appends the invariant CRC of the transport packet of so many bytes. */
static void seal(struct sender *s, uint8_t *packet, size_t length)
{
    static const uint8_t route[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    size_t udp = 8 + length + 4, ip = s->ip_length == 20 ? 20 + udp : udp;
    uint8_t kept = packet[4], *field = s->ip + (s->ip_length == 20 ? 2 : 4);
    field[0] = ip >> 8, field[1] = ip;
    s->udp[4] = udp >> 8, s->udp[5] = udp;
    packet[4] = 0xff;
    uint32_t crc = crc_of(0xffffffff, route, 8);
    crc = crc_of(crc, s->ip, s->ip_length);
    crc = ~crc_of(crc_of(crc, s->udp, 8), packet, length);
    packet[4] = kept;
    memcpy(packet + length, &crc, 4);
}

/* A packet with a right CRC that must not be taken; its length. */
static size_t mutated(struct sender *s, int is_right, uint8_t *packet, uint32_t qpn)
{
    size_t length = 12 + number() % 120 * 4;
    for (size_t at = 0; at < length; at += 4) {
        uint32_t word = number();
        memcpy(packet + at, &word, 4);
    }
    packet[0] = number() % 25; /* an opcode of reliable connections, or one more */
    packet[1] = packet[1] & 0x30 & (length > 16 ? 0xff : 0);
    packet[2] = packet[3] = 0xff;
    packet[5] = qpn >> 16, packet[6] = qpn >> 8, packet[7] = qpn;
    if (is_right) {
        switch (number() % 4) {
        case 0: packet[0] = 0x20 + number() % 0xe0; break;
        case 1: packet[2] = 0x12; break;
        case 2: packet[1] |= 1 + number() % 15; break;
        case 3: /* a queue pair number of the same slot, far above those in use */
            packet[6] = 0x3f | (qpn >> 8 & 0xc0), packet[7] = number(); break;
        }
    }
    seal(s, packet, length);
    return length + 4;
}

int main(int argc, char **argv)
{
    CHECK(argc > 7);
    for (uint32_t n = 0; n < 256; n++) {
        uint32_t crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? 0xedb88320 ^ crc >> 1 : crc >> 1;
        crc_table[n] = crc;
    }
    if (inet_pton(AF_INET, argv[1], &target.v4.sin_addr) == 1) {
        target.v4.sin_family = AF_INET, target.v4.sin_port = htons(PORT);
        target_length = sizeof target.v4;
    } else {
        CHECK(inet_pton(AF_INET6, argv[1], &target.v6.sin6_addr) == 1);
        target.v6.sin6_family = AF_INET6, target.v6.sin6_port = htons(PORT);
        target_length = sizeof target.v6;
    }
    static struct sender senders[2];
    open_sender(&senders[0], argv[2]);
    open_sender(&senders[1], argv[3]);
    long count = atol(argv[4]), each_second = atol(argv[5]), sent = 0, refused = 0;
    state = strtoull(argv[6], NULL, 0) * 0x9e3779b97f4a7c15u | 1;
    static uint8_t noise[2 * LONGEST], packets[BATCH][512 + 64];
    for (size_t at = 0; at < sizeof noise; at++)
        noise[at] = number();
    double begin = seconds_now();
    while (sent < count) {
        struct mmsghdr messages[BATCH] = {0};
        struct iovec pieces[BATCH];
        struct sender *s = &senders[number() & 1];
        int is_mutated = number() & 1, batch = count - sent < BATCH ? count - sent : BATCH;
        for (int n = 0; n < batch; n++) {
            uint32_t qpn = strtoul(argv[7 + number() % (argc - 7)], NULL, 0);
            if (is_mutated) {
                pieces[n].iov_base = packets[n];
                pieces[n].iov_len = mutated(s, s == &senders[0], packets[n], qpn);
            } else {
                /* Most are short: that is where the edges of headers are. */
                uint32_t most = number() % 16 ? 128 : LONGEST + 1;
                pieces[n].iov_base = noise + number() % LONGEST;
                pieces[n].iov_len = number() % most;
            }
            messages[n].msg_hdr.msg_iov = &pieces[n];
            messages[n].msg_hdr.msg_iovlen = 1;
        }
        for (int done = 0; done < batch;) {
            int went = sendmmsg(is_mutated ? s->exact : s->plain, messages + done, batch - done, 0);
            /* Refused: an answer of ICMP to an earlier one, or no room. The packet is counted as
             * refused, not as sent. */
            if (went <= 0)
                refused++, done++;
            else
                sent += went, done += went;
        }
        CHECK(refused < count);
        double ahead = (double)sent / each_second - (seconds_now() - begin);
        if (ahead > 0.001)
            usleep(ahead * 1e6);
    }
    printf("sent %ld, refused %ld, %.1f s\n", sent, refused, seconds_now() - begin);
    return 0;
}
