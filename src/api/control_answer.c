/* SPDX-License-Identifier: BSD-2-Clause */
/* control_answer.c - what the control socket is asked, and answers. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/control.h"
#include "api/events.h"
#include "api/live.h"
#include "api/service.h"
#include "api/upkeep.h"
#include "util/error.h"

/* A request, on the service's thread. */
struct asked {
    struct service_call call; /* first, so that one is the other */
    const char *name;         /* of the array, as it is served */
    const char *in_use;       /* why it should not be stopped */
    const json_t *request;
    int fd;
    uint64_t from; /* events: see struct answer */
    json_t *result;
    struct braid_error error;
};

struct request_kind {
    const char *name;
    int (*run)(struct braid_array *array, struct asked *asked);
};

static const char *text_of(const struct asked *asked, const char *key)
{
    return json_string_value(json_object_get(asked->request, key));
}

/* What isn't there is false. */
static int get_flag(struct asked *asked, const char *key, bool *out)
{
    const json_t *value = json_object_get(asked->request, key);

    if (value != NULL && !json_is_boolean(value))
        return error_set(&asked->error, -EDOM, "%s: expected true or false", key);
    *out = json_is_true(value);
    return 0;
}

/* What isn't there is 0; what is no number isn't taken for one, or it would be the wrong range. */
static int get_count(struct asked *asked, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(asked->request, key);

    if (value != NULL && (!json_is_integer(value) || json_integer_value(value) < 0))
        return error_set(&asked->error, -EDOM, "%s: expected a whole number, 0 or more", key);
    *out = (uint64_t)json_integer_value(value);
    return 0;
}

static int done(struct asked *asked, const char *what)
{
    asked->result = json_pack("{s:s, s:s}", "schema", "braid.done.1", "done", what);
    return 0;
}

/* ---- asking ---- */

static int run_detail(struct braid_array *array, struct asked *asked)
{
    asked->result = detail_facts(array);
    return 0;
}

/* As in /proc/mdstat: U for a slot that is in sync, _ for one that isn't. */
static json_t *slots_text(const struct braid_array *array)
{
    char text[GEOMETRY_SLOTS_MAX + 1];

    for (uint32_t slot = 0; slot < array->shape.slot_count; slot++)
        text[slot] = array_slot_in_sync(array, slot) ? 'U' : '_';
    text[array->shape.slot_count] = '\0';
    return json_string(text);
}

static json_t *load_facts(const struct engine_load *load)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "reads", facts_count(load->reads), "read_bytes",
                     facts_count(load->read_bytes), "writes", facts_count(load->writes),
                     "written_bytes", facts_count(load->written_bytes), "errors",
                     facts_count(load->errors));
}

static json_t *member_states(const struct braid_array *array)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < array->member_count; i++) {
        const struct array_member *member = &array->members[i];
        const bool failed = atomic_load(&member->failed);
        struct engine_load load = {0};
        if (array->engine != NULL)
            engine_load(array->engine, i, &load);
        list = facts_append(
            list,
            json_pack("{s:o, s:o, s:s, s:o}", "member", facts_text(array_member_name(member)),
                      "slot",
                      member->slot == MD_SLOT_NONE ? json_null() : json_integer(member->slot),
                      "state", md_member_state_name(failed ? MD_MEMBER_FAULTY : member->state),
                      "load", load_facts(&load)));
    }
    for (uint32_t i = 0; i < array->gone_count; i++)
        list =
            facts_append(list, json_pack("{s:o, s:n, s:s, s:n}", "member",
                                         facts_text(array->gone[i].member->name), "slot", "state",
                                         md_member_state_name(MD_MEMBER_FAULTY), "load"));
    return list;
}

