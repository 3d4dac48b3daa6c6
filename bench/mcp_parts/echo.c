/* The least a server can do, so that what is measured is the client: `echo stdio` answers lines, `echo http` prints its
   port and answers POSTs with keep-alive. A `tools/call` is answered with 64 letters. Reads of a message its method and
   id, written with or without a space after the colon; messages larger than the buffer are not for it. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ROOM = 1 << 16, CLIENTS = 16 };

static const char HELLO[] = "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}},"
                            "\"serverInfo\":{\"name\":\"echo\",\"version\":\"1\"}}";
#define SCHEMA "\"inputSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}}}"
/* `look` says that it only reads; `echo` says nothing, so a careful client takes it for one with effects. */
static const char TOOLS[] = "{\"tools\":[{\"name\":\"look\",\"description\":\"l\"," SCHEMA
                            ",\"annotations\":{\"readOnlyHint\":true}},"
                            "{\"name\":\"echo\",\"description\":\"e\"," SCHEMA "}]}";
static const char CALLED[] = "{\"content\":[{\"type\":\"text\",\"text\":"
                             "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"}]}";

struct input {
    char data[ROOM + 1];
    size_t size;
};

static const char *value_of(const char *message, const char *key) {
    const char *at = strstr(message, key);
    if (!at) return NULL;
    at += strlen(key);
    return *at == ' ' ? at + 1 : at;
}

/* The answer's length; 0 for what needs none. */
static int answer(const char *message, char *out) {
    const char *method = value_of(message, "\"method\":"), *id = value_of(message, "\"id\":");
    if (!method || !id) return 0;
    const char *result = !strncmp(method, "\"tools/call\"", 12)   ? CALLED
                         : !strncmp(method, "\"initialize\"", 12) ? HELLO
                         : !strncmp(method, "\"tools/list\"", 12) ? TOOLS
                                                                  : "{}";
    return snprintf(out, ROOM, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}", atol(id), result);
}

static void put(int fd, const char *data, size_t size) {
    while (size) {
        ssize_t taken = write(fd, data, size);
        if (taken <= 0) return; /* it has gone, which the next read will tell */
        data += taken;
        size -= taken;
    }
}

/* Whether there was anything. */
static int fill(int fd, struct input *in) {
    ssize_t got = read(fd, in->data + in->size, ROOM - in->size);
    if (got <= 0) return 0;
    in->size += got;
    in->data[in->size] = 0;
    return 1;
}

static void drop(struct input *in, size_t size) {
    in->size -= size;
    memmove(in->data, in->data + size, in->size + 1);
}

static int serve_lines(void) {
    static struct input in;
    static char out[ROOM];
    while (fill(0, &in)) {
        char *end;
        while ((end = memchr(in.data, '\n', in.size))) {
            *end = 0;
            int size = answer(in.data, out);
            if (size) {
                out[size++] = '\n';
                put(1, out, size);
            }
            drop(&in, end + 1 - in.data);
        }
    }
    return 0;
}

/* Answers every request that is there in full. */
static void serve_requests(int fd, struct input *in) {
    static char body[ROOM], out[2 * ROOM];
    char *start;
    while ((start = strstr(in->data, "\r\n\r\n"))) {
        start += 4;
        const char *length = strcasestr(in->data, "content-length:");
        size_t whole = start - in->data + (length && length < start ? strtoul(length + 15, NULL, 10) : 0);
        if (whole > in->size) return;
        char after = in->data[whole];
        in->data[whole] = 0;
        int size = answer(start, body);
        in->data[whole] = after;
        const char *head = size ? "200 OK\r\ncontent-type: application/json" : "202 Accepted";
        size = snprintf(out, sizeof out, "HTTP/1.1 %s\r\ncontent-length: %d\r\n\r\n%.*s", head, size, size, body);
        put(fd, out, size);
        drop(in, whole);
    }
}

static int serve_http(void) {
    static struct input inputs[CLIENTS];
    struct pollfd fds[CLIENTS + 1];
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t room = sizeof here;
    int count = 0, one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (void *)&here, room) || listen(listener, CLIENTS)) return 1;
    getsockname(listener, (void *)&here, &room);
    printf("%d\n", ntohs(here.sin_port));
    fflush(stdout);
    for (;;) {
        fds[count] = (struct pollfd){listener, POLLIN, 0}; /* last, so that it moves as clients come and go */
        if (poll(fds, count + (count < CLIENTS), -1) < 0) return 1;
        int newcomer = count < CLIENTS && fds[count].revents;
        for (int i = count - 1; i >= 0; i--) {
            if (!fds[i].revents) continue;
            if (fill(fds[i].fd, &inputs[i])) {
                serve_requests(fds[i].fd, &inputs[i]);
            } else {
                close(fds[i].fd);
                fds[i] = fds[--count];
                inputs[i] = inputs[count];
            }
        }
        if (newcomer) {
            int fd = accept(listener, NULL, NULL);
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
            inputs[count].size = 0;
            fds[count++] = (struct pollfd){fd, POLLIN, 0};
        }
    }
}

int main(int argc, char **argv) {
    return argc > 1 && !strcmp(argv[1], "http") ? serve_http() : serve_lines();
}
