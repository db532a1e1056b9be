/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.c - the backend: requests, lanes, faults.
 *
 *   submit() --> flight: data copied, time drawn, in the event queue at the earlier of
 *                        when it is due and its deadline
 *
 *      due first       carry_out() --> finished --> done(), when its lane is run
 *      deadline first  -ETIMEDOUT  --> finished --> done();  a write stays in flight without
 *                      its request, and land_late() lets it land some time, if it is to
 *
 * Results that depend on the state of the member (gone, read-only, the Nth call) are
 * decided at submission; what fails then has its time as well.  A member that vanishes
 * decides for all that is in flight there.
 *
 * Timers stay in a list for each lane, since their order among equals is that of arming
 * and nothing else needs to find them; at one instant, events go before timers and lower
 * lanes before higher ones.  A wake is a timer like the others, so all that holds for it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/io_clock.h"
#include "sim/internal.h"
#include "util/checked.h"
#include "util/compiler.h"
#include "util/endian.h"

#define REQUESTS_DEFAULT 1024
#define SECTORS_DEFAULT  65536
#define LATENCY_NS_MAX   (1000 * IO_SECOND_NS)
#define RATE_MAX         (UINT64_MAX / IO_SECOND_NS) /* bytes per s: a second's worth doesn't overflow */
#define FACTOR_MAX       1000000
#define MEMBER_STREAMS   2 /* latency, chance */

static struct sim_lane *lane_of(struct io *io)
{
    return CONTAINER_OF(io, struct sim_lane, io);
}

static struct sim_flight *flight_of(struct list_node *node)
{
    return CONTAINER_OF(node, struct sim_flight, link);
}

static bool changes_contents(enum io_kind kind)
{
    return kind == IO_WRITE || kind == IO_ZERO;
}

/* ---- submission ---- */

static struct sim_flight *take_flight(struct sim *sim)
{
    assert(!list_empty(&sim->free_flights)); /* more than requests_max are in flight */
    struct sim_flight *flight = flight_of(sim->free_flights.next);

    list_remove(&flight->link);
    return flight;
}

static void give_flight(struct sim *sim, struct sim_flight *flight)
{
    struct sim_cache *cache = &sim->members[flight->member].cache;

    while (!list_empty(&flight->entries))
        sim_cache_drop(cache, CONTAINER_OF(flight->entries.next, struct sim_entry, link));
    list_remove(&flight->link);
    list_append(&sim->free_flights, &flight->link);
}

/* A cache without room makes some by itself, as a real one does. */
static struct sim_entry *take_entry(struct sim *sim, struct sim_cache *cache)
{
    struct sim_entry *entry = sim_pool_take(&sim->pool);
    bool made = entry != NULL || sim_cache_destage_one(cache);

    for (uint32_t m = 0; !made && m < sim->store->count; m++)
        made = sim_cache_destage_one(&sim->members[m].cache);
    assert(made); /* more than sectors_max are in flight */
    return entry != NULL ? entry : sim_pool_take(&sim->pool);
}

static struct sim_entry *add_entry(struct sim *sim, struct sim_flight *flight, uint64_t sector,
                                   uint64_t sector_count)
{
    struct sim_entry *entry = take_entry(sim, &sim->members[flight->member].cache);

    entry->sector = sector;
    entry->sector_count = sector_count;
    entry->landed = 0;
    entry->write = sim->write_count;
    entry->zeros = flight->kind == IO_ZERO;
    list_append(&flight->entries, &entry->link);
    return entry;
}

/* The next bytes of a request's buffers. */
struct cursor {
    const struct iovec *iov;
    size_t used_bytes;
};

static void gather(struct cursor *cursor, uint8_t *to, size_t bytes)
{
    while (bytes > 0) {
        const size_t piece = MIN(bytes, cursor->iov->iov_len - cursor->used_bytes);
        if (piece == 0) {
            cursor->iov++;
            cursor->used_bytes = 0;
            continue;
        }
        memcpy(to, (const uint8_t *)cursor->iov->iov_base + cursor->used_bytes, piece);
        to += piece;
        bytes -= piece;
        cursor->used_bytes += piece;
    }
}

