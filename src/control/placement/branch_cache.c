/*
 * branch_cache.c - the branch targets of a file, kept for the next process that maps it.
 *
 * Programs started one after the other (--follow-exec) have the same libc, and scanning the libc is
 * most of the work. A file is identified by its inode and the times of its last changes. An entry
 * without users is replaced when another file needs the room.
 */
#include <assert.h>
#include <string.h>
#include <sys/stat.h>

#include "branch_targets.h"

#define KEPT_MAX 16

static struct kept {
	struct stat file;
	struct branch_targets *targets; /* NULL: a free entry */
	size_t users;
	uint64_t used; /* by `clock` */
} kept[KEPT_MAX];
static uint64_t clock;

static bool is_same(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
	       !memcmp(&a->st_mtim, &b->st_mtim, sizeof(a->st_mtim)) &&
	       !memcmp(&a->st_ctim, &b->st_ctim, sizeof(a->st_ctim));
}

static struct kept *find_file(const struct stat *file)
{
	for (size_t i = 0; i < KEPT_MAX; i++) {
		if (kept[i].targets && is_same(&kept[i].file, file))
			return &kept[i];
	}
	return NULL;
}

/* A free entry, or the one without users that was used least recently; NULL: all are in use. */
static struct kept *find_room(void)
{
	struct kept *room = NULL;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		if (!kept[i].targets)
			return &kept[i];
		if (!kept[i].users && (!room || kept[i].used < room->used))
			room = &kept[i];
	}
	return room;
}

struct error *branch_cache_get(const struct symtab *symtab, struct branch_targets **ret_targets)
{
	struct stat file;
	bool is_known = symtab_file(symtab, &file);
	struct kept *entry = is_known ? find_file(&file) : NULL;
	struct error *error = entry ? NULL : branch_targets_scan(symtab, ret_targets);

	if (error || (!entry && (!is_known || !(entry = find_room()))))
		return error;
	if (!entry->targets || !is_same(&entry->file, &file)) {
		assert(!entry->users);
		branch_targets_free(entry->targets);
		*entry = (struct kept){ .file = file, .targets = *ret_targets };
	}
	entry->users++;
	entry->used = ++clock;
	*ret_targets = entry->targets;
	return NULL;
}

void branch_cache_put(struct branch_targets *targets)
{
	for (size_t i = 0; i < KEPT_MAX && targets; i++) {
		if (kept[i].targets == targets) {
			assert(kept[i].users > 0);
			kept[i].users--;
			return;
		}
	}
	branch_targets_free(targets);
}
