/*
 * trace_dir.h - the directory of a trace: the few operations that a writer needs, as functions.
 *
 * dyntrace makes files itself, by trace_dir_direct. A daemon that writes for another user doesn't
 * open that user's files: its implementation asks a process with that user's rights for
 * descriptors.
 *
 * Results below 0 are -errno. Names have no slash in them.
 */
#ifndef DYNTRACE_TRACE_DIR_H
#define DYNTRACE_TRACE_DIR_H

#include <stdbool.h>

#include "control/base/error.h"

struct trace_dir {
	char *path; /* for messages; absolute, if the next controller shall find it */
	/* Makes the directory, which must not exist; its parent must. */
	int (*make)(struct trace_dir *dir);
	/* Opens a file, read+write. `create`: makes it, or empties an existing one. */
	int (*open)(struct trace_dir *dir, const char *name, bool create);
	/* Replaces a file with the name `to`. */
	int (*rename)(struct trace_dir *dir, const char *from, const char *to);
	/* Removes a file; NULL: the directory, which is empty. */
	int (*remove)(struct trace_dir *dir, const char *name);
	void (*free)(struct trace_dir *dir);
	unsigned sharers; /* owners beside the first */
};

/* A directory by path, with this process's rights. */
struct error *trace_dir_direct(const char *path, struct trace_dir **ret_dir);
/* Opens an existing directory. *ret_fd: its descriptor, borrowed. */
struct error *trace_dir_existing(const char *path, int *ret_fd, struct trace_dir **ret_dir);
/* Adds an owner: each calls trace_dir_free. */
struct trace_dir *trace_dir_share(struct trace_dir *dir);
void trace_dir_free(struct trace_dir *dir);

#endif
