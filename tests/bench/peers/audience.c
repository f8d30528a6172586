/* Very many WebSocket clients in one process: the load of a fan-out, off the process that is measured.
 *
 * audience PORT PATH CONNECTIONS FILE: opens the connections, and sends line N of the file, counted from 0 and with its
 * end, on connection N modulo CONNECTIONS. A line that subscribes names the scope N. From then on it counts what comes, and
 * checks that every scope's intervals follow each other. Any question is answered with the counts so far, and with the
 * delays of frames that tell when they were made (`at:` and nanoseconds), since a question that said to restart.
 *
 * Sockets block for writing, and are read only when there is something. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "questions.h"

enum {
    EVENTS = 256,
    BUFFER_BYTES = 256 << 10,
    HEAD_BYTES = 1024,    /* as much of a frame as is looked at */
    HEADER_BYTES = 10,    /* longest header of a frame that a server sends */
    MOST_UNANSWERED = 64, /* lines under way at a time */
    MOST_DELAYS = 1 << 20 /* delays of one measurement; more are not looked at */
};

typedef struct {
    int descriptor;
    uint64_t to_skip;                           /* bytes of a frame that was already counted */
    size_t held_bytes;                          /* beginning of a frame that is not yet counted */
    unsigned char held[HEADER_BYTES + HEAD_BYTES];
} Client;

static Client *clients;
static size_t client_count;
static char **lines;
static size_t line_count, line_next;
static int64_t *revisions; /* by scope; what its client holds */

static struct {
    uint64_t replies, refused, frames, bytes, changes, checks, resets, gaps, lost;
} counts;

static uint32_t *delays; /* microseconds */
static size_t delay_count;

static void send_frame(int descriptor, unsigned char kind, const void *payload, size_t size) {
    /* Clients must mask what they send; a mask of zeroes leaves it as it is. */
    unsigned char frame[QUESTION_BYTES] = {kind, 0x80 | (size < 126 ? size : 126)};
    size_t at = 2;
    if (size >= 126) {
        frame[at++] = size >> 8;
        frame[at++] = size;
    }
    at += 4;
    if (at + size > sizeof frame) {
        fprintf(stderr, "a line of %zu bytes is too long\n", size);
        exit(1);
    }
    memcpy(frame + at, payload, size);
    send(descriptor, frame, at + size, MSG_NOSIGNAL);
}

