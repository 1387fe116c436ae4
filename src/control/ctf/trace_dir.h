/*
 * trace_dir.h - where a trace's files are made: the few operations that a writer needs, as
 * functions.
 *
 * dyntrace makes them itself, by trace_dir_direct. A daemon that writes for somebody else doesn't
 * open that somebody's files: its implementation asks a process with the right user for
 * descriptors.
 *
 * Results below 0 are -errno. Names have no slash in them.
 */
#ifndef DYNTRACE_TRACE_DIR_H
#define DYNTRACE_TRACE_DIR_H

#include <stdbool.h>

#include "control/base/error.h"

struct trace_dir {
	char *path; /* for messages; absolute, if whoever takes over is to find it */
	/* The directory, which must not exist; its parent must. */
	int (*make)(struct trace_dir *dir);
	/* A descriptor of a file there, read+write. `create`: it is made, or emptied if it is
	 * there. */
	int (*open)(struct trace_dir *dir, const char *name, bool create);
	/* In place of what has that name. */
	int (*rename)(struct trace_dir *dir, const char *from, const char *to);
	/* A file; NULL: the directory, which is empty. */
	int (*remove)(struct trace_dir *dir, const char *name);
	void (*free)(struct trace_dir *dir);
	unsigned sharers; /* beside the first */
};

/* By path, with this process's rights. */
struct error *trace_dir_direct(const char *path, struct trace_dir **ret_dir);
/* One that is there already: opens it. *ret_fd: its descriptor, borrowed. */
struct error *trace_dir_existing(const char *path, int *ret_fd, struct trace_dir **ret_dir);
/* One more who frees it. */
struct trace_dir *trace_dir_share(struct trace_dir *dir);
void trace_dir_free(struct trace_dir *dir);

#endif
