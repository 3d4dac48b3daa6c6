/* A model server that costs nothing: one thread, epoll, answers made on the spot. `upstream [PORT]` prints its port.
 *
 * The model's name chooses the behaviour:
 *   bench-json        one answer of about 1 KB
 *   bench-fast        200 content chunks, head and finish, in one burst
 *   bench-slowR[xN]   R content chunks a second (N of them, else 200), each stream at a phase of its own
 *   bench-first       one content chunk at once, a second one 50 ms later
 *   bench-tool        a call of the first tool offered, its arguments in 200 fragments
 *   bench-toolloop[N][-WORD] N calls of a tool (one with WORD in its name if offered), one a round, then text
 *   bench-err500, bench-err429, bench-errclose (no answer), bench-errcut (cut after 3 chunks), bench-errbad (bad JSON)
 * POST /api/chat answers as Ollama does, for `bench-toolloop…` alone. Content chunks carry the time they left: `@nanoseconds@` of CLOCK_MONOTONIC, the same for all on this machine.
 * GET /stats counts what happened; a client that leaves an unfinished stream is an abort, with its time.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdarg.h>
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

enum { BURST = 200, MAX_FD = 65536, MAX_BODY = 64 << 20 };

typedef struct {
    char *at;
    size_t len, cap, sent;
} Bytes;

typedef struct {
    int fd, open, streaming, close_after, left, number, usage, heap_at, waits_to_write;
    uint64_t due, period;
    Bytes in, out;
    char model[64];
} Conn;

static Conn *conns;
static Conn **heap;
static int heap_len, ep;
static uint64_t active, aborted, completed, accepted, requests, last_abort_ns;

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void room(Bytes *b, size_t more) {
    if (b->len + more <= b->cap) return;
    while (b->len + more > b->cap) b->cap = b->cap ? b->cap * 2 : 4096;
    if (!(b->at = realloc(b->at, b->cap))) abort();
}

static void put(Bytes *b, const char *data, size_t len) {
    room(b, len);
    memcpy(b->at + b->len, data, len);
    b->len += len;
}

static void putf(Bytes *b, const char *form, ...) {
    char text[8192];
    va_list args;
    va_start(args, form);
    int len = vsnprintf(text, sizeof text, form, args);
    va_end(args);
    if (len > (int)sizeof text - 1) len = sizeof text - 1;
    put(b, text, len);
}

/* The timers: a heap of streams by when they speak next. */

static void heap_set(int i, Conn *c) { heap[i] = c, c->heap_at = i; }

static void heap_up(int i) {
    Conn *c = heap[i];
    for (; i && heap[(i - 1) / 2]->due > c->due; i = (i - 1) / 2) heap_set(i, heap[(i - 1) / 2]);
    heap_set(i, c);
}

static void heap_down(int i) {
    Conn *c = heap[i];
    for (;;) {
        int k = 2 * i + 1;
        if (k >= heap_len) break;
        if (k + 1 < heap_len && heap[k + 1]->due < heap[k]->due) k++;
        if (heap[k]->due >= c->due) break;
        heap_set(i, heap[k]);
        i = k;
    }
    heap_set(i, c);
}

static void timer_set(Conn *c, uint64_t due) {
    c->due = due;
    if (c->heap_at < 0) heap_set(heap_len++, c), heap_up(heap_len - 1);
    else heap_up(c->heap_at), heap_down(c->heap_at);
}

static void timer_off(Conn *c) {
    int i = c->heap_at;
    if (i < 0) return;
    c->heap_at = -1;
    Conn *last = heap[--heap_len];
    if (last == c) return;
    heap_set(i, last);
    heap_up(i);
    heap_down(last->heap_at);
}

/* Connections. */

static void drop(Conn *c, int by_peer) {
    if (!c->open) return;
    if (c->streaming) {
        active--;
        if (by_peer) aborted++, last_abort_ns = now_ns();
    }
    timer_off(c);
    close(c->fd);
    c->open = c->streaming = 0;
    c->in.len = c->out.len = c->out.sent = 0;
}

