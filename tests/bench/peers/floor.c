/* The floor of a fan-out: a WebSocket server that does one `send` of ready bytes per client on every tick, and nothing
 * else. Listens on the port that is its argument.
 *
 * Sockets block: a client that does not read holds up the ticks, which are made up for afterwards, and costs no
 * processor time meanwhile. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "questions.h"

enum { EVENTS = 256, MOST_CLIENTS = 1 << 16 };

static const char ANSWER[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             "Sec-WebSocket-Accept: " WEBSOCKET_ACCEPT "\r\n\r\n";

static int poller, listener;
static int clients[MOST_CLIENTS];
static size_t client_count;

static void watch(int descriptor) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = descriptor};
    if (epoll_ctl(poller, EPOLL_CTL_ADD, descriptor, &event) != 0) fail("epoll_ctl");
}

static void start_listening(int port) {
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0) fail("bind");
    if (listen(listener, 1024) != 0) fail("listen");
    watch(listener);
}

static void admit(void) {
    int on = 1, client = accept(listener, NULL, NULL);
    if (client < 0) fail("accept");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    watch(client);
}

static void forget(int client) {
    for (size_t place = 0; place < client_count; place++) {
        if (clients[place] == client) clients[place] = clients[--client_count];
    }
    close(client);
}

/* A client sends its upgrade and is a listener from then on; whatever else it says is dropped. */
static void take_from(int client) {
    char bytes[4096];
    ssize_t got = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0) {
        forget(client);
    } else if (memcmp(bytes, "GET ", 4) == 0 && client_count < MOST_CLIENTS) {
        if (send(client, ANSWER, sizeof ANSWER - 1, MSG_NOSIGNAL) > 0) clients[client_count++] = client;
    }
}

/* A text frame of `size` bytes that tells when it was made; returns its length. `frame` has room for a header more. */
static size_t make_frame(unsigned char *frame, size_t size) {
    char head[64];
    int told = snprintf(head, sizeof head, "{\"at:%lld\":\"", (long long)nanoseconds(CLOCK_MONOTONIC));
    if (size < (size_t)told + 2) size = told + 2;
    size_t at = 0;
    frame[at++] = 0x81;
    if (size < 126) {
        frame[at++] = size;
    } else if (size < 1 << 16) {
        frame[at++] = 126;
        frame[at++] = size >> 8;
        frame[at++] = size;
    } else {
        frame[at++] = 127;
        for (int shift = 56; shift >= 0; shift -= 8) frame[at++] = (uint64_t)size >> shift;
    }
    memcpy(frame + at, head, told);
    memset(frame + at + told, 'x', size - told - 2);
    memcpy(frame + at + size - 2, "\"}", 2);
    return at + size;
}

static void serve_until(int64_t deadline) {
    struct epoll_event events[EVENTS];
    for (;;) {
        int64_t left = deadline - nanoseconds(CLOCK_MONOTONIC);
        if (left <= 0) return;
        struct timespec wait = {.tv_sec = left / 1000000000, .tv_nsec = left % 1000000000};
        int count = epoll_pwait2(poller, events, EVENTS, &wait, NULL);
        for (int number = 0; number < count; number++) {
            int descriptor = events[number].data.fd;
            if (descriptor == listener) admit();
            else if (descriptor != STDIN_FILENO) take_from(descriptor);
            else return;
        }
    }
}

static void tick(double rate, double seconds, size_t size) {
    unsigned char *frame = malloc(size + 128);
    int64_t began = nanoseconds(CLOCK_MONOTONIC), ticks = rate * seconds;
    for (int64_t number = 0; number < ticks; number++) {
        serve_until(began + (int64_t)(number * 1e9 / rate));
        size_t length = make_frame(frame, size);
        for (size_t place = 0; place < client_count; place++) send(clients[place], frame, length, MSG_NOSIGNAL);
    }
    free(frame);
}

int main(int count, char **arguments) {
    if (count != 2) {
        fprintf(stderr, "expected a port\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    raise_file_limit();
    poller = epoll_create1(0);
    start_listening(atoi(arguments[1]));
    watch(STDIN_FILENO);
    for (char question[QUESTION_BYTES];;) {
        serve_until(INT64_MAX);
        if (!read_question(question)) return 0;
        tick(number_in(question, "rate"), number_in(question, "seconds"), number_in(question, "size"));
        printf("{\"clients\": %zu}\n", client_count);
        fflush(stdout);
    }
}