static int run_status(struct braid_array *array, struct asked *asked)
{
    const struct upkeep *upkeep = service_upkeep(array->service);
    const bool failed = atomic_load(&array->failed) || service_phase(array->service) == PHASE_OVER;
    const uint32_t degraded = array_degraded(array);
    char layout[64];

    shape_layout_name(&array->shape, layout, sizeof layout);
    asked->result = json_pack(
        "{s:s, s:s, s:I, s:s, s:o, s:o, s:I, s:s, s:b, s:I, s:o, s:o, s:s, s:o, s:o, s:o}",
        "schema", "braid.status.1", "name", asked->name, "pid", (json_int_t)getpid(), "level",
        level_name(array->shape.level), "layout", facts_text_or_null(layout), "array_bytes",
        facts_bytes(array->geometry->volume_sectors), "chunk_bytes",
        (json_int_t)array->shape.chunk_sectors * 512, "state",
        failed         ? "failed"
        : degraded > 0 ? "degraded"
                       : "optimal",
        "read_only", !array->options.writable, "degraded", (json_int_t)degraded, "slots",
        slots_text(array), "members", member_states(array), "backend",
        array->ios != NULL ? array->ios[0]->ops->name : "none", "activity", upkeep_facts(upkeep),
        "last_scrub", upkeep_scrub_facts(upkeep), "limit_bytes_per_s",
        facts_count(upkeep_limit_bytes_per_s(upkeep)));
    return 0;
}

/* ---- changing ---- */

static int need_member(const struct asked *asked, struct braid_error *err)
{
    return text_of(asked, "member") != NULL
               ? 0
               : error_set(err, -EDOM, "it isn't said which member is meant");
}

static int run_fail(struct braid_array *array, struct asked *asked)
{
    int result = need_member(asked, &asked->error);

    if (result == 0)
        result = live_fail(array, text_of(asked, "member"), &asked->error);
    return result == 0 ? done(asked, "fail") : result;
}

/* The newcomer, from what came with the request. */
static int adopt(struct asked *asked, const char *name, struct member **out)
{
    struct member_passed passed = {.name = name, .path = text_of(asked, "path")};
    const int fd = asked->fd;

    int result = get_count(asked, "offset_bytes", &passed.offset_bytes);
    if (result == 0)
        result = get_count(asked, "length_bytes", &passed.length_bytes);
    if (result < 0)
        return result;
    if (fd < 0)
        return error_set(&asked->error, -EBADF, "the new member wasn't passed as a descriptor");
    if ((fcntl(fd, F_GETFL) & O_APPEND) !=
        0) /* it would write behind the end, whatever the offset */
        return error_set(&asked->error, -EBADF, "%s is open for appending", name);
    asked->fd = -1;
    return member_adopt(fd, &passed, out, &asked->error);
}

static int run_join(struct braid_array *array, struct asked *asked, enum braid_change change)
{
    struct braid_change_options options = {
        .change = change,
        .member = text_of(asked, "member"),
        .new_member = text_of(asked, "new"),
    };
    const char *name = change == BRAID_ADD ? options.member : options.new_member;
    struct member *newcomer;

    if (name == NULL)
        return error_set(&asked->error, -EDOM, "it isn't said what the new member's name is");
    int result = need_member(asked, &asked->error);
    if (result == 0)
        result = get_flag(asked, "force", &options.force);
    if (result == 0)
        result = adopt(asked, name, &newcomer);
    if (result < 0)
        return result;
    result = live_change(array, &options, newcomer, &asked->error);
    if (result < 0)
        member_close(newcomer);
    return result == 0 ? done(asked, change == BRAID_ADD ? "add" : "replace") : result;
}

static int run_add(struct braid_array *array, struct asked *asked)
{
    return run_join(array, asked, BRAID_ADD);
}

static int run_replace(struct braid_array *array, struct asked *asked)
{
    return run_join(array, asked, BRAID_REPLACE);
}

static int run_remove(struct braid_array *array, struct asked *asked)
{
    const struct braid_change_options options = {.change = BRAID_REMOVE,
                                                 .member = text_of(asked, "member")};
    int result = need_member(asked, &asked->error);

    if (result == 0)
        result = live_change(array, &options, NULL, &asked->error);
    return result == 0 ? done(asked, "remove") : result;
}

static int run_rebuild(struct braid_array *array, struct asked *asked)
{
    if (!array->options.writable)
        return error_set(&asked->error, -EROFS, "the array is served read-only");
    upkeep_allow(service_upkeep(array->service), true);
    upkeep_look_again(service_upkeep(array->service));
    return done(asked, "rebuild");
}

static int run_scrub(struct braid_array *array, struct asked *asked)
{
    bool repair;
    int result = get_flag(asked, "repair", &repair);

    if (result == 0)
        result = upkeep_scrub(service_upkeep(array->service), repair, &asked->error);
    return result == 0 ? done(asked, "scrub") : result;
}

