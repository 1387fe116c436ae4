/*
 * vec.h - a growing array.
 *
 *	VEC(struct symbol) symbols = { 0 };
 *	if (!vec_push(&symbols, symbol))	false: out of memory
 *		...
 *	for (size_t i = 0; i < symbols.count; i++)
 *		symbols.items[i]...
 *	vec_free(&symbols);
 */
#ifndef DYNTRACE_VEC_H
#define DYNTRACE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type)              \
	struct {               \
		type *items;   \
		size_t count;  \
		size_t room;   \
	}

/* Makes room for `more` items after the first `count`. False: out of memory. */
bool vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size);

#define vec_reserve(v, more) \
	vec_grow((void **)&(v)->items, &(v)->room, (v)->count, (more), sizeof(*(v)->items))

#define vec_push(v, ...) (vec_reserve((v), 1) && ((v)->items[(v)->count++] = __VA_ARGS__, true))

#define vec_last(v) (&(v)->items[(v)->count - 1])

#define vec_free(v)                \
	do {                       \
		free((v)->items);  \
		(v)->items = NULL; \
		(v)->count = 0;    \
		(v)->room = 0;     \
	} while (0)

#endif
