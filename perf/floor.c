/* SPDX-License-Identifier: BSD-2-Clause */
/* floor.c - what each operation of a RAID costs with no engine around it: the member I/O that it can't
 * do without, and the parity, on one thread.
 *
 *      operation    first                       then                    members
 *      read         one member, anywhere                                1: the bare member; n: RAID 0
 *                   (a large one: all of them, a part each)
 *      write        all copies                                          1: the bare member; 2: RAID 1
 *                   (--copies of them, side by side: RAID 10)
 *      update       old data, old parity        new data, new parity    RAID 5, 6: a small write
 *      stripe       (compute) all members                               RAID 5, 6: a large write
 *      recover      what is lost: the others                            RAID 5, 6: a read, --lost members
 *                   what isn't: one member
 *      bare         one call after the other, --writes or not           1
 *
 * The last is the yardstick of the others: what the member gives to a loop that has nothing else to do.
 *
 * There are no locks, no bitmap, no metadata, no deadlines: what an engine reaches of this is what
 * it costs itself.  The places of data and parity aren't computed either, so what is on the members is
 * nonsense afterwards.
 *
 * Two ways to the members, since either is the cheaper one somewhere.  Plain calls, for what is in
 * memory; and a ring, with all that makes it fast: its files and memory registered, completions
 * fetched by the thread, one system call for all that is ready.
 *
 * Prints one line of JSON. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <liburing.h>
#include <linux/fs.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "parity/parity.h"
#include "util/compiler.h"
#include "util/pages.h"
#include "util/prng.h"

enum {
    MEMBERS_MAX = 16,
    BUFFERS_MAX = MEMBERS_MAX + 4,
    DEPTH_MAX = 256,
    CLOCK_EVERY = 8, /* operations between two looks at the clock */
};

enum kind { READ, WRITE, BARE, UPDATE, STRIPE, RECOVER, KIND_COUNT };

static const char *const kind_names[KIND_COUNT] = {"read",   "write",  "bare",
                                                   "update", "stripe", "recover"};

/* Where `update` has what. */
enum { NEW_DATA, OLD_DATA, OLD_PARITY, NEW_PARITY = OLD_PARITY + 2 };

/* One member I/O. */
struct part {
    uint32_t member;
    uint32_t buffer;
    bool writes;
};

struct operation {
    struct part parts[MEMBERS_MAX]; /* of the phase that it is in, all at the same offset */
    uint32_t part_count;
    uint32_t outstanding; /* of these, in the ring */
    bool second;          /* phase */
    uint32_t lost_data;   /* chunks of data to compute */
    uint64_t offset_bytes;
    uint8_t *buffers[BUFFERS_MAX]; /* part_bytes each */
};

struct run {
    enum kind kind;
    uint32_t block_bytes; /* of the array, by an operation */
    uint32_t part_bytes;  /* of a member, by an I/O */
    uint32_t depth;
    uint32_t parity_count;
    uint32_t copies;
    uint32_t lost;
    uint64_t runtime_ns;
    bool ring_wanted;
    bool writes; /* BARE */

    int files[MEMBERS_MAX];
    uint32_t member_count;
    uint64_t place_count; /* parts on each member */
    struct prng prng;
    struct operation operations[DEPTH_MAX];
    uint8_t *memory;
    size_t memory_bytes;
    struct io_uring ring;
    bool memory_registered;
    uint64_t done_count;
};

static uint64_t now_ns(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void stop(const char *what, int error)
{
    (void)fprintf(stderr, "floor: %s: %s\n", what, strerror(error));
    exit(1);
}

/* ---- operations ---- */

static void add_part(struct operation *operation, uint32_t member, uint32_t buffer, bool writes)
{
    operation->parts[operation->part_count++] = (struct part){member, buffer, writes};
}

static uint32_t data_count(const struct run *run)
{
    return run->member_count - run->parity_count;
}

/* P and Q of the buffers before them. */
static void compute_stripe(const struct run *run, struct operation *operation)
{
    struct parity_chunk chunks[MEMBERS_MAX];
    const uint32_t count = data_count(run);

    for (uint32_t i = 0; i < count; i++)
        chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, i};
    parity_generate(&parity_isal, chunks, (const uint8_t *const *)operation->buffers, count,
                    operation->buffers[count],
                    run->parity_count > 1 ? operation->buffers[count + 1] : NULL, run->part_bytes);
}

