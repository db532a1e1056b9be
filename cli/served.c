/* SPDX-License-Identifier: BSD-2-Clause */
/* served.c - arrays that are served, as `:NAME`. */
#include "cli/served.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/progress.h"

static const char *runtime_directory;

void served_directory(const char *directory)
{
    runtime_directory = directory;
}

bool is_served(int argc, char **argv, int first, bool *bad)
{
    bool any = false;

    for (int i = first; i < argc; i++)
        any = any || argv[i][0] == ':';
    *bad = any && argc - first != 1;
    if (*bad)
        complain("a served array (:NAME) stands alone: its server has the members");
    return any;
}

bool served_place(const char *operand, const char *file, char *path, size_t bytes)
{
    struct braid_error error;

    if (braid_place(runtime_directory, operand + 1, file, path, bytes, &error) == 0)
        return true;
    complain("%s", error.text);
    return false;
}

int served_elsewhere(const char *command, const char *operand)
{
    char path[PATH_MAX];

    if (served_place(operand, "nbd", path, sizeof path))
        complain("%s: %s is served; any NBD client reads and writes it, for instance\n"
                 "  nbdcopy 'nbd+unix:///?socket=%s' FILE",
                 command, operand, path);
    return EXIT_REFUSED;
}

int served_ask(const char *operand, json_t *request, const char *member, json_t **answer)
{
    char path[PATH_MAX];
    struct braid_error error = {0};
    char *text = json_dumps(request, JSON_COMPACT);
    char *json = NULL;
    int result = -ENOMEM;

    json_decref(request);
    if (!served_place(operand, "control", path, sizeof path)) {
        free(text);
        return EXIT_USAGE;
    }
    if (text != NULL)
        result = braid_ask(path, text, member, NULL, NULL, &json, &error);
    free(text);
    if (result < 0) {
        if ((result == -ENOENT || result == -ECONNREFUSED) && json == NULL)
            complain("%s: no array of that name is served (%s)", operand, error.text);
        else
            complain("%s", error.text);
        return exit_code_of(result);
    }
    *answer = json_loads(json, 0, NULL);
    braid_free(json);
    return EXIT_DONE;
}

static void wait_a_while(void)
{
    const struct timespec while_ = {.tv_nsec = 300000000};

    (void)nanosleep(&while_, NULL); /* a signal ends it */
}

int served_wait(const char *operand, bool quiet, json_t **status)
{
    struct progress progress = {.quiet = quiet};
    uint64_t total = 0;
    int code;

    *status = NULL;
    for (;;) {
        json_decref(*status);
        *status = NULL;
        code = served_ask(operand, json_pack("{s:s}", "cmd", "status"), NULL, status);
        const json_t *activity = json_object_get(*status, "activity");
        if (code != EXIT_DONE || json_is_null(activity))
            break;
        if ((uint64_t)number_of(activity, "total_bytes") != total) {
            progress_clear(&progress);
            total = (uint64_t)number_of(activity, "total_bytes");
            progress_start(&progress, quiet, total);
        }
        progress_show(&progress, (uint64_t)number_of(activity, "done_bytes"));
        if (interrupted()) {
            code = EXIT_INTERRUPTED;
            break;
        }
        wait_a_while();
    }
    progress_clear(&progress);
    return code;
}

char *served_member(const char *member)
{
    struct braid_error error;
    char *absolute;

    /* One whose file is gone can't be found any more; its name may still be the server's. */
    if (strncmp(member, "slot=", 5) == 0 || braid_member_absolute(member, &absolute, &error) < 0)
        return strdup(member);
    return absolute;
}
