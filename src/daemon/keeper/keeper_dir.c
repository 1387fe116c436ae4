/*
 * keeper_dir.c - a trace's directory, made by a keeper: the worker's end.
 *
 * A keeper may hang (a dead file server, SIGSTOP), so the worker waits a bounded time for an
 * answer. Late answers are thrown away, and nothing more is asked before they have come.
 *
 * A keeper has the rights of the client's user, so its answers are hostile: descriptors that
 * weren't asked for are closed, and a file of a trace is a regular one, for writing to a pipe could
 * block the worker.
 */
#include "keeper.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/ready.h"
#include "keeper_messages.h"

#define RECEIVE_TRIES 3
#define KEEPER_MS 10000
#define ERRNO_MAX 4095

/* The socket, shared by the directories of one keeper. */
struct line {
	int fd;
	unsigned users;
	bool taken[KEEPER_DIRS]; /* numbers of directories */
	unsigned owed; /* late answers */
	bool dead;
};

struct kept_dir {
	struct trace_dir dir;
	struct line *line;
	uint32_t number;
	char suffix[NAME_MAX + 1];
	bool made;
};

static struct kept_dir *of_dir(const struct trace_dir *dir)
{
	return (struct kept_dir *)((char *)dir - offsetof(struct kept_dir, dir));
}

/* Takes the first descriptor of the message; closes others. The answer may come with any number. */
static void take_descriptors(struct msghdr *header, int *ret_fd)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		size_t count = c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS ?
				       (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) :
				       0;

		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (*ret_fd < 0)
				*ret_fd = fd;
			else
				close(fd);
		}
	}
}

/* Did it fail for want of memory, and the answer is still there? */
static bool is_passing(ssize_t received)
{
	return received < 0 && (errno == ENOMEM || errno == ENOBUFS || errno == EINTR);
}