static void compute_update(const struct run *run, struct operation *operation)
{
    const struct parity_chunk chunk = {PARITY_ROLE_DATA, 1};
    uint8_t **buffers = operation->buffers;

    for (uint32_t i = 0; i < run->parity_count; i++)
        parity_update(&parity_isal, i == 0 ? PARITY_ROLE_P : PARITY_ROLE_Q, buffers[OLD_PARITY + i],
                      &chunk, (const uint8_t *const *)&buffers[OLD_DATA],
                      (const uint8_t *const *)&buffers[NEW_DATA], 1, buffers[NEW_PARITY + i],
                      run->part_bytes);
}

/* The survivors are all data that isn't lost, and as much parity as makes up for the rest: the dearest
 * case. */
static void compute_lost(const struct run *run, struct operation *operation)
{
    const uint32_t count = data_count(run);
    const uint32_t left = count - run->lost;
    const struct parity_chunk lost[2] = {
        {PARITY_ROLE_DATA, left    },
        {PARITY_ROLE_DATA, left + 1}
    };
    struct parity_chunk chunks[MEMBERS_MAX];

    for (uint32_t i = 0; i < left; i++)
        chunks[i] = (struct parity_chunk){PARITY_ROLE_DATA, i};
    for (uint32_t i = 0; i < run->lost; i++)
        chunks[left + i] = (struct parity_chunk){i == 0 ? PARITY_ROLE_P : PARITY_ROLE_Q, 0};
    for (uint32_t i = 0; i < operation->lost_data; i++)
        if (parity_recover(&parity_isal, &lost[i], run->lost > 1 ? &lost[1 - i] : NULL, chunks,
                           (const uint8_t *const *)operation->buffers, count,
                           operation->buffers[count + i], run->part_bytes) < 0)
            stop("recover", EINVAL);
}

static void begin_recover(struct run *run, struct operation *operation)
{
    const bool small = run->part_bytes == run->block_bytes;
    const uint32_t count = data_count(run);

    operation->lost_data = 0;
    if (small) {
        operation->lost_data = prng_chance(&run->prng, run->lost, run->member_count) ? 1 : 0;
        if (operation->lost_data == 0) {
            add_part(operation, (uint32_t)prng_below(&run->prng, run->member_count), 0, false);
            return;
        }
    } else {
        for (uint32_t i = 0; i < run->lost; i++)
            operation->lost_data += prng_chance(&run->prng, count, run->member_count) ? 1 : 0;
    }
    for (uint32_t i = 0; i < count; i++)
        add_part(operation, i, i, false);
}

static void begin(struct run *run, struct operation *operation)
{
    const uint32_t count = run->member_count;
    const uint32_t first = (uint32_t)prng_below(&run->prng, count);

    operation->part_count = 0;
    operation->second = false;
    operation->offset_bytes = prng_below(&run->prng, run->place_count) * run->part_bytes;
    switch (run->kind) {
    case READ:
        for (uint32_t i = 0; i < run->block_bytes / run->part_bytes; i++)
            add_part(operation, (first + i) % count, i, false);
        break;
    case WRITE: /* a large one goes to several sets of copies */
        for (uint32_t i = 0; i < run->block_bytes / run->part_bytes * run->copies; i++)
            add_part(operation, (first / run->copies * run->copies + i) % count, i / run->copies,
                     true);
        break;
    case UPDATE:
        for (uint32_t i = 0; i <= run->parity_count; i++)
            add_part(operation, (first + i) % count, OLD_DATA + i, false);
        break;
    case STRIPE:
        compute_stripe(run, operation);
        for (uint32_t i = 0; i < count; i++)
            add_part(operation, (first + i) % count, i, true);
        break;
    case RECOVER:
        begin_recover(run, operation);
        break;
    case BARE:
    case KIND_COUNT:
        break;
    }
}