/* Whether it is one of them. */
static bool is_called(struct sim_calls *calls, const struct sim_flight *flight)
{
    if (calls->bytes != 0 && (flight->offset_bytes >= calls->offset_bytes + calls->bytes ||
                              flight->offset_bytes + flight->bytes <= calls->offset_bytes))
        return false;
    const uint64_t call = calls->seen++;
    return call >= calls->from && call - calls->from < calls->count;
}

/* Where a write really goes.  False: nowhere. */
static bool find_sector(struct sim_member *member, const struct sim_flight *flight,
                        uint64_t *sector)
{
    const uint64_t length_bytes = member->cache.durable->length_bytes;
    uint64_t offset_bytes = flight->offset_bytes;

    if (flight->kind == IO_WRITE && is_called(&member->goes_astray, flight)) {
        if (member->shift_bytes == 0)
            return false;
        offset_bytes = MIN(offset_bytes + member->shift_bytes, length_bytes - flight->bytes);
    }
    *sector = offset_bytes / SIM_SECTOR_BYTES;
    return true;
}

/* Copy what is to be written: a write that is given up must not look at its buffers later.
 * Returns 0 or -ENOMEM; *hash is of the data. */
static int capture(struct sim *sim, struct sim_flight *flight, uint64_t *hash)
{
    const uint64_t sector_count = flight->bytes / SIM_SECTOR_BYTES;
    const bool zeros = flight->kind == IO_ZERO;
    struct cursor cursor = {.iov = flight->request->iov};
    uint64_t sector;

    assert(flight->offset_bytes % SIM_SECTOR_BYTES == 0 && flight->bytes % SIM_SECTOR_BYTES == 0);
    sim->write_count++;
    if (sector_count == 0 || !find_sector(&sim->members[flight->member], flight, &sector))
        return 0;
    if (sim_cache_prepare(&sim->members[flight->member].cache, sector, sector_count, zeros) < 0)
        return -ENOMEM;
    if (zeros) {
        (void)add_entry(sim, flight, sector, sector_count);
        return 0;
    }
    for (uint64_t s = 0; s < sector_count; s++) {
        struct sim_entry *entry = add_entry(sim, flight, sector + s, 1);
        gather(&cursor, entry->bytes, SIM_SECTOR_BYTES);
        for (uint32_t b = 0; b < SIM_SECTOR_BYTES; b += 8)
            *hash = prng_mix(*hash + le64_get(entry->bytes + b));
    }
    return 0;
}

/* What the request is to end with, as far as that is known now. */
static int judge(struct sim_member *member, const struct sim_flight *flight)
{
    const bool fails = is_called(&member->fails[flight->kind], flight);

    if (member->gone)
        return -ENODEV;
    if (flight->kind != IO_FLUSH &&
        !checked_inside(flight->offset_bytes, flight->bytes, member->cache.durable->length_bytes))
        return -ENXIO;
    if (member->read_only && changes_contents(flight->kind))
        return -EROFS;
    return fails ? -EIO : 0;
}

static uint64_t draw_latency_ns(struct sim_member *member, enum io_kind kind)
{
    const struct sim_member_options *options = &member->options;
    const bool flush = kind == IO_FLUSH;

    return member->factor * prng_between(&member->latency,
                                         flush ? options->flush_ns_min : options->latency_ns_min,
                                         flush ? options->flush_ns_max : options->latency_ns_max);
}

static uint64_t transfer_ns(const struct sim_member *member, uint64_t bytes)
{
    const uint64_t rate = member->options.bytes_per_s;

    return bytes / rate * IO_SECOND_NS + bytes % rate * IO_SECOND_NS / rate;
}

