/*
 * Tracepoints switched, removed and added again at random, one by one, in a process whose threads
 * run through them all the time: its functions' results stay right, and memory is reused.
 *
 * The target is tests/programs/mill, which has no sanitizers, even if this test has.
 * CHANGE_SECONDS=N makes the random part longer (make torture), CHANGE_ONLY=NAME runs one test (a
 * glob).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/code/decode.h"
#include "control/session/session.h"

#include "../programs/mill.h"
#include "built.h"
#include "place.h"
#include "target.h"
#include "thin.h"

#define LEFT_OUT_MAX 8
#define CYCLES_FIRST 400 /* all has been used once by then */
#define CODE_WAITING_MAX (260 * 1024)
#define TARGET_SLACK_KIB 256
#define HERE_SLACK_KIB 2048
#define CODE_MAX 200 /* bytes of a shape that are looked at */

/* ---- the target ------------------------------------------------------------------------------ */

/* A call that stays inside until it is told to return: it says so, and waits for a byte. */
static int inside[2], outside[2];
static struct mill_shape shapes[MILL_SHAPES];

/* It tells where its shapes are when its threads run, and dies with the test. */
static pid_t start_target(void)
{
	char path[PATH_MAX], numbers[3][16];
	int ready[2];

	assert_true(!pipe(ready) && !pipe(inside) && !pipe(outside));
	target_path("mill", path);
	snprintf(numbers[0], sizeof(numbers[0]), "%d", ready[1]);
	snprintf(numbers[1], sizeof(numbers[1]), "%d", inside[1]);
	snprintf(numbers[2], sizeof(numbers[2]), "%d", outside[0]);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path, numbers[0], numbers[1], numbers[2], NULL);
		_exit(127);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], shapes, sizeof(shapes)), sizeof(shapes));
	close(ready[0]);
	return pid;
}

/* ---- the session ----------------------------------------------------------------------------- */

struct fixture {
	pid_t pid;
	struct proc *proc;
	struct session *session;
	char output[64];
	char left_out[LEFT_OUT_MAX][32]; /* there may be a few, depending on the compiler */
	size_t left_out_count;
	bool counts_nothing; /* what was recorded doesn't matter */
};

static void add(struct fixture *f, const char *location, enum tracepoint_kind kind)
{
	const struct tracepoint_spec spec = { .location = location, .kind = kind };

	assert_null(session_add(f->session, &spec, NULL));
}

static size_t read_code(pid_t pid, uint64_t at, uint8_t *code, size_t size)
{
	struct iovec local = { code, size }, remote = { (void *)(uintptr_t)at, size };
	ssize_t n = process_vm_readv(pid, &local, 1, &remote, 1, 0);

	assert_true(n > 0);
	return (size_t)n;
}

/* Every instruction of every shape, but for those that were refused; of the one that is too short
 * for all, the first. */
static void add_instructions(struct fixture *f)
{
	for (size_t i = 0; i < MILL_SHAPES; i++) {
		uint64_t at = shapes[i].at;
		uint8_t code[CODE_MAX + 15];
		size_t length = read_code(f->pid, at, code, sizeof(code));
		struct insn insn;
		bool ended = false;

		for (size_t n = 0; n < CODE_MAX && !ended; n += insn.length) {
			char location[32];
			bool left_out = false;

			assert_true(n < length &&
				    decode_quick(code + n, length - n, taddr_of(at + n), &insn));
			snprintf(location, sizeof(location), "0x%lx", (unsigned long)(at + n));
			for (size_t j = 0; j < f->left_out_count; j++)
				left_out |= !strcmp(f->left_out[j], location);
			if (!left_out)
				add(f, location, TRACEPOINT_BARE);
			ended = insn.flow == FLOW_RETURN || shapes[i].first_only;
		}
	}
}

/* What is traced; MIXED: functions with exits, and every instruction. */
enum what { ENTRIES, INSTRUCTIONS, EXITS, MIXED };

