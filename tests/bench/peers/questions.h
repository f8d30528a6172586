/* How a peer written in C is spoken to: a question per line on standard input, one flat JSON object of numbers, and an
 * answer per line on standard output. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { QUESTION_BYTES = 4096 };

/* The only key that the audience sends, and what it means that a server accepts it (RFC 6455, section 1.3): opening a
 * connection is not what is measured. */
#define WEBSOCKET_KEY "dGhlIHNhbXBsZSBub25jZQ=="
#define WEBSOCKET_ACCEPT "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="

static inline int64_t nanoseconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline void fail(const char *what) {
    perror(what);
    exit(1);
}

/* As many open files as the system lets this process have. */
static inline void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The next question; false when there are no more. */
static inline bool read_question(char question[QUESTION_BYTES]) {
    size_t length = 0;
    while (length < QUESTION_BYTES - 1) {
        ssize_t got = read(STDIN_FILENO, question + length, 1);
        if (got <= 0) return false;
        if (question[length] == '\n') break;
        length++;
    }
    question[length] = '\0';
    return true;
}

/* The number under a name in a question. */
static inline double number_in(const char *question, const char *name) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", name);
    const char *found = strstr(question, quoted);
    return found ? strtod(found + strlen(quoted), NULL) : 0;
}
