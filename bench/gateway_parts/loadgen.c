/* Load for a gateway, and what comes of it, as one line of JSON: one thread, epoll.
 *
 *   loadgen json   PORT MODEL CONCURRENCY SECONDS            requests without streaming, each connection one after another
 *   loadgen stream PORT MODEL CONCURRENCY SECONDS [RAMP_S]   streams; RAMP_S spreads the opening of the connections
 *   loadgen cancel PORT MODEL TIMES UPSTREAM_PORT            closes after the first content, asks the upstream when it knew
 *
 * A request is a full body read from stdin with the model's name in it, so that a caller can add tools and fields.
 * KEY in the environment goes along as a bearer. Content of the form `@nanoseconds@` gives each chunk's age.
 * A stall is a chunk older than 250 ms, or one that was due that long ago and is not there at the end.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define STALL_NS 250000000ull

typedef struct {
    uint32_t *at;
    size_t len, cap;
} Times; /* in microseconds, or in units of 10 ns for ages */

typedef struct {
    int fd, state, status, chunked, close, done, first_seen, two_seen;
    long content_left, chunk_left; /* chunk_left: -1 wants a size line, -2 the line end after data, -3 the trailers */
    uint64_t started, last, first_at;
    char *raw, *text;
    size_t raw_len, raw_cap, text_len, text_cap;
    long chunks;
} Conn;

enum { CLOSED, HEAD, BODY };

static Conn *conns;
static int ep, port, concurrency, streaming;
static char *request;
static size_t request_len;
static Times latency, ttft, age;
static uint64_t requests, streams, events, chunks, tool_chunks, characters, errors, stalls, bytes, reached, overtaken, checked;
static uint64_t last_status, connects;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void note(Times *t, uint64_t value) {
    if (t->len == t->cap && !(t->at = realloc(t->at, (t->cap = t->cap ? t->cap * 2 : 65536) * sizeof *t->at))) abort();
    t->at[t->len++] = value > UINT32_MAX ? UINT32_MAX : value;
}

static int order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void show(const char *name, Times *t, double unit) {
    if (!t->len) return;
    qsort(t->at, t->len, sizeof *t->at, order);
    printf(",\"%s\":{\"n\":%zu,\"min\":%.4f,\"p50\":%.4f,\"p90\":%.4f,\"p99\":%.4f,\"max\":%.4f}", name, t->len,
           t->at[0] * unit, t->at[t->len / 2] * unit, t->at[(size_t)(t->len * .9)] * unit,
           t->at[(size_t)(t->len * .99)] * unit, t->at[t->len - 1] * unit);
}

static void room(char **at, size_t len, size_t *cap, size_t more) {
    if (len + more <= *cap) return;
    while (len + more > *cap) *cap = *cap ? *cap * 2 : 4096;
    if (!(*at = realloc(*at, *cap))) abort();
}

static void end(Conn *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1, c->state = CLOSED;
}