static int run_limits(struct braid_array *array, struct asked *asked)
{
    uint64_t bytes_per_s_max;

    if (json_object_get(asked->request, "bytes_per_s_max") == NULL)
        return error_set(&asked->error, -EDOM, "bytes_per_s_max: it isn't said how fast");
    const int result = get_count(asked, "bytes_per_s_max", &bytes_per_s_max);
    if (result < 0)
        return result;
    upkeep_limit(service_upkeep(array->service), bytes_per_s_max);
    return done(asked, "limits");
}

/* They are sent by who sends the answer. */
static int run_events(struct braid_array *array, struct asked *asked)
{
    const int result = get_count(asked, "from", &asked->from);

    if (result < 0)
        return result;
    if (asked->from == 0)
        asked->from = events_next(array->events);
    return done(asked, "events");
}

/* When the answer is on its way. */
static int run_stop(struct braid_array *array, struct asked *asked)
{
    bool force;
    const int result = get_flag(asked, "force", &force);

    (void)array;
    if (result < 0)
        return result;
    if (asked->in_use != NULL && !force)
        return error_set(&asked->error, -EBUSY, "%s; --force stops it all the same", asked->in_use);
    return done(asked, "stop");
}

static const struct request_kind request_kinds[] = {
    {"detail",  run_detail },
    {"status",  run_status },
    {"fail",    run_fail   },
    {"add",     run_add    },
    {"remove",  run_remove },
    {"replace", run_replace},
    {"rebuild", run_rebuild},
    {"scrub",   run_scrub  },
    {"limits",  run_limits },
    {"events",  run_events },
    {"stop",    run_stop   },
};

/* ---- one request ---- */

static int run(struct braid_array *array, struct service_call *call)
{
    struct asked *asked = (struct asked *)call;
    const char *cmd = text_of(asked, "cmd");

    for (size_t i = 0; i < ARRAY_COUNT(request_kinds); i++)
        if (cmd != NULL && strcmp(request_kinds[i].name, cmd) == 0)
            return request_kinds[i].run(array, asked);
    return error_set(&asked->error, -EOPNOTSUPP, "\"cmd\": `%s` is unknown here",
                     cmd != NULL ? cmd : "");
}

static json_t *failure(int result, const struct braid_error *error)
{
    return json_pack("{s:i, s:o}", "errno", -result, "text",
                     facts_text(error->text[0] != '\0' ? error->text : strerror(-result)));
}

/* The answer, as a line. */
static char *print(json_t *id, const char *key, json_t *value)
{
    json_t *object = json_pack("{s:O?, s:o}", "id", id, key, value);
    char *line = object != NULL ? json_dumps(object, JSON_COMPACT) : NULL;
    const size_t length = line != NULL ? strlen(line) : 0;
    char *with_newline = line != NULL ? realloc(line, length + 2) : NULL;

    json_decref(object);
    if (with_newline == NULL) {
        free(line);
        return NULL;
    }
    memcpy(with_newline + length, "\n", 2);
    return with_newline;
}

void control_answer(struct braid_array *array, const char *name, const char *in_use,
                    const char *line, size_t length, int fd, struct answer *out)
{
    struct asked asked = {.call = {.run = run}, .name = name, .in_use = in_use, .fd = fd};
    json_error_t wrong;
    json_t *request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &wrong);
    int result;

    *out = (struct answer){0};
    asked.request = request;
    if (!json_is_object(request))
        result = error_set(&asked.error, -EBADMSG, "not a JSON object: %s",
                           request == NULL ? wrong.text : "something else");
    else
        result = service_call(array->service, &asked.call);
    json_t *id = json_object_get(request, "id");
    const char *cmd = text_of(&asked, "cmd");
    out->events = result == 0 && strcmp(cmd, "events") == 0;
    out->from = asked.from;
    out->stop = result == 0 && strcmp(cmd, "stop") == 0;
    out->line = result == 0 ? print(id, "result", asked.result)
                            : print(id, "error", failure(result, &asked.error));
    if (asked.fd >= 0)
        (void)close(asked.fd);
    json_decref(request);
}