/* When a request that sets off now is due. */
static uint64_t due_ns(const struct sim *sim, struct sim_member *member,
                       const struct sim_flight *flight)
{
    const uint64_t now_ns = sim->clock.now_ns;
    const uint64_t latency_ns = draw_latency_ns(member, flight->kind);
    uint64_t service_ns = 0;

    if (member->options.bytes_per_s == 0)
        return now_ns + latency_ns;
    if (flight->kind != IO_FLUSH) {
        service_ns = transfer_ns(member, flight->bytes);
        if (flight->offset_bytes != member->head_bytes)
            service_ns += member->options.seek_ns;
        member->head_bytes = flight->offset_bytes + flight->bytes;
    }
    member->free_ns = MAX(member->free_ns, now_ns) + latency_ns + member->factor * service_ns;
    return member->free_ns;
}

/* (Again) into the queue: when it is due, or at the deadline of whoever still waits. */
static void schedule(struct sim *sim, struct sim_flight *flight)
{
    const uint64_t deadline_ns = flight->request != NULL ? flight->deadline_ns : IO_NEVER;

    sim_clock_insert(&sim->clock, &flight->event, MIN(flight->due_ns, deadline_ns));
}

static void reschedule(struct sim *sim, struct sim_flight *flight, uint64_t due_ns)
{
    sim_clock_remove(&sim->clock, &flight->event);
    flight->due_ns = due_ns;
    schedule(sim, flight);
}

static void lane_submit(struct io *io, struct io_request *request)
{
    struct sim_lane *lane = lane_of(io);
    struct sim *sim = lane->sim;
    uint64_t hash = 0;

    assert(request->member < sim->store->count);
    struct sim_member *member = &sim->members[request->member];
    struct sim_flight *flight = take_flight(sim);
    *flight = (struct sim_flight){
        .request = request,
        .number = sim->submit_count++,
        .lane = lane->index,
        .member = request->member,
        .kind = request->kind,
        .fua = request->kind == IO_WRITE && request->fua,
        .offset_bytes = request->offset_bytes,
        .bytes = io_request_bytes(request),
        .deadline_ns = request->deadline_ns,
        .flush_landed = member->cache.landed,
    };
    flight->due_ns = due_ns(sim, member, flight);
    list_init(&flight->entries);
    list_append(&member->flights, &flight->link);
    lane->outstanding++;

    flight->result = judge(member, flight);
    if (changes_contents(flight->kind) && (flight->result == 0 || flight->result == -EIO)) {
        const int captured = capture(sim, flight, &hash);
        if (captured < 0)
            flight->result = captured;
    }
    if (member->hung && !member->gone)
        flight->due_ns = IO_NEVER;
    schedule(sim, flight);
    sim_trace_flight(sim, SIM_TRACE_SUBMIT, flight, (int64_t)hash);
}

/* ---- what becomes of a request ---- */

/* Let a write that went wrong land as chance will have it; returns how many sectors did. */
static uint64_t land_some(struct sim *sim, struct sim_flight *flight)
{
    struct sim_member *member = &sim->members[flight->member];
    struct sim_fate fate = {.prng = &member->chance};
    struct list_node kept;
    uint64_t sectors = 0;

    list_init(&kept);
    while (!list_empty(&flight->entries)) {
        struct sim_entry *entry = CONTAINER_OF(flight->entries.next, struct sim_entry, link);

        if (!sim_fate_keeps(&fate, entry->write)) {
            sim_cache_drop(&member->cache, entry);
            continue;
        }
        if (fate.kind == SIM_TORN) /* of a zero, which is one entry, the beginning */
            entry->sector_count = prng_between(&member->chance, 1, entry->sector_count);
        sectors += entry->sector_count;
        list_remove(&entry->link);
        list_append(&kept, &entry->link);
    }
    if (sectors > 0)
        sim_cache_land(&member->cache, &kept, member->options.write_through);
    return sectors;
}