static int dial(int to) {
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(to)};
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || connect(fd, (void *)&where, sizeof where)) {
        if (fd >= 0) close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void ask(Conn *c) {
    if (c->fd < 0) {
        if ((c->fd = dial(port)) < 0) {
            errors++;
            return;
        }
        connects++;
        fcntl(c->fd, F_SETFL, O_NONBLOCK);
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
    }
    c->state = HEAD, c->raw_len = c->text_len = 0, c->chunks = 0, c->first_seen = c->two_seen = c->done = 0;
    c->started = c->last = now_ns();
    size_t sent = 0;
    while (sent < request_len) { /* bodies are small beside a socket's buffer; a full one is waited for */
        ssize_t n = send(c->fd, request + sent, request_len - sent, MSG_NOSIGNAL);
        if (n > 0) sent += n;
        else if (errno != EAGAIN) {
            errors++;
            return end(c);
        }
    }
}

static void event(Conn *c, const char *at, size_t len, uint64_t now) {
    events++;
    if (len == 6 && !memcmp(at, "[DONE]", 6)) {
        c->done = 1;
        return;
    }
    if (memmem(at, len, "\"error\"", 7)) c->status = 599;
    if (memmem(at, len, "\"arguments\"", 11)) tool_chunks++, c->chunks++;
    const char *v = memmem(at, len, "\"content\"", 9), *stop = at + len;
    if (!v) return;
    for (v += 9; v < stop && (*v == ':' || *v == ' '); v++) {}
    if (v >= stop || *v != '"') return;
    const char *close = memchr(v + 1, '"', stop - v - 1);
    if (!close || close == v + 1) return;
    chunks++, c->chunks++, characters += close - v - 1;
    c->last = now;
    const char *mark = memchr(v, '@', close - v);
    uint64_t sent = mark ? strtoull(mark + 1, NULL, 10) : 0;
    if (sent && now >= sent) {
        note(&age, (now - sent) / 10);
        if (now - sent > STALL_NS) stalls++;
    }
    if (!c->first_seen) {
        c->first_seen = 1, c->first_at = now, reached++;
        note(&ttft, (now - c->started) / 1000);
    } else if (!c->two_seen) {
        c->two_seen = 1, checked++;
        if (sent && c->first_at > sent) overtaken++; /* the first came only after the second had left */
    }
}

static void lines(Conn *c, uint64_t now) {
    size_t from = 0;
    for (char *nl; (nl = memchr(c->text + from, '\n', c->text_len - from)); from = nl - c->text + 1) {
        char *line = c->text + from;
        size_t len = nl - line;
        if (len && line[len - 1] == '\r') len--;
        if (len < 5 || memcmp(line, "data:", 5)) continue;
        line += 5, len -= 5;
        if (len && *line == ' ') line++, len--;
        event(c, line, len, now);
    }
    c->text_len -= from;
    memmove(c->text, c->text + from, c->text_len);
}

static void take(Conn *c, const char *data, size_t len, uint64_t now) {
    bytes += len;
    if (!streaming) return;
    room(&c->text, c->text_len, &c->text_cap, len);
    memcpy(c->text + c->text_len, data, len);
    c->text_len += len;
    lines(c, now);
}

static void finished(Conn *c, uint64_t now) {
    requests++, last_status = c->status;
    note(&latency, (now - c->started) / 1000);
    if (c->status != 200 || (streaming && !c->done)) errors++;
    else if (streaming) streams++;
    if (c->close) end(c);
    c->state = c->fd < 0 ? CLOSED : BODY;
    ask(c);
}

/* Feeds what is in raw; returns how much of it was used. */
static size_t feed(Conn *c, uint64_t now) {
    size_t at = 0;
    if (c->state == HEAD) {
        char *stop = memmem(c->raw, c->raw_len, "\r\n\r\n", 4);
        if (!stop) return 0;
        *stop = 0;
        c->status = atoi(c->raw + 9), c->chunked = c->close = 0, c->content_left = -1, c->chunk_left = -1;
        for (char *line = strstr(c->raw, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
            if (!strncasecmp(line + 2, "content-length:", 15)) c->content_left = atol(line + 17);
            if (!strncasecmp(line + 2, "transfer-encoding: chunked", 26)) c->chunked = 1;
            if (!strncasecmp(line + 2, "connection: close", 17)) c->close = 1;
        }
        c->state = BODY;
        at = stop - c->raw + 4;
    }
    if (!c->chunked) {
        size_t n = c->raw_len - at;
        if (c->content_left >= 0 && n > (size_t)c->content_left) n = c->content_left;
        take(c, c->raw + at, n, now);
        if (c->content_left >= 0 && !(c->content_left -= n)) c->state = CLOSED;
        return at + n;
    }
    while (at < c->raw_len) {
        char *from = c->raw + at;
        size_t left = c->raw_len - at;
        if (c->chunk_left > 0) {
            size_t n = left < (size_t)c->chunk_left ? left : (size_t)c->chunk_left;
            take(c, from, n, now);
            at += n;
            if (!(c->chunk_left -= n)) c->chunk_left = -2;
            continue;
        }
        char *nl = memchr(from, '\n', left);
        if (!nl) break;
        at = nl - c->raw + 1;
        if (c->chunk_left == -2) c->chunk_left = -1;
        else if (c->chunk_left == -3) {
            if (nl - from <= 1) {
                c->state = CLOSED;
                break;
            }
        } else if (!(c->chunk_left = strtol(from, NULL, 16))) c->chunk_left = -3;
    }
    return at;
}

static void readable(Conn *c) {
    for (;;) {
        room(&c->raw, c->raw_len, &c->raw_cap, 65536);
        ssize_t n = recv(c->fd, c->raw + c->raw_len, c->raw_cap - c->raw_len - 1, 0);
        if (n < 0 && errno == EAGAIN) return;
        if (n <= 0) {
            if (c->state != CLOSED) errors++;
            end(c);
            return ask(c);
        }
        uint64_t now = now_ns();
        c->raw_len += n;
        c->raw[c->raw_len] = 0;
        size_t used = feed(c, now);
        c->raw_len -= used;
        memmove(c->raw, c->raw + used, c->raw_len);
        if (c->state == CLOSED) return finished(c, now);
        if (n < 65535) return;
    }
}

static void load(double seconds, double ramp, double period) {
    struct epoll_event found[512];
    uint64_t begin = now_ns(), stop = begin + (uint64_t)((seconds + ramp) * 1e9), all_at = 0;
    int opened = 0;
    for (uint64_t now = begin; now < stop; now = now_ns()) {
        int due = ramp > 0 ? (int)((now - begin) / 1e9 / ramp * concurrency) + 1 : concurrency;
        for (; opened < concurrency && opened < due; opened++) ask(conns + opened);
        if (!all_at && (int)reached >= concurrency) all_at = now;
        int n = epoll_wait(ep, found, 512, opened < concurrency ? 1 : 20);
        for (int i = 0; i < n; i++) {
            Conn *c = found[i].data.ptr;
            if (c->fd >= 0) readable(c);
        }
        for (int i = 0; i < opened && errors < 1000; i++)
            if (conns[i].fd < 0) ask(conns + i); /* it was refused: again */
    }
    uint64_t now = now_ns();
    int live = 0;
    if (period > 0)
        for (int i = 0; i < concurrency; i++) {
            live += conns[i].fd >= 0 && conns[i].first_seen;
            if (now - conns[i].last > (uint64_t)(period * 1e9) + STALL_NS) stalls++;
        }
    double took = (now - begin) / 1e9;
    printf("{\"seconds\":%.3f,\"requests\":%llu,\"errors\":%llu,\"last_status\":%llu,\"connects\":%llu,\"rps\":%.1f,"
           "\"streams\":%llu,\"events\":%llu,\"chunks\":%llu,\"tool_chunks\":%llu,\"characters\":%llu,"
           "\"chunks_per_s\":%.1f,\"bytes\":%llu,\"stalls\":%llu,\"live\":%d,\"reached_s\":%.3f,\"overtaken\":%llu,"
           "\"checked\":%llu",
           took, (unsigned long long)requests, (unsigned long long)errors, (unsigned long long)last_status,
           (unsigned long long)connects, requests / took, (unsigned long long)streams, (unsigned long long)events,
           (unsigned long long)chunks, (unsigned long long)tool_chunks, (unsigned long long)characters,
           (chunks + tool_chunks) / took, (unsigned long long)bytes, (unsigned long long)stalls, live,
           all_at ? (all_at - begin) / 1e9 : -1.0, (unsigned long long)overtaken, (unsigned long long)checked);
    show("latency_ms", &latency, 1e-3);
    show("ttft_ms", &ttft, 1e-3);
    show("age_ms", &age, 1e-5);
    printf("}\n");
}

/* One at a time, in plain blocking reads: open, see content, close, ask the upstream until it has noticed. */

static uint64_t stat_of(int upstream, const char *key) {
    static const char get[] = "GET /stats HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    char text[4096];
    size_t len = 0;
    int fd = dial(upstream);
    if (fd < 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0) return 0;
    for (ssize_t n; len < sizeof text - 1 && (n = recv(fd, text + len, sizeof text - 1 - len, 0)) > 0;) len += n;
    text[len] = 0;
    close(fd);
    char *v = strstr(text, key);
    return v ? strtoull(v + strlen(key) + 1, NULL, 10) : 0;
}

static void cancel(int times, int upstream) {
    Times took = {0};
    int never = 0, failed = 0;
    for (int i = 0; i < times; i++) {
        char text[65536];
        size_t len = 0;
        uint64_t before = stat_of(upstream, "\"aborted\"");
        int fd = dial(port);
        struct timeval wait = {.tv_sec = 5}; /* what is silent for so long has failed */
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) ||
            send(fd, request, request_len, MSG_NOSIGNAL) < 0) {
            failed++;
            continue;
        }
        for (ssize_t n; len < sizeof text - 1 && !memmem(text, len, "@ ", 2); len += n)
            if ((n = recv(fd, text + len, sizeof text - 1 - len, 0)) <= 0) break;
        if (!memmem(text, len, "@ ", 2)) {
            failed++;
            close(fd);
            continue;
        }
        uint64_t closed = now_ns(), until = closed + 3000000000ull;
        close(fd);
        while (stat_of(upstream, "\"aborted\"") == before && now_ns() < until) usleep(500);
        if (stat_of(upstream, "\"aborted\"") == before) never++;
        else {
            uint64_t known = stat_of(upstream, "\"last_abort_ns\"");
            note(&took, known > closed ? (known - closed) / 1000 : 0);
        }
    }
    printf("{\"times\":%d,\"failed\":%d,\"never\":%d", times, failed, never);
    show("cancel_ms", &took, 1e-3);
    printf("}\n");
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "usage: loadgen json|stream|cancel PORT MODEL N SECONDS|PORT [RAMP_S] <body\n"), 2;
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    port = atoi(argv[2]), concurrency = atoi(argv[4]), streaming = strcmp(argv[1], "json") != 0;
    static char body[32 << 20];
    size_t len = fread(body, 1, sizeof body, stdin);
    char head[1024];
    const char *more = getenv("HEADERS"); /* whole lines, each with its end */
    int n = snprintf(head, sizeof head,
                     "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
                     "%scontent-length: %zu\r\n\r\n",
                     port, more ? more : "", len);
    request_len = n + len;
    request = malloc(request_len);
    memcpy(request, head, n);
    memcpy(request + n, body, len);
    if (!strcmp(argv[1], "cancel")) return cancel(concurrency, atoi(argv[5])), 0;
    ep = epoll_create1(EPOLL_CLOEXEC);
    conns = calloc(concurrency, sizeof *conns);
    for (int i = 0; i < concurrency; i++) conns[i].fd = -1;
    double rate = !strncmp(argv[3], "bench-slow", 10) ? strtod(argv[3] + 10, NULL) : 0;
    load(atof(argv[5]), argc > 6 ? atof(argv[6]) : 0, rate > 0 ? 1 / rate : 0);
    return 0;
}
