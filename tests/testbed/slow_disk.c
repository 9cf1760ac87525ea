/* A disk that is slow: with LD_PRELOAD, each fsync and fdatasync takes SLOW_DISK_MICROSECONDS longer. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>

static void wait_longer(void)
{
    const char *text = getenv("SLOW_DISK_MICROSECONDS");
    long us = text ? atol(text) : 0;
    struct timespec rest = {us / 1000000, us % 1000000 * 1000};
    while (us > 0 && nanosleep(&rest, &rest))
        ;
}

int fsync(int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    wait_longer();
    return real(file);
}

int fdatasync(int file)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
    wait_longer();
    return real(file);
}
