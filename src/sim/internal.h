/* SPDX-License-Identifier: BSD-2-Clause */
/* internal.h - what the files of src/sim share: sparse contents, write caches, the clock.
 *
 *      sim_store.c   pages of contents, and the store of them
 *      sim_cache.c   one member's volatile cache over its pages
 *      sim_clock.c   the event queue
 *      sim_trace.c   the running hash and the text
 *      sim.c         the backend: requests, faults, lanes
 *      sim_crash.c   what is left when the power fails */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "sim/sim.h"
#include "util/prng.h"

/* ---- sparse contents ---- */

#define SIM_PAGE_BYTES   4096
#define SIM_PAGE_SECTORS (SIM_PAGE_BYTES / SIM_SECTOR_BYTES)
#define SIM_LEAF_PAGES   512
#define SIM_NO_PAGE      UINT64_MAX

struct sim_page {
    uint8_t bytes[SIM_PAGE_BYTES];
    uint64_t
        landed[SIM_PAGE_SECTORS]; /* which landing a sector's bytes are of; 0: older than all */
    uint8_t bad;                  /* a bit for each sector that can't be read */
};

struct sim_leaf {
    struct sim_page *pages[SIM_LEAF_PAGES];
};

/* A page that isn't there is zeros. */
struct sim_pages {
    uint64_t length_bytes;
    size_t leaf_count;
    struct sim_leaf **leaves;
};

struct sim_store {
    uint32_t count;
    struct sim_pages members[];
};

int sim_pages_init(struct sim_pages *pages, uint64_t length_bytes);
void sim_pages_free(struct sim_pages *pages);
/* Onto pages that are zeros.  Returns 0 or -ENOMEM. */
int sim_pages_copy(struct sim_pages *to, const struct sim_pages *from);
struct sim_page *sim_pages_get(const struct sim_pages *pages, uint64_t page); /* or NULL */
struct sim_page *sim_pages_make(struct sim_pages *pages, uint64_t page);      /* NULL: no memory */
/* The first page that is there at or after `page`, or SIM_NO_PAGE. */
uint64_t sim_pages_next(const struct sim_pages *pages, uint64_t page);

/* ---- write caches ---- */

/* A sector of a write, or the range of a zero. */
struct sim_entry {
    struct list_node link; /* in its flight's list, in its cache's, or free */
    uint64_t sector;
    uint64_t sector_count; /* 1 unless it zeros */
    uint64_t landed;       /* the landing that brought it into the cache; 0 before that */
    uint64_t write;        /* as in struct sim_pending */
    bool zeros;            /* `bytes` isn't used */
    uint8_t bytes[SIM_SECTOR_BYTES];
};

/* Entries of the whole sim.  Memory that was never used isn't touched. */
struct sim_pool {
    struct sim_entry *entries;
    uint32_t capacity;
    uint32_t touched; /* entries[touched ..] were never used */
    struct list_node free;
};

int sim_pool_init(struct sim_pool *pool, uint32_t capacity);
struct sim_entry *sim_pool_take(struct sim_pool *pool); /* NULL: all in use */
void sim_pool_give(struct sim_pool *pool, struct sim_entry *entry);

struct sim_cache {
    struct sim_pool *pool;
    struct sim_pages *durable; /* the store's */
    struct sim_pages newest;   /* what reads see, where it was ever written; else durable */
    struct list_node pending;  /* entries in the order of landing */
    uint64_t landed;           /* landings so far */
};

/* Make the pages that an entry needs to land and to become durable. */
int sim_cache_prepare(struct sim_cache *cache, uint64_t sector, uint64_t sector_count, bool zeros);

/* Let entries take effect, in order, as one landing; `durable`: not only in the cache. */
void sim_cache_land(struct sim_cache *cache, struct list_node *entries, bool durable);

/* Make durable what landed up to a landing, oldest first. */
void sim_cache_destage(struct sim_cache *cache, uint64_t up_to_landed);

/* Make the oldest entry durable.  False: there is none. */
bool sim_cache_destage_one(struct sim_cache *cache);

/* Forget a pending entry, which never becomes durable. */
void sim_cache_drop(struct sim_cache *cache, struct sim_entry *entry);

/* Let reads see what is durable, and nothing else; nothing is pending. */
void sim_cache_revert(struct sim_cache *cache);

void sim_cache_read(const struct sim_cache *cache, uint64_t offset_bytes, uint8_t *to,
                    size_t bytes);
bool sim_cache_is_bad(const struct sim_cache *cache, uint64_t offset_bytes, uint64_t bytes);
/* Returns 0 or -ENOMEM, with some of the range flipped. */
int sim_cache_flip(struct sim_cache *cache, uint64_t sector, uint64_t sector_count);
/* Returns 0 or -ENOMEM, with some of the range bad. */
int sim_cache_make_bad(struct sim_cache *cache, uint64_t sector, uint64_t sector_count);

/* Call visit() for each sector of the entry that has yet to become durable: whose page is
 * there, and holds nothing that landed later. */
void sim_cache_visit(const struct sim_cache *cache, const struct sim_entry *entry,
                     void (*visit)(void *context, const struct sim_entry *entry, uint64_t sector),
                     void *context);

/* The entry's bytes for one of its sectors into the page that holds it. */
void sim_page_put(struct sim_page *page, const struct sim_entry *entry, uint64_t sector);