/* A flush failed: of what it should have made durable, some never will be. */
static void forget_some(struct sim_member *member, uint64_t up_to_landed)
{
    struct sim_fate fate = {.prng = &member->chance};
    struct list_node *node = member->cache.pending.next;

    while (node != &member->cache.pending) {
        struct sim_entry *entry = CONTAINER_OF(node, struct sim_entry, link);
        node = node->next;
        if (entry->landed <= up_to_landed && !sim_fate_keeps(&fate, entry->write))
            sim_cache_drop(&member->cache, entry);
    }
}

static void read_contents(const struct sim_flight *flight, const struct sim_cache *cache)
{
    uint64_t offset_bytes = flight->offset_bytes;

    for (uint32_t i = 0; i < flight->request->iov_count; i++) {
        const struct iovec *iov = &flight->request->iov[i];
        sim_cache_read(cache, offset_bytes, iov->iov_base, iov->iov_len);
        offset_bytes += iov->iov_len;
    }
}

static void read_garbage(struct sim *sim, const struct sim_flight *flight)
{
    struct prng *chance = &sim->members[flight->member].chance;

    for (uint32_t i = 0; flight->kind == IO_READ && i < flight->request->iov_count; i++)
        if (flight->request->iov[i].iov_len > 0)
            memset(flight->request->iov[i].iov_base, (int)prng_below(chance, 256),
                   flight->request->iov[i].iov_len);
}

/* A disk may fetch what it writes at any time until it says that it is done.  If the caller has changed
 * it meanwhile, what was there last is what lands. */
static void fetch_again(struct sim_flight *flight)
{
    struct cursor cursor = {.iov = flight->request->iov};

    for (struct list_node *node = flight->entries.next; node != &flight->entries; node = node->next)
        gather(&cursor, CONTAINER_OF(node, struct sim_entry, link)->bytes, SIM_SECTOR_BYTES);
}

/* Do at its time what the request asks for; returns its result. */
static int carry_out(struct sim *sim, struct sim_flight *flight)
{
    struct sim_member *member = &sim->members[flight->member];
    struct sim_cache *cache = &member->cache;

    if (flight->result == 0 && flight->kind == IO_READ &&
        sim_cache_is_bad(cache, flight->offset_bytes, flight->bytes))
        flight->result = -EIO;
    if (flight->result != 0) {
        (void)land_some(sim, flight);
        read_garbage(sim, flight);
        if (flight->kind == IO_FLUSH && flight->result == -EIO)
            forget_some(member, flight->flush_landed);
        return flight->result;
    }
    switch (flight->kind) {
    case IO_READ:
        read_contents(flight, cache);
        break;
    case IO_WRITE:
        fetch_again(flight);
        sim_cache_land(cache, &flight->entries, flight->fua || member->options.write_through);
        break;
    case IO_ZERO:
        sim_cache_land(cache, &flight->entries, member->options.write_through);
        break;
    case IO_FLUSH:
        sim_cache_destage(cache, flight->flush_landed);
        break;
    }
    return 0;
}

static void finish(struct sim *sim, struct sim_flight *flight, int result)
{
    io_finish(&sim->lanes[flight->lane].finished, flight->request, result);
    flight->request = NULL;
}

static void complete(struct sim *sim, struct sim_flight *flight)
{
    const int result = carry_out(sim, flight);

    sim_trace_flight(sim, SIM_TRACE_COMPLETE, flight, result);
    finish(sim, flight, result);
    give_flight(sim, flight);
}

static void give_up(struct sim *sim, struct sim_flight *flight)
{
    sim_trace_flight(sim, SIM_TRACE_DEADLINE, flight, -ETIMEDOUT);
    read_garbage(sim, flight);
    finish(sim, flight, -ETIMEDOUT);
    if (list_empty(&flight->entries))
        give_flight(sim, flight);
    else
        schedule(sim, flight);
}

static void land_late(struct sim *sim, struct sim_flight *flight)
{
    sim_trace_flight(sim, SIM_TRACE_LATE, flight, (int64_t)land_some(sim, flight));
    give_flight(sim, flight);
}