static void open_client(Client *client, int port, const char *path) {
    char text[1024];
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client->descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (client->descriptor < 0) fail("socket");
    if (connect(client->descriptor, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
    setsockopt(client->descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    int size = snprintf(text, sizeof text,
                        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
                        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " WEBSOCKET_KEY "\r\n\r\n", path, port);
    send(client->descriptor, text, size, MSG_NOSIGNAL);
    size_t length = 0;
    while (length < 4 || memcmp(text + length - 4, "\r\n\r\n", 4) != 0) {
        if (length == sizeof text || recv(client->descriptor, text + length, 1, 0) != 1) {
            fprintf(stderr, "the server did not answer an upgrade\n");
            exit(1);
        }
        length++;
    }
    if (memcmp(text, "HTTP/1.1 101", 12) != 0) {
        fprintf(stderr, "the server refused an upgrade: %.12s\n", text);
        exit(1);
    }
}

static void send_lines(void) {
    while (line_next < line_count && line_next - counts.replies - counts.refused < MOST_UNANSWERED) {
        send_frame(clients[line_next % client_count].descriptor, 0x81, lines[line_next], strlen(lines[line_next]));
        line_next++;
    }
}

static const char *after(const char *head, size_t size, const char *what) {
    const char *found = memmem(head, size, what, strlen(what));
    return found ? found + strlen(what) : NULL;
}

static bool has(const char *head, size_t size, const char *what) {
    return after(head, size, what) != NULL;
}

static void take_change(size_t scope, int64_t base, int64_t revision, uint64_t bytes) {
    counts.frames++;
    counts.bytes += bytes;
    if (base == revisions[scope]) counts.changes += revision - base;
    else counts.gaps++;
    revisions[scope] = revision;
}

static void take_scoped(const char *head, size_t size, size_t scope, uint64_t bytes) {
    const char *base = after(head, size, "\"base_revision\":\"");
    const char *revision = after(head, size, "\"revision\":\"");
    if (scope >= line_count || base == NULL || revision == NULL) counts.gaps++;
    else if (*revision == '"') counts.resets++;
    else if (strtoll(base, NULL, 10) == strtoll(revision, NULL, 10)) counts.checks++;
    else take_change(scope, strtoll(base, NULL, 10), strtoll(revision, NULL, 10), bytes);
}

/* A frame, of which `head` is the beginning. What has no type is a ready frame of a bare server. */
static void take_frame(const char *head, size_t size, uint64_t bytes, int64_t now) {
    size_t beginning = size < 64 ? size : 64;
    const char *scope = after(head, size, "\"scope_id\":\"");
    const char *revision = after(head, size, "\"revision\":\"");
    const char *made = after(head, size, "at:");
    if (has(head, beginning, "\"success\":true") || has(head, beginning, "+OK")) {
        counts.replies++;
        if (scope && revision) revisions[strtoul(scope, NULL, 10)] = strtoll(revision, NULL, 10);
    } else if (has(head, beginning, "\"success\":false") || has(head, beginning, "\"type\":\"error\"")) {
        counts.refused++;
    } else if (scope) {
        take_scoped(head, size, strtoul(scope, NULL, 10), bytes);
    } else if (has(head, beginning, "\"type\":")) {
        counts.gaps++; /* the session was removed, or something that no audience asked for */
    } else {
        counts.frames++;
        counts.bytes += bytes;
    }
    if (made && delay_count < MOST_DELAYS) delays[delay_count++] = (now - strtoll(made, NULL, 10)) / 1000;
}

static void take_control(const Client *client, unsigned char kind, const char *payload, size_t size) {
    if (kind == 0x89) send_frame(client->descriptor, 0x8a, payload, size);
    if (kind == 0x88) shutdown(client->descriptor, SHUT_RDWR); /* and is counted as lost */
}

/* Counts the frames that begin in these bytes; returns how many bytes belong to one that cannot be counted yet. */
static size_t take_bytes(Client *client, const unsigned char *bytes, size_t count, int64_t now) {
    size_t at = 0;
    while (at < count) {
        if (client->to_skip > 0) {
            size_t skipped = client->to_skip < count - at ? client->to_skip : count - at;
            client->to_skip -= skipped;
            at += skipped;
            continue;
        }
        const unsigned char *frame = bytes + at;
        size_t there = count - at, header = 2;
        uint64_t size = there < 2 ? 0 : frame[1];
        if (size == 126) header = 4;
        if (size == 127) header = 10;
        if (there < header) break;
        if (header > 2) {
            size = 0;
            for (size_t place = 2; place < header; place++) size = size << 8 | frame[place];
        }
        size_t head = size < HEAD_BYTES ? size : HEAD_BYTES;
        if (there < header + head) break;
        if (frame[0] == 0x81 || frame[0] == 0x82) take_frame((const char *)frame + header, head, size, now);
        else take_control(client, frame[0], (const char *)frame + header, head);
        client->to_skip = size - head;
        at += header + head;
    }
    return count - at;
}

static void read_from(Client *client, int poller) {
    static unsigned char buffer[BUFFER_BYTES + 1]; /* the last byte stays zero: no number is read beyond it */
    memcpy(buffer, client->held, client->held_bytes);
    ssize_t got = recv(client->descriptor, buffer + client->held_bytes, BUFFER_BYTES - client->held_bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
        counts.lost++;
        epoll_ctl(poller, EPOLL_CTL_DEL, client->descriptor, NULL);
        return;
    }
    size_t count = client->held_bytes + got;
    client->held_bytes = take_bytes(client, buffer, count, nanoseconds(CLOCK_MONOTONIC));
    memcpy(client->held, buffer + count - client->held_bytes, client->held_bytes);
}

static int by_size(const void *one, const void *other) {
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;
    return (a > b) - (a < b);
}

static double milliseconds_at(double share) {
    return delay_count ? delays[(size_t)(share * (delay_count - 1))] / 1e3 : 0;
}

static void answer(const char *question) {
    qsort(delays, delay_count, sizeof *delays, by_size);
    printf("{\"replies\": %lu, \"refused\": %lu, \"frames\": %lu, \"bytes\": %lu, \"changes\": %lu, \"checks\": %lu, "
           "\"resets\": %lu, \"gaps\": %lu, \"lost\": %lu, \"delays\": %zu, \"p50\": %.3f, \"p99\": %.3f}\n",
           counts.replies, counts.refused, counts.frames, counts.bytes, counts.changes, counts.checks, counts.resets,
           counts.gaps, counts.lost, delay_count, milliseconds_at(0.5), milliseconds_at(0.99));
    fflush(stdout);
    if (number_in(question, "restart")) delay_count = 0;
}

static void read_lines(const char *name) {
    char *line = NULL;
    size_t room = 0;
    ssize_t length;
    FILE *file = fopen(name, "r");
    if (file == NULL) fail(name);
    while ((length = getline(&line, &room, file)) > 0) {
        lines = realloc(lines, (line_count + 1) * sizeof *lines);
        lines[line_count++] = strdup(line);
    }
    free(line);
    fclose(file);
    revisions = calloc(line_count + 1, sizeof *revisions);
}

int main(int count, char **arguments) {
    if (count != 5) {
        fprintf(stderr, "expected a port, a path, a number of connections and a file\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    client_count = atoi(arguments[3]);
    clients = calloc(client_count, sizeof *clients);
    delays = malloc(MOST_DELAYS * sizeof *delays);
    read_lines(arguments[4]);
    int poller = epoll_create1(0);
    struct epoll_event events[EVENTS], questions = {.events = EPOLLIN, .data.ptr = NULL};
    epoll_ctl(poller, EPOLL_CTL_ADD, STDIN_FILENO, &questions);
    for (Client *client = clients; client < clients + client_count; client++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
        open_client(client, atoi(arguments[1]), arguments[2]);
        if (epoll_ctl(poller, EPOLL_CTL_ADD, client->descriptor, &event) != 0) fail("epoll_ctl");
    }
    for (;;) {
        send_lines();
        int ready = epoll_wait(poller, events, EVENTS, -1);
        for (int number = 0; number < ready; number++) {
            char question[QUESTION_BYTES];
            if (events[number].data.ptr != NULL) read_from(events[number].data.ptr, poller);
            else if (read_question(question)) answer(question);
            else return 0;
        }
    }
}
