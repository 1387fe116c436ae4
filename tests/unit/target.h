/*
 * target.h - a running program (of tests/programs or any other), for a test that holds and releases
 * it.
 *
 * Header only. Keeps step through handshake.h. Every target is killed by its pid in target_end, and
 * dies with the test in any case.
 */
#ifndef DYNTRACE_TESTS_TARGET_H
#define DYNTRACE_TESTS_TARGET_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>

#include "control/base/error.h"

#include "built.h"

struct target {
	pid_t pid;
	int ready, go, out;
};

static inline void no_error(struct error *err)
{
	if (err)
		fail_msg("%s", error_text(err));
}

static inline void target_path(const char *name, char path[PATH_MAX])
{
	char below[PATH_MAX / 2];

	snprintf(below, sizeof(below), "tests/programs/%s", name);
	built_path(below, path);
}

/* Starts a program of tests/programs with "--NAME NUMBER" words; the list ends with NULL. Its
 * descriptors 3 and 4 are ready and go; it doesn't wait for readiness. */
static inline struct target target_start(const char *name, ...)
{
	int ready[2], go[2], out[2];
	char path[PATH_MAX];
	char *argv[32] = { path, (char *)"--ready-fd", (char *)"3", (char *)"--go-fd",
			   (char *)"4" };
	size_t argc = 5;
	va_list words;

	va_start(words, name);
	for (char *word; argc < 31 && (word = va_arg(words, char *));)
		argv[argc++] = word;
	va_end(words);
	if (*name == '/')
		snprintf(path, sizeof(path), "%s", name);
	else
		target_path(name, path);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(out, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* out of the way first: any of them may be 3 or 4 */
		int r = fcntl(ready[1], F_DUPFD_CLOEXEC, 20), g = fcntl(go[0], F_DUPFD_CLOEXEC, 20);

		dup2(out[1], 1);
		dup2(r, 3);
		dup2(g, 4);
		execv(path, argv);
		_exit(127);
	}
	close(ready[1]);
	close(go[0]);
	close(out[1]);
	return (struct target){ pid, ready[0], go[1], out[0] };
}

static inline void target_ready(const struct target *target)
{
	char byte = 0;

	while (read(target->ready, &byte, 1) < 0)
		assert_int_equal(errno, EINTR); /* the controller's timer */
	assert_int_equal(byte, 'r');
}

static inline void target_go(const struct target *target)
{
	assert_int_equal(write(target->go, "g", 1), 1);
}

/* All that it printed until it closed its output; waits for its end. */
static inline int target_finish(struct target *target, char *text, size_t room)
{
	size_t length = 0;
	int status = -1;
	ssize_t n;

	while (text && length + 1 < room &&
	       ((n = read(target->out, text + length, room - length - 1)) > 0 ||
		(n < 0 && errno == EINTR)))
		length += n > 0 ? (size_t)n : 0;
	if (text)
		text[length] = '\0';
	while (waitpid(target->pid, &status, 0) != target->pid)
		assert_int_equal(errno, EINTR);
	close(target->ready);
	close(target->go);
	close(target->out);
	target->pid = 0;
	return status;
}

static inline void target_end(struct target *target)
{
	if (target->pid <= 0)
		return;
	kill(target->pid, SIGKILL);
	target_finish(target, NULL, 0);
}

/* The whole of a file, for comparing. */
static inline char *target_slurp(pid_t pid, const char *name)
{
	char path[64], *text = calloc(1, 1 << 20);
	size_t length = 0;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && text);
	while ((n = read(fd, text + length, (1 << 20) - length - 1)) > 0)
		length += (size_t)n;
	close(fd);
	return text;
}

/* Its open descriptors, "N -> what" a line. */
static inline char *target_descriptors(pid_t pid)
{
	char *text = calloc(1, 1 << 16);
	size_t length = 0;

	for (int i = 0; i < 256; i++) {
		char path[64], link[256];

		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n > 0)
			length += (size_t)snprintf(text + length, (1 << 16) - length,
						   "%d -> %.*s\n", i, (int)n, link);
	}
	return text;
}

/* The state letter of a thread. */
static inline char target_state(pid_t tid)
{
	char path[64], text[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, text, sizeof(text) - 1);
	close(fd);
	char *paren = n > 0 ? strrchr(text, ')') : NULL;
	return paren ? paren[2] : 0;
}

/* Waits (it is about to happen) until a thread is in that state. */
static inline void target_await_state(pid_t tid, char state)
{
	for (int i = 0; i < 600000 && target_state(tid) != state; i++)
		usleep(100);
	assert_int_equal(target_state(tid), state);
}

/* Kills a controller, a child of the test, after that time. It hadn't failed before, and the target
 * lives on. */
static inline void target_kill_controller(const struct target *target, pid_t controller,
					  long after_ns)
{
	struct timespec nap = { 0, after_ns };
	int status = 0;

	nanosleep(&nap, NULL);
	kill(controller, SIGKILL);
	assert_int_equal(waitpid(controller, &status, 0), controller);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(waitpid(target->pid, &status, WNOHANG), 0);
}

#endif