static struct error *try_begin(struct fixture *f, enum what what)
{
	/* for hours every hit would be on a disk in memory */
	bool is_long = getenv("CHANGE_SECONDS") || getenv("CHANGE_CYCLES");
	struct session_options options = { .output = f->output,
					   .buffer_size = 4 << 20,
					   .follow_fork = true,
					   .mode = is_long && f->counts_nothing ?
							   SESSION_OVERWRITE :
							   SESSION_DISCARD };

	assert_null(session_create(f->proc, &options, &f->session));
	if (what != INSTRUCTIONS)
		add(f, "mill_*", what == ENTRIES ? TRACEPOINT_ENTRY : TRACEPOINT_FUNCTION);
	if (what == INSTRUCTIONS || what == MIXED)
		add_instructions(f);
	assert_null(session_resolve(f->session));
	return session_begin(f->session, NULL);
}

static void begin(struct fixture *f, enum what what)
{
	struct error *error;

	snprintf(f->output, sizeof(f->output), "%s/dyntrace-change-%d-%ld", place_memory(),
		 getpid(), random());
	f->pid = start_target();
	assert_null(proc_open(f->pid, &f->proc));
	while ((error = try_begin(f, what))) {
		if (f->left_out_count == LEFT_OUT_MAX ||
		    sscanf(error_text(error), "cannot probe '%31[^']'",
			   f->left_out[f->left_out_count]) != 1)
			fail_msg("%s", error_text(error));
		f->left_out_count++;
		error_free(error);
		session_destroy(f->session);
	}
}

static void end(struct fixture *f)
{
	struct session_summary summary = { 0 };
	char command[96];
	int status;

	assert_null(session_end(f->session, &summary));
	assert_false(summary.left);
	session_destroy(f->session);
	/* it lives: nothing was computed wrong */
	assert_int_equal(waitpid(f->pid, &status, WNOHANG), 0);
	kill(f->pid, SIGKILL);
	waitpid(f->pid, &status, 0);
	for (int i = 0; i < 2; i++)
		close(inside[i]), close(outside[i]);
	proc_close(f->proc);
	snprintf(command, sizeof(command), "rm -rf %s", f->output);
	assert_int_equal(system(command), 0);
}

static void check(struct error *error, struct fixture *f)
{
	int status;

	if (error)
		fail_msg("%s", error_text(error));
	if (waitpid(f->pid, &status, WNOHANG) != 0)
		fail_msg("the target ended: %d", status);
}

static uint64_t hits(struct fixture *f, size_t index)
{
	struct timespec nap = { .tv_nsec = 1000000 };

	for (int i = 0; i < 3; i++) { /* what was written before is read */
		nanosleep(&nap, NULL);
		check(session_step(f->session, 0), f);
	}
	return session_tracepoint(f->session, index).hits +
	       session_tracepoint(f->session, index).lost;
}

static void turn(struct fixture *f, size_t index, bool on)
{
	check(session_switch(f->session, session_tracepoint(f->session, index).name, on, NULL), f);
}