/* ---- faults ---- */

/* For each flight of the member, which may go away by that. */
static void for_each_flight(struct sim *sim, struct sim_member *member,
                            void (*change)(struct sim *sim, struct sim_flight *flight))
{
    struct list_node *node = member->flights.next;

    while (node != &member->flights) {
        struct sim_flight *flight = flight_of(node);
        node = node->next;
        change(sim, flight);
    }
}

static void cut_off(struct sim *sim, struct sim_flight *flight)
{
    (void)land_some(sim, flight);
    if (flight->request == NULL) {
        sim_clock_remove(&sim->clock, &flight->event);
        give_flight(sim, flight);
        return;
    }
    flight->result = -ENODEV;
    reschedule(sim, flight, flight->due_ns == IO_NEVER ? sim->clock.now_ns : flight->due_ns);
}

static void hold(struct sim *sim, struct sim_flight *flight)
{
    reschedule(sim, flight, IO_NEVER);
}

static void set_off(struct sim *sim, struct sim_flight *flight)
{
    struct sim_member *member = &sim->members[flight->member];

    if (flight->due_ns == IO_NEVER)
        reschedule(sim, flight, due_ns(sim, member, flight));
}

static void vanish(struct sim *sim, struct sim_member *member)
{
    if (!member->gone)
        for_each_flight(sim, member, cut_off);
    member->gone = true;
}

static void come_back(struct sim *sim, struct sim_member *member)
{
    if (member->gone || member->hung)
        member->free_ns = sim->clock.now_ns;
    member->gone = false;
    member->hung = false;
    member->read_only = false;
    member->factor = 1;
    for_each_flight(sim, member, set_off);
}

static int apply_fault(struct sim *sim, const struct sim_fault *fault)
{
    struct sim_member *member = &sim->members[fault->member];
    const struct sim_calls calls = {.from = fault->nth - 1, .count = fault->count};

    sim_trace_fault(sim, fault);
    switch (fault->kind) {
    case SIM_FAIL:
        member->fails[fault->io_kind] = calls;
        member->fails[fault->io_kind].offset_bytes = fault->offset_bytes;
        member->fails[fault->io_kind].bytes = fault->bytes;
        break;
    case SIM_LOSE:
    case SIM_MISDIRECT:
        member->goes_astray = calls;
        member->shift_bytes = fault->kind == SIM_LOSE ? 0 : fault->bytes;
        break;
    case SIM_FLIP:
        return sim_cache_flip(&member->cache, fault->offset_bytes / SIM_SECTOR_BYTES,
                              fault->bytes / SIM_SECTOR_BYTES);
    case SIM_BAD:
        return sim_cache_make_bad(&member->cache, fault->offset_bytes / SIM_SECTOR_BYTES,
                                  fault->bytes / SIM_SECTOR_BYTES);
    case SIM_VANISH:
        vanish(sim, member);
        break;
    case SIM_POWER_LOSS:
        vanish(sim, member);
        sim_member_lose_power(member);
        break;
    case SIM_HANG:
        if (!member->gone && !member->hung)
            for_each_flight(sim, member, hold);
        member->hung = true;
        break;
    case SIM_READ_ONLY:
        member->read_only = true;
        break;
    case SIM_SLOW:
        member->factor = fault->factor;
        break;
    case SIM_RETURN:
        come_back(sim, member);
        break;
    }
    return 0;
}

static bool has_range(const struct sim_fault *fault)
{
    return fault->kind == SIM_BAD || fault->kind == SIM_FLIP;
}