/* Its parts are done.  True if it has more. */
static bool go_on(const struct run *run, struct operation *operation)
{
    if (operation->second)
        return false;
    operation->second = true;
    if (run->kind == RECOVER)
        compute_lost(run, operation);
    if (run->kind != UPDATE)
        return false;
    compute_update(run, operation);
    for (uint32_t i = 0; i < operation->part_count; i++) {
        operation->parts[i].writes = true;
        operation->parts[i].buffer = i == 0 ? NEW_DATA : NEW_PARITY + i - 1;
    }
    return true;
}

/* ---- plain calls ---- */

static void carry_out(const struct run *run, const struct operation *operation)
{
    for (uint32_t i = 0; i < operation->part_count; i++) {
        const struct part *part = &operation->parts[i];
        const int file = run->files[part->member];
        uint8_t *buffer = operation->buffers[part->buffer];
        const ssize_t moved =
            part->writes ? pwrite(file, buffer, run->part_bytes, (off_t)operation->offset_bytes)
                         : pread(file, buffer, run->part_bytes, (off_t)operation->offset_bytes);

        if (moved != (ssize_t)run->part_bytes)
            stop("member", moved < 0 ? errno : EIO);
    }
}

static void run_plainly(struct run *run, uint64_t end_ns)
{
    do {
        for (uint32_t i = 0; i < CLOCK_EVERY; i++) {
            struct operation *operation = &run->operations[run->done_count++ % run->depth];
            begin(run, operation);
            do
                carry_out(run, operation);
            while (go_on(run, operation));
        }
    } while (now_ns() < end_ns);
}

static void run_bare(struct run *run, uint64_t end_ns)
{
    const size_t bytes = run->part_bytes;
    const int file = run->files[0];
    ssize_t moved = 0;

    do {
        for (uint32_t i = 0; i < CLOCK_EVERY && moved >= 0; i++) {
            const off_t at = (off_t)(prng_below(&run->prng, run->place_count) * bytes);
            uint8_t *buffer = run->operations[run->done_count++ % run->depth].buffers[0];
            moved = run->writes ? pwrite(file, buffer, bytes, at) : pread(file, buffer, bytes, at);
        }
        if (moved != (ssize_t)bytes)
            stop("member", moved < 0 ? errno : EIO);
    } while (now_ns() < end_ns);
}

/* ---- the ring ---- */

