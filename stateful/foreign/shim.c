/* Counts the file operations that a process does below one folder, and ends the process before the one that is asked for.
   Preloaded into the processes of a foreign system; see shim.py, which maps the same counters. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

struct control { int armed, count, fired, unused; };
static volatile struct control *control;
static const char *folder;
static size_t length;

__attribute__((constructor)) static void start(void) {
    const char *path = getenv("SURVIVES_SHIM");
    folder = getenv("SURVIVES_SHIM_FOLDER");
    if (!path || !folder) return;
    length = strlen(folder);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return;
    void *map = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED) control = map;
    close(fd);
}

static void boundary(void) {
    if (__sync_add_and_fetch(&control->count, 1) != control->armed) return;
    control->fired = 1;
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static int below(const char *path) {
    return path && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

static void at_path(const char *path) { if (control && below(path)) boundary(); }

static void at_fd(int fd) {
    char link[64], path[PATH_MAX];
    if (!control) return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= 0) return;
    path[size] = 0;
    if (below(path)) boundary();
}

#define NEXT(name) static __typeof__(&name) next; if (!next) next = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *data, size_t size) { NEXT(write); at_fd(fd); return next(fd, data, size); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { NEXT(pwrite); at_fd(fd); return next(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { NEXT(pwrite64); at_fd(fd); return next(fd, data, size, at); }
ssize_t writev(int fd, const struct iovec *parts, int count) { NEXT(writev); at_fd(fd); return next(fd, parts, count); }
int fsync(int fd) { NEXT(fsync); at_fd(fd); return next(fd); }
int fdatasync(int fd) { NEXT(fdatasync); at_fd(fd); return next(fd); }
int ftruncate(int fd, off_t size) { NEXT(ftruncate); at_fd(fd); return next(fd, size); }
int ftruncate64(int fd, off64_t size) { NEXT(ftruncate64); at_fd(fd); return next(fd, size); }
int rename(const char *from, const char *to) { NEXT(rename); at_path(to); return next(from, to); }
int renameat(int a, const char *from, int b, const char *to) { NEXT(renameat); at_path(to); return next(a, from, b, to); }
int unlink(const char *path) { NEXT(unlink); at_path(path); return next(path); }
int unlinkat(int fd, const char *path, int flags) { NEXT(unlinkat); at_path(path); return next(fd, path, flags); }
