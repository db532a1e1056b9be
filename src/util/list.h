/* SPDX-License-Identifier: BSD-2-Clause */
/* list.h - a doubly linked ring of nodes that live inside their owners. */
#ifndef UTIL_LIST_H
#define UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list_node {
    struct list_node *next;
    struct list_node *prev;
};

static inline void list_init(struct list_node *head)
{
    head->next = head;
    head->prev = head;
}

static inline bool list_empty(const struct list_node *head)
{
    return head->next == head;
}

static inline void list_insert_before(struct list_node *position, struct list_node *node)
{
    node->prev = position->prev;
    node->next = position;
    position->prev->next = node;
    position->prev = node;
}

static inline void list_append(struct list_node *head, struct list_node *node)
{
    list_insert_before(head, node);
}

static inline void list_remove(struct list_node *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    node->next = NULL;
    node->prev = NULL;
}

#endif