/* Each in turn, exactly: off means no more hits, on means more, out and back likewise. */
static void test_one_by_one(void **state)
{
	struct fixture f = { 0 };

	begin(&f, ENTRIES);
	for (size_t i = 0; i < session_tracepoint_count(f.session); i++) {
		if (!strncmp(session_tracepoint(f.session, i).name, "mill_hold", 9))
			continue; /* nobody lets it out here */
		for (int remove = 0; remove < 2; remove++) {
			uint64_t before;

			if (remove)
				check(session_take_out(f.session, i), &f);
			else
				turn(&f, i, false);
			for (before = hits(&f, i); hits(&f, i) != before; before = hits(&f, i))
				; /* threads that were inside end, buffers are written */
			if (remove)
				check(session_put_back(f.session, i), &f);
			else
				turn(&f, i, true);
			for (int tries = 0; hits(&f, i) == before; tries++)
				if (tries > 20000)
					fail_msg("%s, %s: no more hits",
						 session_tracepoint(f.session, i).name,
						 remove ? "put back" : "switched on");
		}
	}
	end(&f);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What was there once can be put back, whatever is there now, and was meanwhile. */
static void change_randomly(enum what what, double seconds_wanted)
{
	struct fixture f = { .counts_nothing = true };
	const char *seconds = getenv("CHANGE_SECONDS");
	double until = now() + (seconds ? atof(seconds) : seconds_wanted);
	uint64_t changes = 0;

	const char *given = getenv("CHANGE_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL);

	print_message("CHANGE_SEED=%u\n", seed);
	begin(&f, what);
	srandom(seed);
	while (now() < until) {
		size_t index = (size_t)random() % session_tracepoint_count(f.session);

		if (session_tracepoint(f.session, index).refusal)
			continue;
		switch (random() % 4) {
		case 0:
			turn(&f, index, random() & 1);
			break;
		case 1:
			check(session_put_back(f.session, index), &f);
			break;
		default:
			check(session_take_out(f.session, index), &f);
		}
		changes++;
		check(session_step(f.session, 0), &f);
	}
	print_message("%lu changes of %zu tracepoints\n", (unsigned long)changes,
		      session_tracepoint_count(f.session));
	end(&f);
}

/* P3 to P8: sites that lead through each other (P6) are exchanged in groups (P7), and trampolines
 * of removed sites are redirected (P8), while threads run through all of them. */
static void test_random(void **state)
{
	change_randomly(INSTRUCTIONS, THIN(2, 1));
}

/* With calls inside all the time, whose exits are recorded. */
static void test_random_exits(void **state)
{
	change_randomly(EXITS, THIN(2, 1));
}

static void test_random_mixed(void **state)
{
	change_randomly(MIXED, THIN(2, 1));
}

/* Out all of them, and back one by one among those that are there already: upwards, downwards,
 * every third. */
static void test_in_turn(void **state)
{
	struct fixture f = { 0 };

	begin(&f, INSTRUCTIONS);
	size_t count = session_tracepoint_count(f.session);
	static const size_t steps[] = { 0, 3, 1, 7 };
	for (size_t order = 0; order < THIN(4, 2); order++) {
		size_t step = steps[order] ? steps[order] : 1;

		for (size_t i = 0; i < count; i++)
			check(session_take_out(f.session, i), &f);
		for (size_t first = 0; first < step; first++)
			for (size_t i = first; i < count; i += step)
				check(session_put_back(f.session, steps[order] ? i : count - 1 - i),
				      &f);
	}
	end(&f);
}

/* KiB, by the kernel's word for it. */
static long memory_of(pid_t pid, const char *field)
{
	char path[64], line[256];
	long kib = -1;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	FILE *file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, strlen(field)) && line[strlen(field)] == ':')
			kib = atol(line + strlen(field) + 1);
	}
	fclose(file);
	assert_true(kib >= 0);
	return kib;
}

/* What adding and removing may make larger: the code in use, the target's address space and its own
 * memory, and ours. */
struct sizes {
	uint64_t code;
	long space, target, here;
};

static struct sizes measure(const struct fixture *f)
{
	return (struct sizes){ session_code_used(f->session), memory_of(f->pid, "VmSize"),
			       memory_of(f->pid, "RssAnon"), memory_of(getpid(), "RssAnon") };
}

/* Nothing of it does, beyond what waits to be used again. */
static void check_sizes(const struct fixture *f, const struct sizes *before)
{
	struct sizes now = measure(f);

	assert_true(now.code <= before->code + CODE_WAITING_MAX);
	assert_true(now.space <= before->space + CODE_WAITING_MAX / 1024);
	assert_true(now.target <= before->target + TARGET_SLACK_KIB);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
	assert_true(now.here <= before->here + HERE_SLACK_KIB);
#endif
}

