#include "keeper.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "keeper_messages.h"

#define SOCKET_FD 3
#define TRIES 1000

struct keeper {
	const char *folder, *name;
	enum keeper_way way;
	int parent; /* opened when first needed */
	struct {
		int fd; /* -1: none */
		char name[NAME_MAX + 1];
	} dirs[KEEPER_DIRS];
};

/* The name of a file in the directory, not a path. */
static bool is_name(const char *name, size_t size)
{
	return memchr(name, '\0', size) && name[0] && !strchr(name, '/') &&
	       strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* ---- directories ----------------------------------------------------------------------------- */

/* The directory belongs to this user, and nobody else can write there. */
static bool is_own(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && st.st_uid == geteuid() && !(st.st_mode & 022);
}

static int try_make(struct keeper *keeper, uint32_t number, const char *suffix, int count)
{
	assert(number < KEEPER_DIRS && keeper->dirs[number].fd < 0 && keeper->parent >= 0);
	char *name = keeper->dirs[number].name;
	/* the trace may have got a number, which is a part of its snapshots' names */
	const char *base = number && keeper->dirs[0].fd >= 0 ? keeper->dirs[0].name : keeper->name;
	int length = count > 1 ? snprintf(name, NAME_MAX + 1, "%s%s-%d", base, suffix, count) :
				 snprintf(name, NAME_MAX + 1, "%s%s", base, suffix);
	bool opens = keeper->way == KEEPER_AGAIN && !number;

	if (length > NAME_MAX)
		return -ENAMETOOLONG;
	if (!opens && mkdirat(keeper->parent, name, 0700))
		return -errno;
	int fd = openat(keeper->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (opens && !is_own(fd)) {
		close(fd);
		return -EPERM;
	}
	flock(fd, LOCK_SH | LOCK_NB); /* for `view -f`, as in trace_dir.c */
	keeper->dirs[number].fd = fd;
	return 0;
}

static int make(struct keeper *keeper, const struct keeper_request *request,
		struct keeper_answer *answer)
{
	uint32_t number = request->directory;
	int result = -EEXIST;

	if (!memchr(request->first, '\0', sizeof(request->first)) || strchr(request->first, '/') ||
	    (number && keeper->dirs[number].fd >= 0))
		return -EINVAL;
	snprintf(answer->path, sizeof(answer->path), "%s/%s", keeper->folder, keeper->name);
	if (keeper->dirs[number].fd >= 0) { /* the worker didn't hear of it, or couldn't use it */
		snprintf(answer->path, sizeof(answer->path), "%s/%s", keeper->folder,
			 keeper->dirs[number].name);
		return 0;
	}
	if (keeper->parent < 0)
		keeper->parent = open(keeper->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (keeper->parent < 0)
		return -errno;
	int tries = number || keeper->way == KEEPER_NUMBERED ? TRIES : 1;
	for (int count = 1; result == -EEXIST && count <= tries; count++)
		result = try_make(keeper, number, request->first, count);
	if (!result)
		snprintf(answer->path, sizeof(answer->path), "%s/%s", keeper->folder,
			 keeper->dirs[number].name);
	return result;
}

static int remove_directory(struct keeper *keeper, uint32_t number)
{
	assert(keeper->dirs[number].fd >= 0);
	int failed = unlinkat(keeper->parent, keeper->dirs[number].name, AT_REMOVEDIR) ? -errno : 0;

	if (!failed)
		close(take_fd(&keeper->dirs[number].fd));
	return failed;
}

/* A snapshot that this keeper has made. */
static int drop(struct keeper *keeper, uint32_t number)
{
	DIR *dir = number ? fdopendir(dup(keeper->dirs[number].fd)) : NULL;

	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		if (is_name(entry->d_name, sizeof(entry->d_name)))
			unlinkat(keeper->dirs[number].fd, entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	return dir ? remove_directory(keeper, number) : -EINVAL;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* A log may be any file that the client can write to, but no link, which another user may have put
 * there. */
static int append(struct keeper *keeper, struct keeper_answer *answer, int *ret_fd)
{
	snprintf(answer->path, sizeof(answer->path), "%s/%s", keeper->folder, keeper->name);
	if (keeper->parent < 0)
		keeper->parent = open(keeper->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (keeper->parent < 0)
		return -errno;
	*ret_fd = openat(keeper->parent, keeper->name,
			 O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY |
				 O_NONBLOCK,
			 0600);
	return *ret_fd < 0 ? -errno : 0;
}

static int do_request(struct keeper *keeper, const struct keeper_request *request,
		      struct keeper_answer *answer, int *ret_fd)
{
	if (request->directory >= KEEPER_DIRS)
		return -EINVAL;
	if (request->what == KEEPER_MAKE)
		return make(keeper, request, answer);
	if (request->what == KEEPER_APPEND)
		return append(keeper, answer, ret_fd);
	int dir = keeper->dirs[request->directory].fd;
	if (dir < 0)
		return -EBADF;
	if (request->what == KEEPER_DROP)
		return drop(keeper, request->directory);
	if (request->what == KEEPER_REMOVE && !request->first[0])
		return remove_directory(keeper, request->directory);
	if (!is_name(request->first, sizeof(request->first)))
		return -EINVAL;
	switch (request->what) {
	case KEEPER_OPEN:
	case KEEPER_CREATE:
		*ret_fd = openat(dir, request->first,
				 O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK |
					 (request->what == KEEPER_CREATE ? O_CREAT | O_TRUNC : 0),
				 0600);
		return *ret_fd < 0 ? -errno : 0;
	case KEEPER_RENAME:
		if (!is_name(request->second, sizeof(request->second)))
			return -EINVAL;
		return renameat(dir, request->first, dir, request->second) ? -errno : 0;
	case KEEPER_REMOVE:
		return unlinkat(dir, request->first, 0) ? -errno : 0;
	default:
		return -EINVAL;
	}
}

static bool send_answer(const struct keeper_answer *answer, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { (void *)answer, sizeof(*answer) };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (fd >= 0) {
		header.msg_control = control;
		header.msg_controllen = sizeof(control);
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(SOCKET_FD, &header, MSG_NOSIGNAL) == (ssize_t)sizeof(*answer);
}

int keeper_main(const char *folder, const char *name, enum keeper_way way)
{
	static struct keeper keeper;
	static struct keeper_request request;
	static struct keeper_answer answer;
	bool goes_on = true;

	prctl(PR_SET_NAME, "dyntraced-keep", 0, 0, 0);
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* its user takes no descriptor from it (H34) */
	umask(0077);
	keeper = (struct keeper){ .folder = folder, .name = name, .way = way, .parent = -1 };
	for (size_t i = 0; i < KEEPER_DIRS; i++)
		keeper.dirs[i].fd = -1;
	while (goes_on &&
	       recv(SOCKET_FD, &request, sizeof(request), 0) == (ssize_t)sizeof(request)) {
		int fd = -1;

		memset(&answer, 0, sizeof(answer));
		answer.result = do_request(&keeper, &request, &answer, &fd);
		goes_on = send_answer(&answer, fd);
		if (fd >= 0)
			close(fd);
	}
	return EXIT_SUCCESS;
}
