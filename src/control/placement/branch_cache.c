/*
 * branch_cache.c - what was found about a file, for the next process that has it.
 *
 * Programs that are begun one after the other (--follow-exec) have the same libc, and scanning that
 * is most of the work. A file is known by its inode and the times of its last changes. What nobody
 * uses goes when others need the room.
 */
#include <string.h>
#include <sys/stat.h>

#include "branch_targets.h"

#define KEPT_MAX 16

static struct kept {
	struct stat file;
	struct branch_targets *branch_targets; /* NULL: free */
	size_t users;
	uint64_t used; /* when, by `clock` */
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
		if (kept[i].branch_targets && is_same(&kept[i].file, file))
			return &kept[i];
	}
	return NULL;
}

/* Free, or the one that nobody has used for longest; NULL: all are in use. */
static struct kept *find_room(void)
{
	struct kept *room = NULL;

	for (size_t i = 0; i < KEPT_MAX; i++) {
		if (!kept[i].branch_targets)
			return &kept[i];
		if (!kept[i].users && (!room || kept[i].used < room->used))
			room = &kept[i];
	}
	return room;
}

struct error *branch_cache_get(const struct symtab *symtab, struct branch_targets **ret_inbound)
{
	struct stat file;
	bool is_known = symtab_file(symtab, &file);
	struct kept *entry = is_known ? find_file(&file) : NULL;
	struct error *error = entry ? NULL : branch_targets_scan(symtab, ret_inbound);

	if (error || (!entry && (!is_known || !(entry = find_room()))))
		return error;
	if (!entry->branch_targets || !is_same(&entry->file, &file)) {
		branch_targets_free(entry->branch_targets);
		*entry = (struct kept){ .file = file, .branch_targets = *ret_inbound };
	}
	entry->users++;
	entry->used = ++clock;
	*ret_inbound = entry->branch_targets;
	return NULL;
}

void branch_cache_put(struct branch_targets *branch_targets)
{
	for (size_t i = 0; i < KEPT_MAX && branch_targets; i++) {
		if (kept[i].branch_targets == branch_targets) {
			kept[i].users--;
			return;
		}
	}
	branch_targets_free(branch_targets);
}
