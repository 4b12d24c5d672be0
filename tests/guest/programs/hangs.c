/* A file system with two files: "program", whose bytes are those of the file given, and "data", which can be written.
   Prints "ready" once it is mounted. Once this process is stopped (SIGSTOP) nothing there answers any more. */
#define FUSE_ROOT FUSE_ROOT_ID
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PROGRAM = 2, DATA = 3, LONGEST = 1 << 17 };

static int fuse, program;
static off_t length;

static struct fuse_attr attributes(uint64_t node) {
    struct fuse_attr found = {.ino = node, .nlink = 1, .blksize = 4096};
    found.mode = node == FUSE_ROOT ? S_IFDIR | 0755 : S_IFREG | (node == PROGRAM ? 0755 : 0666);
    found.size = node == PROGRAM ? (uint64_t)length : 4096;
    return found;
}

static void answer(uint64_t unique, int error, const void *data, size_t size) {
    struct fuse_out_header header = {.len = sizeof header + size, .error = error, .unique = unique};
    struct iovec parts[] = {{&header, sizeof header}, {(void *)data, size}};
    if (writev(fuse, parts, size ? 2 : 1) < 0 && errno != ENOENT)
        perror("answer");
}

static void serve(const struct fuse_in_header *header, const void *request) {
    static char buffer[LONGEST];
    switch (header->opcode) {
    case FUSE_INIT: {
        struct fuse_init_out out = {.major = 7, .minor = 31, .max_write = 4096, .max_readahead = 0};
        /* So the kernel keeps the time of a change and waits for the answer when it writes that back. */
        out.flags = FUSE_WRITEBACK_CACHE;
        answer(header->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_LOOKUP: {
        uint64_t node = !strcmp(request, "program") ? PROGRAM : !strcmp(request, "data") ? DATA : 0;
        struct fuse_entry_out out = {.nodeid = node, .attr = attributes(node)};
        answer(header->unique, node ? 0 : -ENOENT, &out, node ? sizeof out : 0);
        break;
    }
    case FUSE_GETATTR:
    case FUSE_SETATTR: {
        struct fuse_attr_out out = {.attr = attributes(header->nodeid)};
        answer(header->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_OPEN:
    case FUSE_OPENDIR: {
        struct fuse_open_out out = {0};
        answer(header->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_READ: {
        const struct fuse_read_in *in = request;
        size_t size = in->size < LONGEST ? in->size : LONGEST;
        ssize_t got = size;
        if (header->nodeid == PROGRAM)
            got = pread(program, buffer, size, (off_t)in->offset);
        else
            memset(buffer, 0, size);
        answer(header->unique, got < 0 ? -errno : 0, buffer, got < 0 ? 0 : (size_t)got);
        break;
    }
    case FUSE_WRITE: {
        struct fuse_write_out out = {.size = ((const struct fuse_write_in *)request)->size};
        answer(header->unique, 0, &out, sizeof out);
        break;
    }
    case FUSE_FLUSH:
    case FUSE_FSYNC:
    case FUSE_RELEASE:
    case FUSE_RELEASEDIR:
        answer(header->unique, 0, NULL, 0);
        break;
    case FUSE_FORGET:
    case FUSE_BATCH_FORGET:
    case FUSE_INTERRUPT:
        break;
    default:
        answer(header->unique, -ENOSYS, NULL, 0);
    }
}

int main(int argc, char **argv) {
    static char request[LONGEST];
    char options[128];
    if (argc != 3)
        return 2;
    program = open(argv[2], O_RDONLY);
    length = lseek(program, 0, SEEK_END);
    fuse = open("/dev/fuse", O_RDWR);
    snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fuse);
    if (program < 0 || fuse < 0 || mount("hangs", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) != 0) {
        perror(argv[1]);
        return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
        ssize_t got = read(fuse, request, sizeof request);
        if (got < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
            return 0;
        if (got > 0)
            serve((const struct fuse_in_header *)request,
                  request + sizeof(struct fuse_in_header));
    }
}
