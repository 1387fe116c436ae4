#include "trace_dir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct direct {
	struct trace_dir dir;
	int fd; /* -1: not made yet */
};

static int result(int value)
{
	return value < 0 ? -errno : value;
}

/* The lock tells `view -f` that the trace is being recorded; the kernel takes it back from a
 * controller that was killed. Nobody waits for it, and recording goes on without it. */
static int open_directory(struct direct *direct, int flags)
{
	direct->fd = open(direct->dir.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
	if (direct->fd >= 0)
		flock(direct->fd, LOCK_SH | LOCK_NB);
	return result(direct->fd);
}

/* 0700: a trace holds arguments of functions, which other users mustn't see. */
static int direct_make(struct trace_dir *dir)
{
	if (mkdir(dir->path, 0700))
		return -errno;
	int opened = open_directory((struct direct *)dir, 0);
	if (opened < 0)
		rmdir(dir->path);
	return opened < 0 ? opened : 0;
}

static int direct_open(struct trace_dir *dir, const char *name, bool create)
{
	int flags = create ? O_CREAT | O_TRUNC : 0;

	assert(!strchr(name, '/'));
	return result(openat(((struct direct *)dir)->fd, name,
			     O_RDWR | O_NOFOLLOW | O_CLOEXEC | flags, 0600));
}

static int direct_rename(struct trace_dir *dir, const char *from, const char *to)
{
	int fd = ((struct direct *)dir)->fd;

	return result(renameat(fd, from, fd, to));
}

static int direct_remove(struct trace_dir *dir, const char *name)
{
	return result(name ? unlinkat(((struct direct *)dir)->fd, name, 0) : rmdir(dir->path));
}

static void direct_free(struct trace_dir *dir)
{
	struct direct *direct = (struct direct *)dir;

	if (direct->fd >= 0)
		close(direct->fd);
	free(dir->path);
	free(direct);
}

static struct direct *direct_new(const char *path)
{
	struct direct *direct = calloc(1, sizeof(*direct));

	if (!direct || !(direct->dir.path = strdup(path))) {
		free(direct);
		return NULL;
	}
	direct->fd = -1;
	direct->dir.make = direct_make;
	direct->dir.open = direct_open;
	direct->dir.rename = direct_rename;
	direct->dir.remove = direct_remove;
	direct->dir.free = direct_free;
	return direct;
}

struct error *trace_dir_direct(const char *path, struct trace_dir **ret_dir)
{
	struct direct *direct = direct_new(path);

	if (!direct)
		return error_new(ERROR_FAILED, "out of memory");
	*ret_dir = &direct->dir;
	return NULL;
}

struct error *trace_dir_existing(const char *path, int *ret_fd, struct trace_dir **ret_dir)
{
	struct direct *direct = direct_new(path);

	if (!direct)
		return error_new(ERROR_FAILED, "out of memory");
	int opened = open_directory(direct, O_NOFOLLOW);
	if (opened < 0) {
		direct_free(&direct->dir);
		return error_errno(-opened, "cannot open '%s'", path);
	}
	*ret_fd = direct->fd;
	*ret_dir = &direct->dir;
	return NULL;
}

struct trace_dir *trace_dir_share(struct trace_dir *dir)
{
	dir->sharers++;
	return dir;
}

void trace_dir_free(struct trace_dir *dir)
{
	if (dir && dir->sharers)
		dir->sharers--;
	else if (dir)
		dir->free(dir);
}