static void watch(Conn *c, int write) {
    if (c->waits_to_write == write) return;
    c->waits_to_write = write;
    struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | (write ? EPOLLOUT : 0), .data.fd = c->fd};
    epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}

static void flush(Conn *c) {
    while (c->out.sent < c->out.len) {
        ssize_t n = send(c->fd, c->out.at + c->out.sent, c->out.len - c->out.sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EAGAIN) return watch(c, 1);
            return drop(c, 1);
        }
        c->out.sent += n;
    }
    c->out.len = c->out.sent = 0;
    watch(c, 0);
    if (c->close_after && !c->streaming) drop(c, 0);
}

/* Reading requests: only as much JSON as it takes to choose. */

static const char *value_of(const char *at, const char *end, const char *key) {
    size_t len = strlen(key);
    for (const char *p = at; (p = memmem(p, end - p, key, len)); p += len) {
        const char *v = p + len;
        while (v < end && (*v == ' ' || *v == '\n')) v++;
        if (v < end && *v == ':') {
            for (v++; v < end && (*v == ' ' || *v == '\n'); v++) {}
            return v;
        }
    }
    return NULL;
}

static void text_of(const char *v, const char *end, char *into, size_t size) {
    size_t n = 0;
    if (v && v < end && *v == '"')
        for (v++; v < end && *v != '"' && n + 1 < size; v++) into[n++] = *v;
    into[n] = 0;
}

static int is_true(const char *at, const char *end, const char *key) {
    const char *v = value_of(at, end, key);
    return v && end - v >= 4 && !memcmp(v, "true", 4);
}

static int results_in(const char *at, const char *end) {
    int n = 0;
    for (const char *v = at; (v = value_of(v, end, "\"role\"")); )
        if (end - v > 6 && !memcmp(v, "\"tool\"", 6)) n++;
    return n;
}

static void tool_in(const char *at, const char *end, const char *word, char *name, size_t size) {
    char seen[128];
    const char *v = value_of(at, end, "\"tools\"");
    name[0] = 0;
    while (v && (v = value_of(v, end, "\"name\""))) {
        text_of(v, end, seen, sizeof seen);
        if (!name[0] || (*word && strstr(seen, word) && !strstr(name, word))) snprintf(name, size, "%s", seen);
    }
    if (!name[0]) snprintf(name, size, "bench_tool");
}

/* Answers. */

static void answer(Conn *c, int status, const char *body, size_t len) {
    putf(&c->out, "HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n\r\n", status,
         status == 200 ? "OK" : "Error", len);
    put(&c->out, body, len);
}

static void event(Conn *c, const char *form, ...) {
    char text[4096];
    va_list args;
    va_start(args, form);
    int len = vsnprintf(text, sizeof text, form, args);
    va_end(args);
    putf(&c->out, "%x\r\ndata: ", len + 8);
    put(&c->out, text, len);
    put(&c->out, "\n\n\r\n", 4);
}

#define HEAD "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1763200000,\"model\":\"%s\",\"choices\":["

static void delta(Conn *c, const char *inner, const char *finish) {
    event(c, HEAD "{\"index\":0,\"delta\":%s,\"logprobs\":null,\"finish_reason\":%s}]}", c->model, inner, finish);
}

static void content(Conn *c) {
    char inner[128];
    snprintf(inner, sizeof inner, "{\"content\":\"tok%03d @%llu@ \"}", c->number++, (unsigned long long)now_ns());
    delta(c, inner, "null");
}

static void start(Conn *c) {
    static const char head[] =
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
    put(&c->out, head, sizeof head - 1);
    c->streaming = 1, c->number = 0;
    active++;
}

