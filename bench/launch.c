/* Runs a program to its end and says what it took: `launch FD WORD...` writes one line to FD:
 * nanoseconds of CLOCK_MONOTONIC at its start, at its end, microseconds of processor, KiB at its peak, wait status.
 * It is small because a program's peak memory starts with that of its parent. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int count, char **words) {
    if (count < 3) return 2;
    long long began = now_ns();
    pid_t pid = fork();
    if (pid < 0) return 1;
    if (pid == 0) {
        close(atoi(words[1]));
        execvp(words[2], words + 2);
        _exit(127);
    }
    int status;
    struct rusage used;
    if (wait4(pid, &status, 0, &used) != pid) return 1;
    long long ended = now_ns();
    long long spent = (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000ll + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    dprintf(atoi(words[1]), "%lld %lld %lld %ld %d\n", began, ended, spent, used.ru_maxrss, status);
    return 0;
}