static void open_ring(struct run *run)
{
    struct io_uring_params params = {.flags =
                                         IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
    const struct iovec memory = {run->memory, run->memory_bytes};
    int result = io_uring_queue_init_params(DEPTH_MAX * MEMBERS_MAX, &run->ring, &params);

    if (result == 0)
        result = io_uring_register_files(&run->ring, run->files, run->member_count);
    if (result < 0)
        stop("ring", -result);
    run->memory_registered = io_uring_register_buffers(&run->ring, &memory, 1) == 0;
}

static void issue(struct run *run, struct operation *operation)
{
    operation->outstanding = operation->part_count;
    for (uint32_t i = 0; i < operation->part_count; i++) {
        const struct part *part = &operation->parts[i];
        struct io_uring_sqe *sqe = io_uring_get_sqe(&run->ring);
        uint8_t *buffer = operation->buffers[part->buffer];
        const int member = (int)part->member;

        if (run->memory_registered && part->writes)
            io_uring_prep_write_fixed(sqe, member, buffer, run->part_bytes, operation->offset_bytes,
                                      0);
        else if (run->memory_registered)
            io_uring_prep_read_fixed(sqe, member, buffer, run->part_bytes, operation->offset_bytes,
                                     0);
        else if (part->writes)
            io_uring_prep_write(sqe, member, buffer, run->part_bytes, operation->offset_bytes);
        else
            io_uring_prep_read(sqe, member, buffer, run->part_bytes, operation->offset_bytes);
        sqe->flags |= IOSQE_FIXED_FILE;
        io_uring_sqe_set_data(sqe, operation);
    }
}

/* A part is done.  Returns how many operations ended with it: 0 or 1. */
static uint32_t part_done(struct run *run, struct operation *operation, bool ends)
{
    if (--operation->outstanding > 0)
        return 0;
    if (go_on(run, operation)) {
        issue(run, operation);
        return 0;
    }
    run->done_count++;
    if (ends)
        return 1;
    begin(run, operation);
    issue(run, operation);
    return 0;
}

static void run_ring(struct run *run, uint64_t end_ns)
{
    uint32_t in_flight = run->depth;

    for (uint32_t i = 0; i < run->depth; i++) {
        begin(run, &run->operations[i]);
        issue(run, &run->operations[i]);
    }
    while (in_flight > 0) {
        const int result = io_uring_submit_and_wait(&run->ring, 1);
        const bool ends = now_ns() >= end_ns;
        struct io_uring_cqe *cqe;
        uint32_t head;
        uint32_t count = 0;

        if (result < 0)
            stop("ring", -result);
        io_uring_for_each_cqe(&run->ring, head, cqe)
        {
            if (cqe->res != (int)run->part_bytes)
                stop("member", cqe->res < 0 ? -cqe->res : EIO);
            in_flight -= part_done(run, io_uring_cqe_get_data(cqe), ends);
            count++;
        }
        io_uring_cq_advance(&run->ring, count);
    }
    io_uring_queue_exit(&run->ring);
}

/* ---- getting ready ---- */

static void open_member(struct run *run, const char *path)
{
    struct stat status;

    if (run->member_count == MEMBERS_MAX)
        stop(path, E2BIG);
    if (stat(path, &status) < 0)
        stop(path, errno);
    uint64_t bytes = (uint64_t)status.st_size;
    const int file = open(path, O_RDWR | O_CLOEXEC | (S_ISBLK(status.st_mode) ? O_DIRECT : 0));
    if (file < 0 || (S_ISBLK(status.st_mode) && ioctl(file, BLKGETSIZE64, &bytes) < 0))
        stop(path, errno);
    run->files[run->member_count++] = file;
    run->place_count = run->member_count == 1 ? bytes : MIN(run->place_count, bytes);
}

/* How a block is spread: a small one lies on one member, a large one on as many as have data. */
static void choose_part(struct run *run)
{
    const uint32_t data = run->kind == WRITE ? run->member_count / run->copies : data_count(run);
    const bool whole = run->block_bytes <= 65536 || run->kind == UPDATE;

    run->part_bytes = whole && run->kind != STRIPE ? run->block_bytes : run->block_bytes / data;
    run->place_count /= run->part_bytes;
}

static void make_buffers(struct run *run)
{
    run->memory_bytes = (size_t)run->depth * BUFFERS_MAX * run->part_bytes;
    run->memory = pages_allocate(run->memory_bytes);
    if (run->memory == NULL)
        stop("memory", ENOMEM);
    memset(run->memory, 0, run->memory_bytes); /* touched now, not in the measured time */
    for (uint32_t i = 0; i < run->depth; i++)
        for (uint32_t j = 0; j < BUFFERS_MAX; j++)
            run->operations[i].buffers[j] =
                run->memory + ((size_t)j * run->depth + i) * run->part_bytes;
}

static uint32_t number(const char *text, uint32_t min, uint32_t max)
{
    char *end;
    const unsigned long value = strtoul(text, &end, 10);

    if (*text == '\0' || *end != '\0' || value < min || value > max)
        stop(text, ERANGE);
    return (uint32_t)value;
}

static enum kind kind_of(const char *name)
{
    for (uint32_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(name, kind_names[i]) == 0)
            return (enum kind)i;
    stop(name, EINVAL);
    return KIND_COUNT;
}

static void parse(struct run *run, int argc, char **argv)
{
    static const struct option options[] = {
        {"block",   required_argument, NULL, 'b'},
        {"depth",   required_argument, NULL, 'd'},
        {"time-ms", required_argument, NULL, 't'},
        {"parity",  required_argument, NULL, 'p'},
        {"copies",  required_argument, NULL, 'c'},
        {"lost",    required_argument, NULL, 'l'},
        {"ring",    no_argument,       NULL, 'r'},
        {"writes",  no_argument,       NULL, 'w'},
        {NULL,      0,                 NULL, 0  },
    };
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case 'b':
            run->block_bytes = number(optarg, 4096, 16 << 20);
            break;
        case 'd':
            run->depth = number(optarg, 1, DEPTH_MAX);
            break;
        case 't':
            run->runtime_ns = number(optarg, 1, 1000000) * UINT64_C(1000000);
            break;
        case 'p':
            run->parity_count = number(optarg, 1, 2);
            break;
        case 'c':
            run->copies = number(optarg, 1, MEMBERS_MAX);
            break;
        case 'l':
            run->lost = number(optarg, 1, 2);
            break;
        case 'r':
            run->ring_wanted = true;
            break;
        case 'w':
            run->writes = true;
            break;
        default:
            exit(2);
        }
    }
    if (argc - optind < 2) {
        (void)fprintf(stderr,
                      "usage: floor [--block BYTES] [--depth N] [--time-ms N] [--parity 1|2]\n"
                      "             [--copies N] [--lost N] [--ring] [--writes]\n"
                      "             bare|read|write|update|stripe|recover MEMBER...\n");
        exit(2);
    }
    run->kind = kind_of(argv[optind++]);
    while (optind < argc)
        open_member(run, argv[optind++]);
    if (run->parity_count >= run->member_count || run->lost > run->parity_count ||
        (run->lost > 0) != (run->kind == RECOVER) || run->member_count % run->copies != 0 ||
        (run->parity_count > 0) != (run->kind >= UPDATE) ||
        (run->kind == BARE && (run->ring_wanted || run->member_count > 1)) ||
        (run->writes && run->kind != BARE))
        stop(kind_names[run->kind], EINVAL);
}