static void check_fault(const struct sim *sim, const struct sim_fault *fault)
{
    const bool counts =
        fault->kind == SIM_FAIL || fault->kind == SIM_LOSE || fault->kind == SIM_MISDIRECT;

    assert(fault->member < sim->store->count);
    assert(!counts || fault->nth >= 1);
    assert(fault->kind != SIM_SLOW || (fault->factor >= 1 && fault->factor <= FACTOR_MAX));
    assert(fault->kind != SIM_MISDIRECT ||
           (fault->bytes > 0 && fault->bytes % SIM_SECTOR_BYTES == 0));
    assert(!has_range(fault) || fault->offset_bytes % SIM_SECTOR_BYTES == 0);
    assert(!has_range(fault) || fault->bytes % SIM_SECTOR_BYTES == 0);
    assert(!has_range(fault) || checked_inside(fault->offset_bytes, fault->bytes,
                                               sim_store_length_bytes(sim->store, fault->member)));
}

/* The pages of a range that turns bad, or another one, are made now, when it can still be said
 * that there is no memory for them. */
static int prepare_fault(struct sim *sim, const struct sim_fault *fault)
{
    if (!has_range(fault) || fault->bytes == 0)
        return 0;
    return sim_cache_prepare(&sim->members[fault->member].cache,
                             fault->offset_bytes / SIM_SECTOR_BYTES,
                             fault->bytes / SIM_SECTOR_BYTES, false);
}

int sim_inject(struct sim *sim, const struct sim_fault *fault)
{
    uint32_t slot = 0;

    check_fault(sim, fault);
    if (prepare_fault(sim, fault) < 0)
        return -ENOMEM;
    if (fault->by_event ? fault->at_event <= sim->event_count : fault->at_ns <= sim->clock.now_ns)
        return apply_fault(sim, fault);

    while (slot < SIM_FAULTS_MAX && sim->armed[slot].used)
        slot++;
    assert(slot < SIM_FAULTS_MAX);
    struct sim_armed *armed = &sim->armed[slot];
    *armed = (struct sim_armed){.fault = *fault, .used = true, .event = {.is_fault = true}};
    if (!fault->by_event)
        sim_clock_insert(&sim->clock, &armed->event, fault->at_ns);
    return 0;
}

static void strike(struct sim *sim, struct sim_armed *armed)
{
    armed->used = false;
    (void)apply_fault(sim, &armed->fault); /* it can't fail: see prepare_fault() */
}

static void strike_by_event(struct sim *sim)
{
    for (uint32_t i = 0; i < SIM_FAULTS_MAX; i++) {
        struct sim_armed *armed = &sim->armed[i];
        if (armed->used && armed->fault.by_event && armed->fault.at_event <= sim->event_count)
            strike(sim, armed);
    }
}

/* ---- running ---- */

/* What happens next. */
struct turn {
    uint64_t at_ns;          /* IO_NEVER: nothing */
    struct sim_event *event; /* or, if NULL, */
    struct sim_lane *lane;   /* whose first timer it is */
};

/* `only`: no timers but those of this lane; NULL: of all. */
static struct turn next_turn(struct sim *sim, const struct sim_lane *only)
{
    struct sim_event *event = sim_clock_first(&sim->clock);
    struct turn turn = {.at_ns = event != NULL ? event->at_ns : IO_NEVER, .event = event};

    for (uint32_t i = 0; i < sim->lane_count; i++) {
        struct sim_lane *lane = &sim->lanes[i];
        const uint64_t at_ns = io_timers_next_ns(&lane->timers);
        if ((only == NULL || only == lane) && at_ns < turn.at_ns)
            turn = (struct turn){.at_ns = at_ns, .lane = lane};
    }
    return turn;
}

/* Returns whether a callback was made: a wake may find nobody. */
static bool fire_first(struct sim_lane *lane)
{
    struct io_timer *timer = CONTAINER_OF(lane->timers.next, struct io_timer, link);
    const bool is_wake = timer == &lane->wake;

    io_timers_stop(timer);
    sim_trace_timer(lane->sim, is_wake ? SIM_TRACE_WAKE : SIM_TRACE_TIMER, lane->index);
    if (is_wake)
        return io_fire_woken(&lane->io) == 1;
    timer->fire(timer);
    return true;
}