static void finish(Conn *c, const char *reason) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "\"%s\"", reason);
    delta(c, "{}", quoted);
    if (c->usage)
        event(c, HEAD "],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":200,\"total_tokens\":210}}", c->model);
    event(c, "[DONE]");
    put(&c->out, "0\r\n\r\n", 5);
    c->streaming = 0;
    active--, completed++;
}

static void call(Conn *c, const char *name, int round) {
    char inner[512];
    snprintf(inner, sizeof inner,
             "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"index\":0,\"id\":\"call_bench_%d\",\"type\":"
             "\"function\",\"function\":{\"name\":\"%s\",\"arguments\":\"\"}}]}",
             round, name);
    delta(c, inner, "null");
}

static void arguments(Conn *c, const char *escaped) {
    char inner[256];
    snprintf(inner, sizeof inner, "{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"%s\"}}]}", escaped);
    delta(c, inner, "null");
}

static void whole(Conn *c, const char *name, int round) {
    char body[4096], text[900];
    int len;
    if (name) {
        len = snprintf(body, sizeof body,
                       "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1763200000,\"model\":\"%s\","
                       "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{"
                       "\"id\":\"call_bench_%d\",\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":"
                       "\"{\\\"text\\\":\\\"round %d\\\"}\"}}]},\"finish_reason\":\"tool_calls\"}],\"usage\":{"
                       "\"prompt_tokens\":10,\"completion_tokens\":5,\"total_tokens\":15}}",
                       c->model, round, name, round);
    } else {
        for (int i = 0; i < 99; i++) memcpy(text + i * 8, "bench a ", 8);
        text[99 * 8] = 0;
        len = snprintf(body, sizeof body,
                       "{\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion\",\"created\":1763200000,\"model\":\"%s\","
                       "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},\"logprobs\":"
                       "null,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":200,"
                       "\"total_tokens\":210}}",
                       c->model, text);
    }
    answer(c, 200, body, len);
    completed++;
}

/* One answer as Ollama gives it, always whole: a call while fewer results are in than the name asks for, else text. */
static void ollama(Conn *c, const char *at, const char *end) {
    char name[128], body[1024];
    text_of(value_of(at, end, "\"model\""), end, c->model, sizeof c->model);
    const char *word = strchr(c->model + (strlen(c->model) > 14 ? 14 : 0), '-');
    int rounds = results_in(at, end), wanted = strlen(c->model) > 14 ? atoi(c->model + 14) : 0;
    tool_in(at, end, word ? word + 1 : "", name, sizeof name);
    int len = snprintf(body, sizeof body, "{\"model\":\"%s\",\"created_at\":\"2026-01-01T00:00:00Z\",\"message\":{"
                       "\"role\":\"assistant\",\"content\":\"%s\"", c->model, rounds < wanted ? "" : "bench a bench");
    if (rounds < wanted)
        len += snprintf(body + len, sizeof body - len, ",\"tool_calls\":[{\"function\":{\"name\":\"%s\",\"arguments\":{"
                        "\"text\":\"round %d\"}}}]", name, rounds);
    len += snprintf(body + len, sizeof body - len, "},\"done\":true,\"done_reason\":\"stop\"}\n");
    answer(c, 200, body, len);
    completed++;
}

