/*
 * live.h - a target whose threads call functions all the time and count their own calls, a session
 * that changes meanwhile, and the events that babeltrace2 reads. The target is
 * tests/programs/worker, which has no sanitizers, even if the test has.
 *
 * Header only.
 */
#ifndef DYNTRACE_TESTS_LIVE_H
#define DYNTRACE_TESTS_LIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/ctf/trace_dir.h"
#include "control/session/session.h"

#include "../programs/worker.h"
#include "built.h"
#include "place.h"
#include "target.h"

/* ---- the target ------------------------------------------------------------------------------ */

static struct shared *shared;

/* It dies with the test. */
static inline pid_t start_worker(const char *mode, const int *fds, size_t count)
{
	char numbers[2][16], path[PATH_MAX];

	assert_true(count <= 2);
	target_path("worker", path);
	for (size_t i = 0; i < 2; i++)
		snprintf(numbers[i], sizeof(numbers[i]), "%d", i < count ? fds[i] : -1);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, mode, numbers[0], numbers[1], NULL);
		_exit(127);
	}
	return pid;
}

static inline pid_t start_target(void)
{
	int fd = memfd_create("shared", 0);

	assert_true(fd >= 0 && !ftruncate(fd, sizeof(*shared)));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(shared != MAP_FAILED);
	shared->paused = 1;
	pid_t pid = start_worker("threads", &fd, 1);
	close(fd);
	return pid;
}

static inline uint64_t begun(size_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < THREADS; i++)
		sum += __atomic_load_n(&shared->calls[i][function].begun, __ATOMIC_SEQ_CST);
	return sum;
}

static inline uint64_t done(size_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < THREADS; i++)
		sum += __atomic_load_n(&shared->calls[i][function].done, __ATOMIC_SEQ_CST);
	return sum;
}

/* ---- the session ----------------------------------------------------------------------------- */

struct fixture {
	pid_t pid;
	struct proc *proc;
	struct session *session;
	char output[64];
	uint64_t recorded[FUNCTIONS]; /* that the trace must have, by tracepoints that are gone */
};

static inline void check(struct error *error, const struct fixture *f)
{
	int status;

	if (error)
		fail_msg("%s", error_text(error));
	if (waitpid(f->pid, &status, WNOHANG) != 0)
		fail_msg("the target ended: %d", status);
}

static inline void stand(const struct fixture *f)
{
	__atomic_store_n(&shared->paused, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST) != THREADS)
		check(f->session ? session_step(f->session, 1) : NULL, f);
}

static inline void go(void)
{
	__atomic_store_n(&shared->paused, 0, __ATOMIC_SEQ_CST);
}

/* Until each function was called that many times more, and each thread has gone and stands. */
static inline void work(const struct fixture *f, uint64_t more)
{
	uint64_t from[FUNCTIONS];

	for (size_t i = 0; i < FUNCTIONS; i++)
		from[i] = done(i);
	go();
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST))
		check(session_step(f->session, 1), f);
	for (size_t i = 0; i < FUNCTIONS; i++) {
		while (done(i) < from[i] + more)
			check(session_step(f->session, 1), f);
	}
	stand(f);
}

static inline void begin(struct fixture *f, struct session_options options)
{
	snprintf(f->output, sizeof(f->output), "%s/dyntrace-live-%d-%ld", place_memory(), getpid(),
		 random());
	if (!options.directory)
		options.output = f->output;
	if (!options.buffer_size)
		options.buffer_size = 16 << 20;
	f->pid = start_target();
	stand(f);
	check(proc_open(f->pid, &f->proc), f);
	check(session_create(f->proc, &options, &f->session), f);
	check(session_begin(f->session, NULL), f);
}

static inline void leave(struct fixture *f)
{
	struct session_summary summary = { 0 };

	check(session_end(f->session, &summary), f);
	assert_false(summary.left);
	assert_int_equal(summary.totals.lost, 0);
}

static inline void end(struct fixture *f)
{
	char command[96];
	int status;

	session_destroy(f->session);
	/* it lives: nothing was computed wrong */
	assert_int_equal(waitpid(f->pid, &status, WNOHANG), 0);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, &status, 0);
	proc_close(f->proc);
	snprintf(command, sizeof(command), "rm -rf %s", f->output);
	assert_int_equal(system(command), 0);
	if (shared)
		munmap(shared, sizeof(*shared));
	shared = NULL;
}

static inline char *work_name(size_t function, char name[16])
{
	snprintf(name, 16, "work_%zu", function);
	return name;
}

/* By its location alone. */
static inline struct error *try_add(const struct fixture *f, const char *location,
				    enum tracepoint_kind kind)
{
	return session_add(f->session,
			   &(struct tracepoint_spec){ .location = location, .kind = kind }, NULL);
}

static inline void add(const struct fixture *f, size_t function, enum tracepoint_kind kind)
{
	char name[16];

	check(try_add(f, work_name(function, name), kind), f);
}

static inline struct tracepoint_info info(const struct fixture *f, const char *name)
{
	size_t index = 0;

	check(session_flush(f->session), f);
	check(session_find(f->session, name, &index), f);
	return session_tracepoint(f->session, index);
}

/* Each event of the trace as a line, as babeltrace2 reads it; NULL: no more. */
static inline const char *next_event(FILE *pipe, char line[1024])
{
	if (!fgets(line, 1024, pipe)) {
		assert_int_equal(pclose(pipe), 0);
		return NULL;
	}
	if (*line != '[')
		fail_msg("babeltrace2: %s", line);
	return line;
}

static inline FILE *open_trace(const struct fixture *f)
{
	char command[192];

	snprintf(command, sizeof(command), "babeltrace2 '%s' 2>&1", f->output);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	return pipe;
}

/* Events of that name with that text in them. */
static inline uint64_t judge(const struct fixture *f, const char *event, const char *text)
{
	FILE *pipe = open_trace(f);
	char line[1024], wanted[64];
	uint64_t count = 0;

	snprintf(wanted, sizeof(wanted), " %s:", event);
	while (next_event(pipe, line))
		count += strstr(line, wanted) && strstr(line, text);
	return count;
}

/* Entries and bare hits of each function. */
static inline void judge_all(const struct fixture *f, uint64_t counts[FUNCTIONS])
{
	FILE *pipe = open_trace(f);
	char line[1024];

	memset(counts, 0, FUNCTIONS * sizeof(*counts));
	while (next_event(pipe, line)) {
		const char *name = strstr(line, " work_");
		unsigned long function =
			name ? strtoul(name + strlen(" work_"), NULL, 10) : FUNCTIONS;

		assert_true(function < FUNCTIONS);
		counts[function] += !strstr(name, "_exit:");
	}
}

static inline double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

#endif