/* Sets *ret_fd, which was -1, to a descriptor that came with it; also if the answer is bad. */
static int receive(struct line *line, int timeout, struct keeper_answer *answer, int *ret_fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { answer, sizeof(*answer) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };

	if (!ready_within(line->fd, POLLIN, timeout))
		return -ETIMEDOUT;
	ssize_t size = recvmsg(line->fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	for (int tries = 1; is_passing(size) && tries < RECEIVE_TRIES; tries++)
		size = recvmsg(line->fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	if (is_passing(size))
		return -ETIMEDOUT; /* it is still there, for take_late */
	if (size >= 0)
		take_descriptors(&header, ret_fd);
	answer->path[sizeof(answer->path) - 1] = '\0';
	if (size != (ssize_t)sizeof(*answer) || answer->result > 0 || answer->result < -ERRNO_MAX)
		return -EPIPE;
	return 0;
}

/* Takes late answers. 0: none is owed any more; else the keeper still hangs. */
static int take_late(struct line *line, struct keeper_answer *answer)
{
	int failed = 0;

	while (line->owed && !failed) {
		int fd = -1;

		failed = receive(line, 0, answer, &fd);
		if (fd >= 0)
			close(fd);
		line->owed -= !failed;
	}
	return failed;
}

/* The answer's result, or a failure of the line itself. *ret_fd is -1 before the call. */
static int ask_for(struct kept_dir *kept, enum keeper_what what, const char *first,
		   const char *second, struct keeper_answer *answer, int *ret_fd)
{
	struct keeper_request request = { .what = what, .directory = kept->number };
	struct line *line = kept->line;

	assert(kept->number < KEEPER_DIRS && line->users);
	if (strlen(first) > NAME_MAX || strlen(second) > NAME_MAX)
		return -ENAMETOOLONG;
	if (line->dead)
		return -EPIPE;
	int failed = take_late(line, answer);
	if (failed)
		return failed;
	strcpy(request.first, first);
	strcpy(request.second, second);
	if (send(line->fd, &request, sizeof(request), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		failed = -errno;
	if (!failed)
		failed = receive(line, KEEPER_MS, answer, ret_fd);
	line->owed += failed == -ETIMEDOUT;
	line->dead = failed && failed != -ETIMEDOUT;
	return failed ? failed : answer->result;
}

static void drop(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Asks the keeper for something that needs no descriptor. */
static int ask(struct kept_dir *kept, enum keeper_what what, const char *first, const char *second,
	       struct keeper_answer *answer)
{
	int fd = -1;
	int result = ask_for(kept, what, first, second, answer, &fd);

	drop(&fd);
	return result;
}

static int kept_make(struct trace_dir *dir)
{
	struct kept_dir *kept = of_dir(dir);
	struct keeper_answer answer;
	int result = ask(kept, KEEPER_MAKE, kept->suffix, "", &answer);

	if (!kept->line->dead && !kept->line->owed)
		snprintf(dir->path, PATH_MAX, "%s", answer.path);
	kept->made = result == 0;
	return result;
}

static bool is_regular(int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && S_ISREG(st.st_mode);
}

static int kept_open(struct trace_dir *dir, const char *name, bool create)
{
	struct keeper_answer answer;
	int fd = -1;
	int result =
		ask_for(of_dir(dir), create ? KEEPER_CREATE : KEEPER_OPEN, name, "", &answer, &fd);

	if (!result && !is_regular(fd))
		result = -EBADF;
	if (result < 0)
		drop(&fd);
	return result < 0 ? result : fd;
}

static int kept_rename(struct trace_dir *dir, const char *from, const char *to)
{
	struct keeper_answer answer;

	return ask(of_dir(dir), KEEPER_RENAME, from, to, &answer);
}

static int kept_remove(struct trace_dir *dir, const char *name)
{
	struct keeper_answer answer;

	return ask(of_dir(dir), KEEPER_REMOVE, name ? name : "", "", &answer);
}

static void kept_free(struct trace_dir *dir)
{
	struct kept_dir *kept = of_dir(dir);

	assert(kept->line->users);
	if (--kept->line->users == 0) {
		close(kept->line->fd);
		free(kept->line);
	}
	free(kept->dir.path);
	free(kept);
}

static struct error *open_dir(struct line *line, uint32_t number, const char *suffix,
			      struct trace_dir **ret_dir)
{
	struct kept_dir *kept = calloc(1, sizeof(*kept));
	char *path = malloc(PATH_MAX); /* filled in place: others keep the pointer */

	if (!kept || !path) {
		free(kept);
		free(path);
		return error_new(ERROR_FAILED, "out of memory");
	}
	snprintf(path, PATH_MAX, "the trace");
	*kept = (struct kept_dir){ .dir = { .path = path,
					    .make = kept_make,
					    .open = kept_open,
					    .rename = kept_rename,
					    .remove = kept_remove,
					    .free = kept_free },
				   .line = line,
				   .number = number };
	snprintf(kept->suffix, sizeof(kept->suffix), "%s", suffix);
	line->users++;
	line->taken[number] = true;
	*ret_dir = &kept->dir;
	return NULL;
}

struct error *keeper_dir(int fd, struct trace_dir **ret_dir)
{
	struct line *line = calloc(1, sizeof(*line));

	if (!line) {
		close(fd);
		return error_new(ERROR_FAILED, "out of memory");
	}
	line->fd = fd;
	struct error *error = open_dir(line, 0, "", ret_dir);
	if (error) {
		close(fd);
		free(line);
	}
	return error;
}

struct error *keeper_beside(struct trace_dir *dir, const char *suffix, struct trace_dir **ret_dir)
{
	struct line *line = of_dir(dir)->line;

	uint32_t number = 0;

	while (number < KEEPER_DIRS && line->taken[number])
		number++;
	if (number == KEEPER_DIRS)
		return error_new(ERROR_FAILED, "the trace has %d snapshots already (the limit)",
				 KEEPER_DIRS - 1);
	return open_dir(line, number, suffix, ret_dir);
}

void keeper_drop(struct trace_dir *dir)
{
	struct kept_dir *kept = of_dir(dir);
	struct keeper_answer answer;

	assert(kept->number > 0);
	if (!ask(kept, KEEPER_DROP, "", "", &answer))
		kept->line->taken[kept->number] = false;
	trace_dir_free(dir);
}

struct error *keeper_open_again(struct trace_dir *dir)
{
	int result = dir->make(dir);

	return result ? error_errno(-result, "cannot open '%s'", dir->path) : NULL;
}

bool keeper_has_made(const struct trace_dir *dir)
{
	return of_dir(dir)->made;
}

struct error *keeper_append(int socket, int *ret_fd)
{
	struct trace_dir *dir = NULL;
	struct keeper_answer answer = { 0 };
	int fd = -1;
	struct error *error = keeper_dir(socket, &dir);

	if (error)
		return error;
	int result = ask_for(of_dir(dir), KEEPER_APPEND, "", "", &answer, &fd);
	trace_dir_free(dir);
	if (!result && fd < 0)
		result = -EBADF;
	if (result < 0)
		drop(&fd);
	if (result < 0)
		return error_errno(-result, "cannot write %s",
				   answer.path[0] ? answer.path : "the file");
	*ret_fd = fd;
	return NULL;
}