static void chat(Conn *c, const char *at, const char *end) {
    char name[128];
    text_of(value_of(at, end, "\"model\""), end, c->model, sizeof c->model);
    int stream = is_true(at, end, "\"stream\"");
    const char *kind = c->model;
    c->usage = is_true(at, end, "\"include_usage\"");
    c->period = 0;
    if (!strncmp(kind, "bench-err", 9)) {
        kind += 9;
        if (!strcmp(kind, "close")) return c->close_after = 1, drop(c, 0);
        if (*kind == '5' || *kind == '4') {
            const char *text = "{\"error\":{\"message\":\"as asked\",\"type\":\"server_error\",\"code\":null}}";
            return answer(c, atoi(kind), text, strlen(text));
        }
        start(c);
        for (int i = 0; i < 3; i++) content(c);
        if (!strcmp(kind, "bad")) return event(c, "{\"choices\":[{\"delta\":"), finish(c, "stop");
        active--, c->streaming = 0, c->close_after = 1;
        return;
    }
    int loop = !strncmp(kind, "bench-toolloop", 14);
    const char *word = loop ? strchr(kind + 14, '-') : NULL;
    int rounds = loop ? results_in(at, end) : 0;
    int calls = loop && rounds < (kind[14] >= '0' && kind[14] <= '9' ? atoi(kind + 14) : 1);
    if (calls || !strcmp(kind, "bench-tool")) tool_in(at, end, word ? word + 1 : "", name, sizeof name);
    if (!stream) return whole(c, calls || !strcmp(kind, "bench-tool") ? name : NULL, rounds);
    start(c);
    if (calls) {
        char text[64];
        snprintf(text, sizeof text, "{\\\"text\\\":\\\"round %d\\\"}", rounds);
        call(c, name, rounds);
        arguments(c, text);
        return finish(c, "tool_calls");
    }
    if (!strcmp(kind, "bench-tool")) {
        call(c, name, 0);
        arguments(c, "{\\\"text\\\":\\\"");
        for (int i = 0; i < BURST - 2; i++) arguments(c, "some letters");
        arguments(c, "\\\"}");
        return finish(c, "tool_calls");
    }
    delta(c, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
    if (!strncmp(kind, "bench-slow", 10)) {
        char *rest;
        double rate = strtod(kind + 10, &rest);
        c->left = *rest == 'x' ? atoi(rest + 1) : BURST;
        c->period = (uint64_t)(1e9 / (rate > 0 ? rate : 1));
        return timer_set(c, now_ns() + (uint64_t)(drand48() * c->period));
    }
    content(c);
    if (!strcmp(kind, "bench-first")) {
        c->left = 1, c->period = 50000000;
        return timer_set(c, now_ns() + c->period);
    }
    for (int i = 1; i < (loop ? 8 : BURST); i++) content(c);
    finish(c, "stop");
}

static void other(Conn *c, const char *method, const char *path) {
    char body[1024];
    if (!strcmp(method, "GET") && !strcmp(path, "/stats")) {
        int n = snprintf(body, sizeof body,
                         "{\"active\":%llu,\"aborted\":%llu,\"completed\":%llu,\"accepted\":%llu,\"requests\":%llu,"
                         "\"last_abort_ns\":%llu}",
                         (unsigned long long)active, (unsigned long long)aborted, (unsigned long long)completed,
                         (unsigned long long)accepted, (unsigned long long)requests, (unsigned long long)last_abort_ns);
        return answer(c, 200, body, n);
    }
    if (!strcmp(method, "GET") && !strcmp(path, "/api/tags")) return answer(c, 200, "{\"models\":[]}", 13);
    if (!strcmp(method, "GET") && strstr(path, "/models")) {
        static const char *names[] = {
            "json", "fast", "slow2", "slow2x1000", "slow50", "slow50x100", "first", "tool", "err500", "err429",
            "errclose", "errcut", "errbad", "toolloop", "toolloop0", "toolloop1-look", "toolloop1-echo", "toolloop5-look",
            "toolloop5-echo", "toolloop6-look", "toolloop6-echo", "toolloop10-look", "toolloop20-look", "toolloop20-echo",
            "toolloop100-look"};
        Bytes b = {0};
        putf(&b, "{\"object\":\"list\",\"data\":[");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            putf(&b, "%s{\"id\":\"bench-%s\",\"object\":\"model\",\"created\":1763200000,\"owned_by\":\"bench\"}",
                 i ? "," : "", names[i]);
        putf(&b, "]}");
        answer(c, 200, b.at, b.len);
        return free(b.at);
    }
    const char *text = "{\"error\":{\"message\":\"no such path\",\"type\":\"not_found_error\",\"code\":null}}";
    answer(c, 404, text, strlen(text));
}

static void serve(Conn *c) {
    while (c->open && !c->streaming && !c->close_after) {
        char *head_end = memmem(c->in.at, c->in.len, "\r\n\r\n", 4);
        if (!head_end) return;
        size_t head = head_end - c->in.at + 4, body = 0;
        char method[16] = "", path[512] = "";
        *head_end = 0;
        sscanf(c->in.at, "%15s %511s", method, path);
        for (char *line = strstr(c->in.at, "\r\n"); line; line = strstr(line + 2, "\r\n")) {
            if (!strncasecmp(line + 2, "content-length:", 15)) body = strtoul(line + 17, NULL, 10);
            if (!strncasecmp(line + 2, "connection: close", 17)) c->close_after = 1;
        }
        *head_end = '\r';
        if (body > MAX_BODY) return drop(c, 0);
        if (c->in.len < head + body) {
            c->close_after = 0;
            return;
        }
        requests++;
        if (!strcmp(method, "POST") && strstr(path, "/chat/completions"))
            chat(c, c->in.at + head, c->in.at + head + body);
        else if (!strcmp(method, "POST") && strstr(path, "/api/chat"))
            ollama(c, c->in.at + head, c->in.at + head + body);
        else other(c, method, path);
        if (!c->open) return;
        c->in.len -= head + body;
        memmove(c->in.at, c->in.at + head + body, c->in.len);
        flush(c);
    }
}

static void readable(Conn *c) {
    for (;;) {
        room(&c->in, 65536);
        ssize_t n = recv(c->fd, c->in.at + c->in.len, c->in.cap - c->in.len, 0);
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) return drop(c, 1);
        c->in.len += n;
        if (c->in.len > MAX_BODY + 65536) return drop(c, 0);
    }
    serve(c);
}