/* ---- what came of it ---- */

static uint64_t of_timeval(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_usec * 1000;
}

static void print(const struct run *run, uint64_t elapsed_ns, const struct rusage *before,
                  const struct rusage *after)
{
    const double count = (double)run->done_count;
    const double user_ns = (double)(of_timeval(after->ru_utime) - of_timeval(before->ru_utime));
    const double system_ns = (double)(of_timeval(after->ru_stime) - of_timeval(before->ru_stime));
    cpu_set_t allowed;

    if (sched_getaffinity(0, sizeof allowed, &allowed) < 0)
        stop("affinity", errno);
    (void)printf("{\"operation\": \"%s\", \"way\": \"%s\", \"members\": %u, \"block_bytes\": %u, "
                 "\"depth\": %u, \"requests\": %llu, \"requests_per_s\": %.0f, \"user_ns\": %.0f, "
                 "\"system_ns\": %.0f, \"cpus\": %d, \"memory_registered\": %s}\n",
                 kind_names[run->kind], run->ring_wanted ? "ring" : "plain", run->member_count,
                 run->block_bytes, run->depth, (unsigned long long)run->done_count,
                 count / (double)elapsed_ns * 1e9, user_ns / count, system_ns / count,
                 CPU_COUNT(&allowed), run->memory_registered ? "true" : "false");
}

int main(int argc, char **argv)
{
    static struct run run = {
        .block_bytes = 4096, .depth = 32, .copies = 1, .runtime_ns = 1000000000};
    struct rusage before;
    struct rusage after;

    parse(&run, argc, argv);
    choose_part(&run);
    make_buffers(&run);
    prng_init(&run.prng, 1, 0);
    if (run.ring_wanted)
        open_ring(&run);
    (void)getrusage(RUSAGE_SELF, &before);
    const uint64_t start_ns = now_ns();
    if (run.kind == BARE)
        run_bare(&run, start_ns + run.runtime_ns);
    else if (run.ring_wanted)
        run_ring(&run, start_ns + run.runtime_ns);
    else
        run_plainly(&run, start_ns + run.runtime_ns);
    const uint64_t elapsed_ns = now_ns() - start_ns;
    (void)getrusage(RUSAGE_SELF, &after);
    print(&run, elapsed_ns, &before, &after);
    return 0;
}
