/* SPDX-License-Identifier: BSD-2-Clause */
/* sim_trace.c - what happened, as a hash that runs along and as text if somebody wants it.
 *
 * The hash is over the numbers, not over memory or text: it is the same on every machine,
 * and costs next to nothing where nobody reads along. */
#include "sim/internal.h"

#include <inttypes.h>

#include "io/io_clock.h"
#include "util/compiler.h"
#include "util/text.h"

#define LINE_BYTES 200

static const char *const trace_names[] = {
    [SIM_TRACE_SUBMIT] = "submit",     [SIM_TRACE_COMPLETE] = "complete",
    [SIM_TRACE_DEADLINE] = "deadline", [SIM_TRACE_LATE] = "late",
    [SIM_TRACE_TIMER] = "timer",       [SIM_TRACE_FAULT] = "fault",
    [SIM_TRACE_WAKE] = "wake",
};

static const char *const io_names[] = {
    [IO_READ] = "read",
    [IO_WRITE] = "write",
    [IO_FLUSH] = "flush",
    [IO_ZERO] = "zero",
};

static const char *const fault_names[] = {
    [SIM_FAIL] = "fail",
    [SIM_LOSE] = "lose",
    [SIM_MISDIRECT] = "misdirect",
    [SIM_FLIP] = "flip",
    [SIM_BAD] = "bad",
    [SIM_VANISH] = "vanish",
    [SIM_POWER_LOSS] = "power-loss",
    [SIM_HANG] = "hang",
    [SIM_READ_ONLY] = "read-only",
    [SIM_SLOW] = "slow",
    [SIM_RETURN] = "return",
};

static void fold(struct sim *sim, enum sim_trace_kind kind, const uint64_t *numbers, size_t count)
{
    uint64_t hash = sim->trace.hash;

    hash = prng_mix(hash + (uint64_t)kind);
    hash = prng_mix(hash + sim->clock.now_ns);
    hash = prng_mix(hash + sim->event_count);
    for (size_t i = 0; i < count; i++)
        hash = prng_mix(hash + numbers[i]);
    sim->trace.hash = hash;
}

/* "1.000000200 #17 submit" */
static void begin_line(const struct sim *sim, enum sim_trace_kind kind, struct text *line,
                       char *bytes)
{
    text_init(line, bytes, LINE_BYTES);
    text_add(line, "%" PRIu64 ".%09" PRIu64 " #%" PRIu64 " %s", sim->clock.now_ns / IO_SECOND_NS,
             sim->clock.now_ns % IO_SECOND_NS, sim->event_count, trace_names[kind]);
}

static void log_line(const struct sim *sim, const struct text *line)
{
    sim->trace.log(sim->trace.log_context, line->bytes);
}

static void log_flight(const struct sim *sim, enum sim_trace_kind kind,
                       const struct sim_flight *flight, int64_t value)
{
    char bytes[LINE_BYTES];
    struct text line;

    begin_line(sim, kind, &line, bytes);
    text_add(&line, " request %" PRIu64 " lane %" PRIu32 " member %" PRIu32 " %s", flight->number,
             flight->lane, flight->member, io_names[flight->kind]);
    if (flight->kind != IO_FLUSH)
        text_add(&line, " %" PRIu64 "+%" PRIu64, flight->offset_bytes, flight->bytes);
    if (flight->fua)
        text_add(&line, " fua");
    if (kind != SIM_TRACE_SUBMIT)
        text_add(&line, ": %" PRId64, value);
    else if (flight->kind == IO_WRITE)
        text_add(&line, " data %016" PRIx64, (uint64_t)value);
    log_line(sim, &line);
}

void sim_trace_flight(struct sim *sim, enum sim_trace_kind kind, const struct sim_flight *flight,
                      int64_t value)
{
    const uint64_t numbers[] = {
        flight->number,       flight->lane,  flight->member, flight->kind,
        flight->offset_bytes, flight->bytes, flight->fua,    (uint64_t)value,
    };

    fold(sim, kind, numbers, ARRAY_COUNT(numbers));
    if (sim->trace.log != NULL)
        log_flight(sim, kind, flight, value);
}

void sim_trace_timer(struct sim *sim, enum sim_trace_kind kind, uint32_t lane)
{
    const uint64_t numbers[] = {lane};
    char bytes[LINE_BYTES];
    struct text line;

    fold(sim, kind, numbers, ARRAY_COUNT(numbers));
    if (sim->trace.log == NULL)
        return;
    begin_line(sim, kind, &line, bytes);
    text_add(&line, " lane %" PRIu32, lane);
    log_line(sim, &line);
}

void sim_trace_fault(struct sim *sim, const struct sim_fault *fault)
{
    const uint64_t numbers[] = {
        fault->kind,  fault->member,       fault->io_kind, fault->nth,
        fault->count, fault->offset_bytes, fault->bytes,   fault->factor,
    };
    char bytes[LINE_BYTES];
    struct text line;

    fold(sim, SIM_TRACE_FAULT, numbers, ARRAY_COUNT(numbers));
    if (sim->trace.log == NULL)
        return;
    begin_line(sim, SIM_TRACE_FAULT, &line, bytes);
    text_add(&line, " %s member %" PRIu32, fault_names[fault->kind], fault->member);
    if (fault->kind == SIM_FAIL)
        text_add(&line, " %s", io_names[fault->io_kind]);
    if (fault->nth != 0)
        text_add(&line, " nth %" PRIu64 " count %" PRIu64, fault->nth, fault->count);
    if (fault->bytes != 0)
        text_add(&line, " %" PRIu64 "+%" PRIu64, fault->offset_bytes, fault->bytes);
    if (fault->kind == SIM_SLOW)
        text_add(&line, " factor %" PRIu64, fault->factor);
    log_line(sim, &line);
}