/* ---- clock ---- */

struct sim_event {
    uint64_t at_ns; /* IO_NEVER: not by itself */
    uint64_t sequence;
    uint32_t heap_index;
    bool is_fault; /* inside a struct sim_armed, else a struct sim_flight */
};

struct sim_clock {
    uint64_t now_ns;
    uint64_t sequence;
    uint32_t count;
    uint32_t capacity;
    struct sim_event **heap;
};

/* Not more than `capacity` events at a time. */
int sim_clock_init(struct sim_clock *clock, uint32_t capacity);
void sim_clock_insert(struct sim_clock *clock, struct sim_event *event, uint64_t at_ns);
void sim_clock_remove(struct sim_clock *clock, struct sim_event *event);
/* The first that has a time, or NULL. */
struct sim_event *sim_clock_first(const struct sim_clock *clock);
/* Move on to at_ns; a time that is past is now. */
void sim_clock_advance(struct sim_clock *clock, uint64_t at_ns);

/* ---- trace ---- */

enum sim_trace_kind {
    SIM_TRACE_SUBMIT,
    SIM_TRACE_COMPLETE,
    SIM_TRACE_DEADLINE,
    SIM_TRACE_LATE, /* a write that was given up lands */
    SIM_TRACE_TIMER,
    SIM_TRACE_FAULT,
    SIM_TRACE_WAKE,
};

struct sim_trace {
    uint64_t hash;
    void (*log)(void *context, const char *line);
    void *log_context;
};

/* ---- requests in flight ---- */

struct sim_flight {
    struct sim_event event;     /* when it completes, or its deadline if that is earlier */
    struct list_node link;      /* in its member's list, in the order of submission, or free */
    struct io_request *request; /* NULL once it was given up */
    uint64_t number;            /* counts submissions */
    uint32_t lane;
    uint32_t member;
    enum io_kind kind;
    bool fua;
    uint64_t offset_bytes;
    uint64_t bytes;
    uint64_t deadline_ns;
    uint64_t due_ns;          /* IO_NEVER while its member hangs */
    uint64_t flush_landed;    /* IO_FLUSH: what landed up to here has to become durable */
    int result;               /* what it is to end with, as far as is known */
    struct list_node entries; /* what it writes */
};

/* Which of a member's requests something happens to. */
struct sim_calls {
    uint64_t from; /* so many of them aren't, at first */
    uint64_t count;
    uint64_t offset_bytes; /* those that touch that range alone; bytes is 0: all */
    uint64_t bytes;
    uint64_t seen;
};

struct sim_member {
    struct sim_member_options options;
    struct sim_cache cache;
    struct list_node flights;
    struct prng latency;
    struct prng chance; /* what becomes of writes that fail, garbage */
    bool gone;
    bool hung;
    bool read_only;
    uint64_t factor;
    uint64_t free_ns;    /* with a rate: when it is through with all that is in flight */
    uint64_t head_bytes; /* likewise: where the last of that ends */
    struct sim_calls fails[IO_ZERO + 1];
    struct sim_calls goes_astray; /* writes */
    uint64_t shift_bytes;         /* 0: those are lost */
};

struct sim_lane {
    struct io io;
    struct sim *sim;
    uint32_t index;
    struct list_node timers;
    struct io_timer wake;      /* among `timers`, and armed, while one is pending */
    struct list_node finished; /* to be reported */
    uint64_t outstanding;      /* submitted, not reported */
};

/* A fault that waits for its time or event. */
struct sim_armed {
    struct sim_event event;
    struct sim_fault fault;
    bool used;
};

struct sim {
    struct sim_clock clock;
    struct sim_trace trace;
    struct sim_pool pool;
    struct sim_store *store;
    uint64_t seed;
    uint64_t event_count;
    uint64_t submit_count;
    uint64_t write_count;
    uint32_t lane_count;
    struct sim_lane lanes[SIM_LANES_MAX];
    struct sim_armed armed[SIM_FAULTS_MAX];
    struct sim_flight *flights; /* requests_max */
    struct list_node free_flights;
    struct sim_member members[]; /* as many as the store has */
};

/* `value`: a result; of SUBMIT a hash of what is written, of LATE the sectors that landed. */
void sim_trace_flight(struct sim *sim, enum sim_trace_kind kind, const struct sim_flight *flight,
                      int64_t value);
/* TIMER or WAKE. */
void sim_trace_timer(struct sim *sim, enum sim_trace_kind kind, uint32_t lane);
void sim_trace_fault(struct sim *sim, const struct sim_fault *fault);

/* What becomes of writes that may or may not have made it to where they should: each is
 * kept whole, lost whole, or torn, each sector of it by the toss of a coin. */
enum sim_fate_kind {
    SIM_LOST,
    SIM_KEPT,
    SIM_TORN,
    SIM_FATE_KINDS,
};

struct sim_fate {
    struct prng *prng;
    uint64_t write; /* the one that `kind` was drawn for; 0: none yet, writes count from 1 */
    enum sim_fate_kind kind;
};

/* To be asked sector after sector, the sectors of a write together. */
bool sim_fate_keeps(struct sim_fate *fate, uint64_t write);

/* Resolve a member's cache as a crash does, by the member's own chance. */
void sim_member_lose_power(struct sim_member *member);

#endif
