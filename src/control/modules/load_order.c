/*
 * load_order.c - the loader's list of libraries, and which of them were there from the start.
 *
 * The loader appends what it loads later. So all elements up to the last one that the program
 * needs, directly or not, are from the start: preloaded libraries among them, which nobody needs.
 * The dynamic tables in memory tell who needs whom. The list belongs to the target: names may be
 * cut, tables endless and lists circular.
 */
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "bindings.h"
#include "control/base/cleanup.h"

#define LIST_MAX 1024u
#define ENTRIES_MAX 128u

static bool read_at(struct proc *proc, uint64_t at, void *to, size_t n)
{
	_cleanup_error_ struct error *unreadable = mem_read(proc, taddr_of(at), to, n);

	return !unreadable;
}

/* The last component of a path in the target; "": not readable, or too long. */
static void read_name(struct proc *proc, uint64_t at, char name[LOAD_NAME_ROOM])
{
	char text[LOAD_NAME_ROOM] = "";

	/* near the end of a mapping only the first bytes can be read */
	for (size_t room = sizeof(text); room && !read_at(proc, at, text, room); room /= 2)
		memset(text, 0, sizeof(text));
	if (!memchr(text, 0, sizeof(text)))
		text[0] = '\0';
	const char *slash = strrchr(text, '/');
	const char *last = slash ? slash + 1 : text;
	memcpy(name, last, strlen(last) + 1);
}

static bool read_list(struct proc *proc, const struct modules *modules, taddr r_debug,
		      struct load_order *order)
{
	struct r_debug debug;
	struct link_map map;

	if (!r_debug.v || !read_at(proc, r_debug.v, &debug, sizeof(debug)))
		return false;
	for (uint64_t at = (uintptr_t)debug.r_map; at; at = (uintptr_t)map.l_next) {
		struct load_order_item item = { .needed = order->all.count == 0 };

		if (order->all.count >= LIST_MAX || !read_at(proc, at, &map, sizeof(map)))
			return false;
		item.dynamic = (uintptr_t)map.l_ld;
		item.module = modules_at(modules, taddr_of(item.dynamic));
		read_name(proc, (uintptr_t)map.l_name, item.name);
		if (!vec_push(&order->all, item))
			return false;
	}
	return order->all.count > 0;
}

/* Returns whether the mark is new. */
static bool mark(struct load_order *order, const char *name)
{
	for (size_t i = 0; *name && i < order->all.count; i++) {
		struct load_order_item *item = &order->all.items[i];

		if (!strcmp(item->name, name) && !item->needed)
			return item->needed = true;
	}
	return false;
}

/* Marks what an element needs. Returns whether any mark is new. */
static bool mark_needs(struct proc *proc, struct load_order *order, uint64_t dynamic)
{
	Elf64_Dyn table[ENTRIES_MAX];
	size_t count = 0;
	uint64_t strings = 0;
	bool any = false;

	while (count < ENTRIES_MAX &&
	       read_at(proc, dynamic + count * sizeof(*table), &table[count], sizeof(*table)) &&
	       table[count].d_tag != DT_NULL) {
		if (table[count].d_tag == DT_STRTAB)
			strings = table[count].d_un.d_ptr; /* glibc has added the load address */
		count++;
	}
	for (size_t i = 0; i < count; i++) {
		char name[LOAD_NAME_ROOM];

		if (table[i].d_tag != DT_NEEDED)
			continue;
		read_name(proc, strings + table[i].d_un.d_val, name);
		any |= mark(order, name);
	}
	return any;
}

static void mark_all(struct proc *proc, struct load_order *order)
{
	bool *followed = calloc(order->all.count, sizeof(*followed));
	bool again = followed != NULL;
	bool start = false;

	while (again) {
		again = false;
		for (size_t i = 0; i < order->all.count; i++) {
			if (!order->all.items[i].needed || followed[i])
				continue;
			followed[i] = true;
			again |= mark_needs(proc, order, order->all.items[i].dynamic);
		}
	}
	free(followed);
	for (size_t i = order->all.count; i > 0; i--) {
		start |= order->all.items[i - 1].needed;
		order->all.items[i - 1].from_start = start;
	}
}

bool load_order_read(struct proc *proc, const struct modules *modules, taddr r_debug,
		     struct load_order *ret_order)
{
	*ret_order = (struct load_order){ 0 };
	if (!read_list(proc, modules, r_debug, ret_order))
		return false;
	mark_all(proc, ret_order);
	return true;
}

void load_order_free(struct load_order *order)
{
	vec_free(&order->all);
}