static void run_event(struct sim *sim, struct sim_event *event)
{
    sim_clock_remove(&sim->clock, event);
    if (event->is_fault) {
        strike(sim, CONTAINER_OF(event, struct sim_armed, event));
        return;
    }
    struct sim_flight *flight = CONTAINER_OF(event, struct sim_flight, event);
    if (flight->request == NULL)
        land_late(sim, flight);
    else if (flight->due_ns <= flight->deadline_ns)
        complete(sim, flight);
    else
        give_up(sim, flight);
}

/* Returns whether a callback was made; completions only get as far as `finished`. */
static bool take_turn(struct sim *sim, const struct turn *turn)
{
    sim_clock_advance(&sim->clock, turn->at_ns);
    sim->event_count++;
    if (turn->event == NULL)
        return fire_first(turn->lane);
    run_event(sim, turn->event);
    return false;
}

static bool report_one(struct sim_lane *lane)
{
    struct list_node one;

    if (list_empty(&lane->finished))
        return false;
    list_init(&one);
    struct list_node *node = lane->finished.next;
    list_remove(node);
    list_append(&one, node);
    lane->outstanding--;
    return io_report(&one) == 1;
}

static uint32_t lane_run(struct io *io, uint64_t wait_until_ns)
{
    struct sim_lane *lane = lane_of(io);
    struct sim *sim = lane->sim;

    for (;;) {
        strike_by_event(sim);
        if (report_one(lane))
            return 1;
        const struct turn turn = next_turn(sim, lane);
        const bool now = turn.at_ns <= sim->clock.now_ns;
        if (turn.at_ns == IO_NEVER || (!now && turn.at_ns > wait_until_ns)) {
            if (wait_until_ns != IO_NEVER)
                sim_clock_advance(&sim->clock, wait_until_ns);
            return 0;
        }
        if (take_turn(sim, &turn))
            return 1;
    }
}

static bool report_any(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->lane_count; i++)
        if (report_one(&sim->lanes[i]))
            return true;
    return false;
}

bool sim_step(struct sim *sim)
{
    strike_by_event(sim);
    if (report_any(sim))
        return true;
    const struct turn turn = next_turn(sim, NULL);
    if (turn.at_ns == IO_NEVER)
        return false;
    (void)take_turn(sim, &turn);
    (void)report_any(sim);
    return true;
}

static uint64_t lane_now(struct io *io)
{
    return lane_of(io)->sim->clock.now_ns;
}

static void lane_timer_start(struct io *io, struct io_timer *timer)
{
    io_timers_start(&lane_of(io)->timers, timer);
}

static void lane_timer_stop(struct io *io, struct io_timer *timer)
{
    (void)io;
    io_timers_stop(timer);
}

static void lane_wake(struct io *io)
{
    struct sim_lane *lane = lane_of(io);

    if (lane->wake.armed)
        return;
    lane->wake.at_ns = lane->sim->clock.now_ns;
    io_timers_start(&lane->timers, &lane->wake);
}

static void lane_destroy(struct io *io)
{
    io_timers_stop(&lane_of(io)->wake);
    assert(lane_of(io)->outstanding == 0);
    assert(list_empty(&lane_of(io)->timers));
}

static const struct io_ops lane_ops = {
    .name = "sim",
    .submit = lane_submit,
    .run = lane_run,
    .now = lane_now,
    .timer_start = lane_timer_start,
    .timer_stop = lane_timer_stop,
    .wake = lane_wake,
    .destroy = lane_destroy,
};

/* ---- the world ---- */

static void init_lanes(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->lane_count; i++) {
        struct sim_lane *lane = &sim->lanes[i];
        lane->io.ops = &lane_ops;
        lane->sim = sim;
        lane->index = i;
        list_init(&lane->timers);
        list_init(&lane->finished);
    }
}