static void tick(Conn *c) {
    content(c);
    if (--c->left > 0) timer_set(c, c->due + c->period);
    else timer_off(c), finish(c, "stop");
    flush(c);
    if (c->open && !c->streaming && c->in.len) serve(c);
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC), one = 1;
        if (fd < 0) return;
        if (fd >= MAX_FD) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        Conn *c = conns + fd;
        Bytes in = c->in, out = c->out;
        memset(c, 0, sizeof *c);
        c->fd = fd, c->open = 1, c->heap_at = -1, c->in = in, c->out = out;
        c->in.len = c->out.len = c->out.sent = 0;
        struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP, .data.fd = fd};
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        accepted++;
    }
}

int main(int argc, char **argv) {
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    srand48(7);
    conns = calloc(MAX_FD, sizeof *conns);
    heap = calloc(MAX_FD, sizeof *heap);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    struct sockaddr_in where = {.sin_family = AF_INET, .sin_port = htons(argc > 1 ? atoi(argv[1]) : 0)};
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof where;
    if (bind(listener, (void *)&where, size) || listen(listener, 4096)) return perror("upstream"), 1;
    getsockname(listener, (void *)&where, &size);
    printf("%d\n", ntohs(where.sin_port));
    fflush(stdout);
    ep = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, events[512];
    epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
    for (;;) {
        struct timespec wait, *until = NULL;
        if (heap_len) {
            uint64_t now = now_ns(), due = heap[0]->due;
            uint64_t left = due > now ? due - now : 0;
            wait.tv_sec = left / 1000000000ull, wait.tv_nsec = left % 1000000000ull;
            until = &wait;
        }
        int n = epoll_pwait2(ep, events, 512, until, NULL);
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == listener) {
                accept_all(listener);
                continue;
            }
            Conn *c = conns + fd;
            if (c->open && events[i].events & EPOLLOUT) {
                flush(c);
                if (c->open && !c->streaming && c->in.len) serve(c);
            }
            if (c->open && events[i].events & ~EPOLLOUT) readable(c);
        }
        for (uint64_t now = now_ns(); heap_len && heap[0]->due <= now;) tick(heap[0]);
    }
}
