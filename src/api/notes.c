/* SPDX-License-Identifier: BSD-2-Clause */
/* notes.c - sentences for people, collected while an array is assembled. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/internal.h"

static void add(struct note **list, const char *format, va_list arguments)
{
    struct note *note = calloc(1, sizeof *note);

    if (note != NULL && vasprintf(&note->text, format, arguments) < 0)
        note->text = NULL;
    if (note == NULL || note->text == NULL) {
        free(note);
        return;
    }
    while (*list != NULL)
        list = &(*list)->next;
    *list = note;
}

void note_warning(struct braid_array *array, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    add(&array->warnings, format, arguments);
    va_end(arguments);
}

void note_problem(struct braid_array *array, const char *format, ...)
{
    va_list arguments;

    array->refused = true;
    va_start(arguments, format);
    add(&array->problems, format, arguments);
    va_end(arguments);
}

void notes_free(struct note *list)
{
    while (list != NULL) {
        struct note *next = list->next;
        free(list->text);
        free(list);
        list = next;
    }
}