static int init_member(struct sim *sim, uint32_t m, const struct sim_member_options *options)
{
    struct sim_member *member = &sim->members[m];
    struct sim_pages *durable = &sim->store->members[m];

    assert(options->latency_ns_min <= options->latency_ns_max);
    assert(options->flush_ns_min <= options->flush_ns_max);
    assert(MAX(options->latency_ns_max, options->flush_ns_max) <= LATENCY_NS_MAX);
    assert(options->seek_ns <= LATENCY_NS_MAX && options->bytes_per_s <= RATE_MAX);
    member->options = *options;
    member->factor = 1;
    list_init(&member->flights);
    list_init(&member->cache.pending);
    prng_init(&member->latency, sim->seed, MEMBER_STREAMS * (uint64_t)m);
    prng_init(&member->chance, sim->seed, MEMBER_STREAMS * (uint64_t)m + 1);
    member->cache.pool = &sim->pool;
    member->cache.durable = durable;
    /* Landings count from the beginning of a sim; what is there is older than all of them. */
    for (uint64_t p = sim_pages_next(durable, 0); p != SIM_NO_PAGE;
         p = sim_pages_next(durable, p + 1))
        memset(sim_pages_get(durable, p)->landed, 0, sizeof(struct sim_page){0}.landed);
    return sim_pages_init(&member->cache.newest, durable->length_bytes);
}

static int init_flights(struct sim *sim, uint32_t count)
{
    list_init(&sim->free_flights);
    sim->flights = calloc(count, sizeof sim->flights[0]);
    if (sim->flights == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < count; i++)
        list_append(&sim->free_flights, &sim->flights[i].link);
    return sim_clock_init(&sim->clock, count + SIM_FAULTS_MAX);
}

int sim_create(const struct sim_options *options, struct sim_store *store, struct sim **out)
{
    const uint32_t requests = options->requests_max != 0 ? options->requests_max : REQUESTS_DEFAULT;
    const uint32_t sectors = options->sectors_max != 0 ? options->sectors_max : SECTORS_DEFAULT;
    struct sim *sim = calloc(1, sizeof *sim + store->count * sizeof sim->members[0]);

    assert(options->lane_count >= 1 && options->lane_count <= SIM_LANES_MAX);
    if (sim == NULL)
        return -ENOMEM;
    sim->store = store;
    sim->seed = options->seed;
    sim->lane_count = options->lane_count;
    sim->trace.log = options->log;
    sim->trace.log_context = options->log_context;
    init_lanes(sim);
    int result = init_flights(sim, requests);
    if (result == 0)
        result = sim_pool_init(&sim->pool, sectors);
    for (uint32_t m = 0; result == 0 && m < store->count; m++)
        result = init_member(sim, m, &options->members[m]);
    if (result < 0) {
        sim_destroy(sim);
        return result;
    }
    *out = sim;
    return 0;
}

void sim_destroy(struct sim *sim)
{
    if (sim == NULL)
        return;
    for (uint32_t m = 0; m < sim->store->count; m++)
        sim_pages_free(&sim->members[m].cache.newest);
    free(sim->pool.entries);
    free(sim->clock.heap);
    free(sim->flights);
    free(sim);
}

struct io *sim_lane(struct sim *sim, uint32_t lane)
{
    assert(lane < sim->lane_count);
    return &sim->lanes[lane].io;
}

uint64_t sim_now_ns(const struct sim *sim)
{
    return sim->clock.now_ns;
}

uint64_t sim_event_count(const struct sim *sim)
{
    return sim->event_count;
}

uint64_t sim_request_count(const struct sim *sim)
{
    return sim->submit_count;
}

uint64_t sim_trace_hash(const struct sim *sim)
{
    return sim->trace.hash;
}

void sim_peek(const struct sim *sim, uint32_t member, uint64_t offset_bytes, void *to, size_t bytes)
{
    assert(checked_inside(offset_bytes, bytes, sim_store_length_bytes(sim->store, member)));
    sim_cache_read(&sim->members[member].cache, offset_bytes, to, bytes);
}
