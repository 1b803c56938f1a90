/* Preloaded into a broker: while the file $FAILING_SYNC exists, no fdatasync or fsync succeeds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

static int fails(void) {
    const char *path = getenv("FAILING_SYNC");
    return path != NULL && access(path, F_OK) == 0;
}

static int call(const char *name, int number) {
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);
    if (fails()) {
        errno = EIO;
        return -1;
    }
    return real(number);
}

int fdatasync(int number) { return call("fdatasync", number); }

int fsync(int number) { return call("fsync", number); }