/* The memory of what was removed is used again. */
static void cycle(enum what what)
{
	const char *wanted = getenv("CHANGE_CYCLES");
	long cycles = wanted ? atol(wanted) : THIN(700, 200);
	struct fixture f = { .counts_nothing = true };
	struct sizes before = { 0 };

	begin(&f, what);
	for (long i = 0; i < cycles; i++) {
		size_t index = (size_t)i % session_tracepoint_count(f.session);

		check(session_take_out(f.session, index), &f);
		check(session_put_back(f.session, index), &f);
		if (i == CYCLES_FIRST)
			before = measure(&f);
		if (i > CYCLES_FIRST && i % 100 == 0)
			check_sizes(&f, &before);
		if (i % 64 == 0)
			check(session_step(f.session, 0), &f);
	}
	struct sizes now = measure(&f);
	print_message(
		"%ld cycles: code %lu -> %lu bytes, target's space %ld -> %ld, its own memory %ld "
		"-> %ld, ours %ld -> %ld KiB\n",
		cycles, (unsigned long)before.code, (unsigned long)now.code, before.space,
		now.space, before.target, now.target, before.here, now.here);
	end(&f);
}

static void test_cycles_do_not_grow(void **state)
{
	cycle(ENTRIES);
}

/* Their stubs lead elsewhere first. */
static void test_cycles_with_exits_do_not_grow(void **state)
{
	cycle(EXITS);
}

static void wait_inside(void)
{
	char byte;

	assert_int_equal(read(inside[0], &byte, 1), 1);
}

static void let_out(void)
{
	assert_int_equal(write(outside[1], "", 1), 1);
}

static size_t find_tracepoint(struct fixture *f, const char *name)
{
	for (size_t i = 0; i < session_tracepoint_count(f->session); i++) {
		if (!strcmp(session_tracepoint(f->session, i).name, name))
			return i;
	}
	fail_msg("no tracepoint %s", name);
	return 0;
}

/* So much is taken out and put back that garbage is looked at, several times. */
static void make_garbage(struct fixture *f, size_t but_for)
{
	for (size_t i = 0; i < THIN(800, 400); i++) {
		size_t index = i % session_tracepoint_count(f->session);

		if (index == but_for)
			continue;
		check(session_take_out(f->session, index), f);
		check(session_put_back(f->session, index), f);
	}
}

/* Events are written within a moment; then they are exactly so many, those included for which the
 * buffer was full. */
static void expect_calls(struct fixture *f, size_t index, uint64_t entries, uint64_t exits)
{
	struct tracepoint_info info;
	int tries = 0;

	do {
		hits(f, index);
		info = session_tracepoint(f->session, index);
	} while (++tries < 2000 &&
		 (info.hits + info.lost < entries || info.exits + info.exits_lost < exits));
	assert_int_equal(info.hits + info.lost, entries);
	assert_int_equal(info.exits + info.exits_lost, exits);
	assert_int_equal(info.missed, 0);
}

/* (R5) Removed with a call inside: it returns to where it should, into code that is kept for it,
 * and only then is that freed. Put back with a call inside that began before: that call has no
 * exit. */
static void test_removed_with_a_call_inside(void **state)
{
	struct fixture f = { 0 };

	begin(&f, EXITS);
	size_t hold = find_tracepoint(&f, "mill_hold");
	wait_inside();
	let_out(); /* this one began before we came */
	wait_inside();
	expect_calls(&f, hold, 1, 0);
	check(session_take_out(f.session, hold), &f);
	make_garbage(&f, hold);
	let_out(); /* and this one returns into what was removed */
	wait_inside(); /* a call that isn't traced */
	expect_calls(&f, hold, 1, 1);
	make_garbage(&f, hold);
	check(session_put_back(f.session, hold), &f);
	let_out(); /* it returns unrecorded */
	wait_inside();
	let_out();
	wait_inside();
	expect_calls(&f, hold, 3, 2);
	end(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_by_one),
		cmocka_unit_test(test_in_turn),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_removed_with_a_call_inside),
		cmocka_unit_test(test_random_exits),
		cmocka_unit_test(test_random_mixed),
		cmocka_unit_test(test_cycles_do_not_grow),
		cmocka_unit_test(test_cycles_with_exits_do_not_grow),
	};

	built_use_agent();
	if (getenv("CHANGE_ONLY"))
		cmocka_set_test_filter(getenv("CHANGE_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
