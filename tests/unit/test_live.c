/*
 * Tracepoints that come, go, are switched and get contexts while the session records, in a process whose threads run through
 * them all the time and count their own calls. What the trace has is compared with that: exactly where a tracepoint was
 * there while the threads stood still before and after, within the calls that were going on where they didn't.
 *
 * The target is a forked child of this program. LIVE_SECONDS and LIVE_CYCLES make it longer (make torture).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/ctf/trace_dir.h"
#include "control/session/session.h"

#define THREADS 4
#define FUNCTIONS 24
#define CALLS_AT_ONCE 32

/* ---- what the target runs --------------------------------------------------------------------- */

#define WORK(n)                                                                     \
	uint64_t work_##n(uint64_t, const char *);                                  \
	__attribute__((noinline, used)) uint64_t work_##n(uint64_t x, const char *s) \
	{                                                                           \
		__asm__ volatile("" : "+r"(x));                                     \
		return x * (2 * n + 1) + (uint64_t)s[0];                            \
	}
#define EACH(w) w(0) w(1) w(2) w(3) w(4) w(5) w(6) w(7) w(8) w(9) w(10) w(11) w(12) w(13) w(14) w(15) w(16) w(17) w(18) w(19) \
		w(20) w(21) w(22) w(23)
EACH(WORK)
#define NAME(n) work_##n,
static uint64_t (*const functions[FUNCTIONS])(uint64_t, const char *) = { EACH(NAME) };

/* Shared with the target. */
static struct shared {
	uint32_t paused; /* wanted */
	uint32_t standing; /* threads that do */
	struct {
		uint64_t begun, done;
	} calls[THREADS][FUNCTIONS];
} *shared;

void stand_still(void);
__attribute__((noinline, used)) void stand_still(void)
{
	__asm__ volatile("");
	__atomic_fetch_add(&shared->standing, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->paused, __ATOMIC_SEQ_CST))
		nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
	__atomic_fetch_sub(&shared->standing, 1, __ATOMIC_SEQ_CST);
}

static void *run_functions(void *number)
{
	uintptr_t thread = (uintptr_t)number;
	uint64_t random = thread * 2654435761u + 1;

	for (unsigned calls = 0;; calls++) {
		if (__atomic_load_n(&shared->paused, __ATOMIC_SEQ_CST))
			stand_still();
		if (calls % CALLS_AT_ONCE == 0) /* or the trace is gigabytes */
			nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
		random = random * 6364136223846793005u + 1442695040888963407u;
		size_t f = (random >> 33) % FUNCTIONS;

		__atomic_fetch_add(&shared->calls[thread][f].begun, 1, __ATOMIC_SEQ_CST);
		if (functions[f](calls, "text") != calls * (2 * f + 1) + 't')
			abort();
		__atomic_fetch_add(&shared->calls[thread][f].done, 1, __ATOMIC_SEQ_CST);
	}
	return NULL;
}

static pid_t start_target(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(shared != MAP_FAILED);
	shared->paused = 1;
	pid_t pid = fork();
	if (pid == 0) {
		pthread_t thread;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (uintptr_t i = 0; i < THREADS; i++)
			pthread_create(&thread, NULL, run_functions, (void *)i);
		for (;;)
			pause();
	}
	return pid;
}

static uint64_t begun(size_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < THREADS; i++)
		sum += __atomic_load_n(&shared->calls[i][function].begun, __ATOMIC_SEQ_CST);
	return sum;
}

static uint64_t done(size_t function)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < THREADS; i++)
		sum += __atomic_load_n(&shared->calls[i][function].done, __ATOMIC_SEQ_CST);
	return sum;
}

/* ---- the session -------------------------------------------------------------------------------- */

struct fixture {
	pid_t pid;
	struct proc *proc;
	struct session *session;
	char output[64];
	uint64_t recorded[FUNCTIONS]; /* that the trace must have, by tracepoints that are gone */
};

static void check(struct error *error, const struct fixture *f)
{
	int status;

	if (error)
		fail_msg("%s", error_text(error));
	if (waitpid(f->pid, &status, WNOHANG) != 0)
		fail_msg("the target ended: %d", status);
}

static void stand(const struct fixture *f)
{
	__atomic_store_n(&shared->paused, 1, __ATOMIC_SEQ_CST);
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST) != THREADS)
		check(f->session ? session_step(f->session, 1) : NULL, f);
}

static void go(void)
{
	__atomic_store_n(&shared->paused, 0, __ATOMIC_SEQ_CST);
}

/* Until each function was called that many times more. */
static void work(const struct fixture *f, uint64_t more)
{
	uint64_t from[FUNCTIONS];

	for (size_t i = 0; i < FUNCTIONS; i++)
		from[i] = done(i);
	go();
	for (size_t i = 0; i < FUNCTIONS; i++) {
		while (done(i) < from[i] + more)
			check(session_step(f->session, 1), f);
	}
	stand(f);
}

static void begin(struct fixture *f, struct session_options options)
{
	snprintf(f->output, sizeof(f->output), "/dev/shm/dyntrace-live-%d-%ld", getpid(), random());
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

static void leave(struct fixture *f)
{
	struct session_summary summary = { 0 };

	check(session_end(f->session, &summary), f);
	assert_false(summary.left);
	assert_int_equal(summary.totals.lost, 0);
}

static void end(struct fixture *f)
{
	char command[96];
	int status;

	session_destroy(f->session);
	assert_int_equal(waitpid(f->pid, &status, WNOHANG), 0); /* it lives: nothing was computed wrong */
	kill(f->pid, SIGKILL);
	waitpid(f->pid, &status, 0);
	proc_close(f->proc);
	snprintf(command, sizeof(command), "rm -rf %s", f->output);
	assert_int_equal(system(command), 0);
	munmap(shared, sizeof(*shared));
}

static char *work_name(size_t function, char name[16])
{
	snprintf(name, 16, "work_%zu", function);
	return name;
}

/* By its location alone. */
static struct error *try_add(const struct fixture *f, const char *location, enum tracepoint_kind kind)
{
	return session_add(f->session, &(struct tracepoint_spec){ .location = location, .kind = kind }, NULL);
}

static void add(const struct fixture *f, size_t function, enum tracepoint_kind kind)
{
	char name[16];

	check(try_add(f, work_name(function, name), kind), f);
}

static struct tracepoint_info info(const struct fixture *f, const char *name)
{
	size_t index = 0;

	check(session_flush(f->session), f);
	check(session_find(f->session, name, &index), f);
	return session_tracepoint(f->session, index);
}

/* Each event of the trace as a line, as babeltrace2 reads it; NULL: no more. */
static const char *next_event(FILE *pipe, char line[1024])
{
	if (!fgets(line, 1024, pipe)) {
		assert_int_equal(pclose(pipe), 0);
		return NULL;
	}
	if (*line != '[')
		fail_msg("babeltrace2: %s", line);
	return line;
}

static FILE *open_trace(const struct fixture *f)
{
	char command[192];

	snprintf(command, sizeof(command), "babeltrace2 '%s' 2>&1", f->output);
	FILE *pipe = popen(command, "r");
	assert_non_null(pipe);
	return pipe;
}

/* Events of that name with that text in them. */
static uint64_t judge(const struct fixture *f, const char *event, const char *text)
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
static void judge_all(const struct fixture *f, uint64_t counts[FUNCTIONS])
{
	FILE *pipe = open_trace(f);
	char line[1024];

	memset(counts, 0, FUNCTIONS * sizeof(*counts));
	while (next_event(pipe, line)) {
		const char *name = strstr(line, " work_");
		unsigned long function = name ? strtoul(name + strlen(" work_"), NULL, 10) : FUNCTIONS;

		assert_true(function < FUNCTIONS);
		counts[function] += !strstr(name, "_exit:");
	}
}

/* ---- one after the other ------------------------------------------------------------------------ */

/* No tracepoint, no trace; what is added later has exactly the calls from then on. */
static void test_add_and_remove(void **state)
{
	struct fixture f = { 0 };
	struct stat st;
	size_t count = 0;

	begin(&f, (struct session_options){ 0 });
	work(&f, 10);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	assert_int_not_equal(stat(f.output, &st), 0);

	uint64_t before = done(3);
	add(&f, 3, TRACEPOINT_ENTRY);
	work(&f, 100);
	assert_int_equal(info(&f, "work_3").hits, done(3) - before);
	assert_string_equal(info(&f, "work_3").location, "work_3");
	assert_true(info(&f, "work_3").enabled && info(&f, "work_3").code_bytes > 0);

	uint64_t second = done(4), first = done(3) - before;
	add(&f, 4, TRACEPOINT_FUNCTION);
	check(session_remove(f.session, "work_3", &count), &f);
	assert_int_equal(count, 1);
	work(&f, 100);
	assert_int_equal(session_tracepoint_count(f.session), 1);
	assert_int_equal(info(&f, "work_4").hits, done(4) - second);
	assert_int_equal(info(&f, "work_4").exits, done(4) - second);

	/* the name is free, and counts begin anew */
	uint64_t again = done(3);
	add(&f, 3, TRACEPOINT_ENTRY);
	work(&f, 50);
	assert_int_equal(info(&f, "work_3").hits, done(3) - again);
	uint64_t total = first + done(3) - again, fours = done(4) - second;
	leave(&f);
	assert_int_equal(judge(&f, "work_3_entry", ""), total);
	assert_int_equal(judge(&f, "work_4_entry", ""), fours);
	assert_int_equal(judge(&f, "work_4_exit", "duration"), fours);
	end(&f);
}

/* Several names, globs, and a session without any event leaves no directory. */
static void test_names(void **state)
{
	struct name_list names = { 0 };
	struct fixture f = { 0 };
	struct stat st;
	size_t count = 0;

	begin(&f, (struct session_options){ 0 });
	struct tracepoint_spec spec = { .location = "work_1*", .kind = TRACEPOINT_ENTRY };
	check(session_add(f.session, &spec, &names), &f);
	assert_int_equal(names.count, 11); /* 1, 10 to 19 */
	name_list_free(&names);

	spec = (struct tracepoint_spec){ .location = "work_1", .name = "mine" };
	check(session_add(f.session, &spec, &names), &f);
	assert_int_equal(names.count, 1);
	assert_string_equal(names.items[0], "mine");
	name_list_free(&names);
	_cleanup_error_ struct error *taken = session_add(f.session, &spec, NULL);
	assert_non_null(taken);
	assert_string_equal(error_text(taken), "there is a tracepoint 'mine' already: give another name");
	add(&f, 1, TRACEPOINT_ENTRY);
	assert_string_equal(info(&f, "work_1-2").location, "work_1");

	_cleanup_error_ struct error *none = session_remove(f.session, "work_9*", &count);
	assert_string_equal(error_text(none), "there is no tracepoint 'work_9*'");
	check(session_remove(f.session, "work_1?", &count), &f);
	assert_int_equal(count, 10);
	check(session_remove(f.session, "*", &count), &f);
	assert_int_equal(count, 3);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	work(&f, 10);
	leave(&f);
	assert_int_equal(stat(f.output, &st), 0); /* there were tracepoints, if no events */
	assert_int_equal(judge(&f, "work", ""), 0);
	end(&f);
}

/* What fails leaves nothing: neither a name, nor memory, nor the trace's directory. */
static void test_all_or_nothing(void **state)
{
	static const char *const contexts[] = { "var:nonesuch" };
	struct fixture f = { 0 };
	struct stat st;

	begin(&f, (struct session_options){ 0 });
	uint64_t used = session_code_used(f.session);
	struct tracepoint_spec spec = { .location = "work_2", .contexts = contexts, .context_count = 1 };
	_cleanup_error_ struct error *context = session_add(f.session, &spec, NULL);
	assert_non_null(context);
	_cleanup_error_ struct error *place = try_add(&f, "work_2+1", TRACEPOINT_BARE);
	assert_non_null(place);
	assert_non_null(strstr(error_text(place), "not the start of an instruction"));
	_cleanup_error_ struct error *name = try_add(&f, "nonesuch_function", TRACEPOINT_ENTRY);
	assert_non_null(name);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	assert_int_equal(session_code_used(f.session), used);
	assert_int_not_equal(stat(f.output, &st), 0);
	leave(&f);
	assert_int_not_equal(stat(f.output, &st), 0);
	end(&f);
}

/* Off is off, as a whole and one by one; what is added while all is off is off too. */
static void test_switches(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ .stopped = true });
	add(&f, 5, TRACEPOINT_ENTRY);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, 0);
	uint64_t from = done(5);
	check(session_recording(f.session, true), &f);
	work(&f, 50);
	uint64_t first = done(5) - from;
	assert_int_equal(info(&f, "work_5").hits, first);

	check(session_switch(f.session, "work_5", false, NULL), &f);
	assert_false(info(&f, "work_5").enabled);
	work(&f, 50);
	check(session_recording(f.session, false), &f);
	check(session_switch(f.session, "work_5", true, NULL), &f);
	add(&f, 6, TRACEPOINT_FUNCTION);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, first);
	assert_int_equal(info(&f, "work_6").hits, 0);
	from = done(5);
	uint64_t sixes = done(6);
	check(session_recording(f.session, true), &f);
	work(&f, 50);
	assert_int_equal(info(&f, "work_5").hits, first + done(5) - from);
	assert_int_equal(info(&f, "work_6").exits, done(6) - sixes);
	leave(&f);
	end(&f);
}

/* A call that began before recording was stopped and returns later records no exit; one that returns after it was
 * started again does. */
static void test_stopped_inside(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ 0 });
	uint64_t from = done(0);
	check(try_add(&f, "work_*", TRACEPOINT_FUNCTION), &f);
	check(try_add(&f, "stand_still", TRACEPOINT_FUNCTION), &f); /* each thread is inside when it stands */
	work(&f, 10);
	assert_int_equal(info(&f, "stand_still").hits, THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	check(session_recording(f.session, false), &f);
	work(&f, 10); /* they leave, and enter again */
	assert_int_equal(info(&f, "stand_still").hits, THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	uint64_t recorded = info(&f, "work_0").hits, again = done(0);
	assert_true(recorded < done(0) - from);
	check(session_recording(f.session, true), &f);
	work(&f, 10);
	assert_int_equal(info(&f, "work_0").hits, recorded + done(0) - again);
	assert_int_equal(info(&f, "work_0").exits, recorded + done(0) - again);
	assert_int_equal(info(&f, "stand_still").hits, 2 * THREADS);
	assert_int_equal(info(&f, "stand_still").exits, 0);
	leave(&f);
	assert_int_equal(judge(&f, "stand_still_exit", ""), 0);
	assert_int_equal(judge(&f, "stand_still_entry", ""), 2 * THREADS);
	end(&f);
}

/* From one event to the next they have one field more; none is lost in between, although the threads never stop. */
static void test_contexts(void **state)
{
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ 0 });
	uint64_t from = done(7), exits = done(8);
	add(&f, 7, TRACEPOINT_ENTRY);
	add(&f, 8, TRACEPOINT_FUNCTION);
	go();
	static const char *const types[] = { "reg:rsp", "tid", "cpu", "reg:rbx", "comm", "pid" };
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		uint64_t now = done(7);

		while (done(7) < now + 200)
			check(session_step(f.session, 1), &f);
		check(session_add_context(f.session, "work_[78]", types[i], NULL), &f);
	}
	_cleanup_error_ struct error *again = session_add_context(f.session, "work_7", "tid", NULL);
	assert_string_equal(error_text(again), "'work_7' has the context tid already");
	work(&f, 200);
	struct tracepoint_info seven = info(&f, "work_7");
	assert_int_equal(seven.context_count, 6);
	assert_string_equal(seven.contexts[5], "pid");
	assert_int_equal(seven.hits, done(7) - from);
	assert_int_equal(info(&f, "work_8").hits, done(8) - exits);
	assert_int_equal(info(&f, "work_8").exits, done(8) - exits);
	leave(&f);
	assert_int_equal(judge(&f, "work_7_entry", ""), done(7) - from);
	assert_int_equal(judge(&f, "work_8_entry", ""), done(8) - exits);
	assert_int_equal(judge(&f, "work_8_exit", ""), done(8) - exits);
	uint64_t with_comm = judge(&f, "work_7_entry", "comm = \"");
	assert_true(with_comm >= 400 && with_comm < done(7) - from - 600);
	end(&f);
}

/* ---- a forked child --------------------------------------------------------------------------------------- */

#define CHILD_CALLS 40

/* Forks a child that calls a function so many times whenever it is told to; each answers. */
static void obey_forking(int socket, int child_socket)
{
	char word;

	while (read(socket, &word, 1) == 1) {
		if (word == 'f' && fork() == 0) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			socket = child_socket;
		}
		for (int i = 0; word == 'c' && i < CHILD_CALLS; i++)
			work_11((uint64_t)i, "text");
		if (write(socket, &word, 1) != 1)
			_exit(5);
	}
	_exit(0);
}

static void ask(const struct fixture *f, int socket, char word);
static void await_answer(const struct fixture *f, int socket, char word);

/* What was forked before a change goes on as it was, however often the memory of what was changed is used again; what is
 * switched off or removed is so there, too. */
static void test_forked_child(void **state)
{
	struct session_options options = { .buffer_size = 4 << 20, .follow_fork = true };
	struct fixture f = { 0 };
	int parent[2], child[2];
	char name[16];

	snprintf(f.output, sizeof(f.output), "/dev/shm/dyntrace-live-%d-forked", getpid());
	options.output = f.output;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, parent), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, child), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	f.pid = fork();
	if (f.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		obey_forking(parent[1], child[1]);
	}
	check(proc_open(f.pid, &f.proc), &f);
	check(session_create(f.proc, &options, &f.session), &f);
	check(session_begin(f.session, NULL), &f);
	add(&f, 11, TRACEPOINT_FUNCTION);
	ask(&f, parent[0], 'f');
	await_answer(&f, child[0], 'f');
	check(session_add_context(f.session, "work_11", "reg:rsp", NULL), &f);
	for (size_t i = 0; i < 600; i++) { /* memory is used again */
		add(&f, i % 11, TRACEPOINT_FUNCTION);
		check(session_remove(f.session, work_name(i % 11, name), NULL), &f);
		if (i % 50 == 0)
			ask(&f, child[0], 'c');
	}
	ask(&f, parent[0], 'c');
	ask(&f, child[0], 'c');
	assert_int_equal(info(&f, "work_11").hits, 14 * CHILD_CALLS);
	check(session_switch(f.session, "work_11", false, NULL), &f);
	ask(&f, parent[0], 'c');
	check(session_remove(f.session, "work_11", NULL), &f);
	ask(&f, child[0], 'c');
	ask(&f, parent[0], 'c');
	leave(&f);
	ask(&f, child[0], 'c');
	assert_int_equal(judge(&f, "work_11_entry", ""), 14 * CHILD_CALLS);
	assert_int_equal(judge(&f, "work_11_exit", ""), 14 * CHILD_CALLS);
	assert_int_equal(judge(&f, "work_11_entry", "rsp = "), CHILD_CALLS);
	for (int i = 0; i < 2; i++) {
		close(parent[i]);
		close(child[i]);
	}
	end(&f);
}

/* ---- under load ----------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What is known of a function's tracepoint: hits lie between `least` and `most`. */
struct known {
	bool there, on;
	uint64_t done_at, begun_at; /* calls, when it was surely not recorded yet, and surely was */
	uint64_t least, most;
	unsigned contexts;
};

static void start_counting(struct known *known, size_t function, uint64_t done_before)
{
	known->on = true;
	known->done_at = done_before;
	known->begun_at = begun(function);
}

static void stop_counting(struct known *known, size_t function, uint64_t done_before)
{
	uint64_t begun_now = begun(function);

	known->on = false;
	known->most += begun_now - known->done_at;
	known->least += done_before > known->begun_at ? done_before - known->begun_at : 0;
}

static void change_one(struct fixture *f, struct known *known, size_t function)
{
	static const char *const contexts[] = { "reg:rsp", "tid", "reg:rbx", "cpu" };
	static const enum tracepoint_kind kinds[] = { TRACEPOINT_BARE, TRACEPOINT_ENTRY };
	uint64_t before = done(function);
	char name[16];

	work_name(function, name);
	if (!known->there) {
		add(f, function, kinds[random() % 2]);
		*known = (struct known){ .there = true, .least = known->least, .most = known->most };
		start_counting(known, function, before);
		return;
	}
	switch (random() % 4) {
	case 0:
		check(session_remove(f->session, name, NULL), f);
		if (known->on)
			stop_counting(known, function, before);
		known->there = false;
		break;
	case 1:
		check(session_switch(f->session, name, !known->on, NULL), f);
		if (known->on)
			stop_counting(known, function, before);
		else
			start_counting(known, function, before);
		break;
	default:
		if (known->contexts < 4)
			check(session_add_context(f->session, name, contexts[known->contexts++], NULL), f);
	}
}

static void test_random(void **state)
{
	const char *seconds = getenv("LIVE_SECONDS");
	double until = now() + (seconds ? atof(seconds) : 5);
	struct known known[FUNCTIONS] = { 0 };
	struct fixture f = { 0 };
	uint64_t changes = 0, counts[FUNCTIONS];

	begin(&f, (struct session_options){ 0 });
	uint64_t steady = done(0);
	add(&f, 0, TRACEPOINT_FUNCTION); /* stays as it is */
	srandom((unsigned)time(NULL));
	go();
	for (; now() < until; changes++) {
		size_t function = 1 + (size_t)random() % (FUNCTIONS - 1);

		change_one(&f, &known[function], function);
		check(session_step(f.session, 0), &f);
	}
	stand(&f);
	for (size_t i = 1; i < FUNCTIONS; i++) {
		if (known[i].on)
			stop_counting(&known[i], i, done(i));
	}
	leave(&f);
	print_message("%lu changes\n", (unsigned long)changes);
	judge_all(&f, counts);
	assert_int_equal(counts[0], done(0) - steady);
	assert_int_equal(judge(&f, "work_0_exit", ""), done(0) - steady);
	for (size_t i = 1; i < FUNCTIONS; i++) {
		if (counts[i] < known[i].least || counts[i] > known[i].most)
			fail_msg("work_%zu: %lu events, not from %lu to %lu", i, (unsigned long)counts[i],
				 (unsigned long)known[i].least, (unsigned long)known[i].most);
	}
	end(&f);
}

/* ---- for ever ------------------------------------------------------------------------------------------ */

static long resident_kib(pid_t pid)
{
	char path[64], line[256];
	long kib = 0, pages = 0;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	assert_non_null(fgets(line, sizeof(line), file));
	assert_int_equal(sscanf(line, "%*d %ld", &pages), 1);
	fclose(file);
	kib = pages * 4;
	return kib;
}

/* Add, two more contexts, remove: neither the target nor we grow, and ids don't run out. */
static void test_cycles_do_not_grow(void **state)
{
	const char *wanted = getenv("LIVE_CYCLES");
	long cycles = wanted ? atol(wanted) : 1200, settled = cycles / 2;
	long here = 0, there = 0;
	struct fixture f = { 0 };
	uint64_t code = 0;
	size_t types = 0;
	char name[16];

	begin(&f, (struct session_options){ .buffer_size = 4 << 20 });
	go();
	for (long i = 0; i < cycles; i++) {
		size_t function = (size_t)i % FUNCTIONS;

		add(&f, function, TRACEPOINT_ENTRY);
		check(session_add_context(f.session, work_name(function, name), "tid", NULL), &f);
		check(session_add_context(f.session, name, "reg:rsp", NULL), &f);
		check(session_step(f.session, 0), &f);
		check(session_remove(f.session, name, NULL), &f);
		if (i == settled) {
			here = resident_kib(getpid());
			there = resident_kib(f.pid);
			code = session_code_used(f.session);
			types = session_types(f.session)->count;
		}
	}
	stand(&f);
	assert_int_equal(session_tracepoint_count(f.session), 0);
	print_message("%ld cycles, %zu kinds of events\n", cycles, session_types(f.session)->count);
	assert_true(session_types(f.session)->count <= types + 3);
	assert_true(session_code_used(f.session) <= code + 300 * 1024);
	assert_true(resident_kib(getpid()) <= here + 1024);
	assert_true(resident_kib(f.pid) <= there + 1024);
	leave(&f);
	judge(&f, "work", "");
	end(&f);
}

/* ---- sleeping ------------------------------------------------------------------------------------------- */

/* The descriptor tells of events and of the target's end; and nothing happens when nothing does. */
static void test_sleep(void **state)
{
	struct fixture f = { 0 };
	struct pollfd wait = { .events = POLLIN };
	unsigned idle = 0;

	begin(&f, (struct session_options){ 0 });
	check(session_fd(f.session, &wait.fd), &f);
	check(session_step(f.session, 0), &f);
	assert_int_equal(session_timeout_ms(f.session), -1); /* there is nothing to wait for */
	add(&f, 9, TRACEPOINT_ENTRY);
	check(session_step(f.session, 0), &f);
	assert_true(session_timeout_ms(f.session) >= 0);

	uint64_t from = done(9);
	go();
	for (bool woken = false; !woken;) { /* a whole chunk */
		woken = poll(&wait, 1, session_timeout_ms(f.session)) > 0;
		check(session_step(f.session, 0), &f);
	}
	stand(&f);
	assert_int_equal(info(&f, "work_9").hits, done(9) - from);

	double until = now() + 4;
	for (; now() < until; idle++) {
		poll(&wait, 1, session_timeout_ms(f.session));
		check(session_step(f.session, 0), &f);
	}
	assert_true(idle < 12);
	check(session_switch(f.session, "*", false, NULL), &f);
	assert_int_equal(session_timeout_ms(f.session), -1);
	check(session_switch(f.session, "*", true, NULL), &f);

	kill(f.pid, SIGKILL);
	assert_int_equal(poll(&wait, 1, 10000), 1);
	struct session_summary summary = { 0 };
	assert_null(session_end(f.session, &summary));
	assert_int_equal(judge(&f, "work_9_entry", ""), done(9) - from);
	session_destroy(f.session);
	proc_close(f.proc);
	waitpid(f.pid, NULL, 0);
	char command[96];
	snprintf(command, sizeof(command), "rm -rf %s", f.output);
	assert_int_equal(system(command), 0);
	munmap(shared, sizeof(*shared));
}

/* ---- libraries that come and go ---------------------------------------------------------------------------- */

#define LIBRARY "libm.so.6"
#define CALLS 25

/* 'o' loads the library, 'c' calls it, 'x' unloads it and puts something else in its place; each is answered. */
static void obey(int socket)
{
	double (*cbrt)(double) = NULL;
	void *library = NULL;
	char word;

	while (read(socket, &word, 1) == 1) {
		if (word == 'o') {
			library = dlopen(LIBRARY, RTLD_NOW);
			*(void **)&cbrt = library ? dlsym(library, "cbrt") : NULL;
		}
		for (int i = 0; word == 'c' && i < CALLS; i++) {
			if (!cbrt || cbrt(64.0) < 3.99)
				_exit(3);
		}
		if (word == 'x') {
			uintptr_t page = (uintptr_t)*(void **)&cbrt & ~4095UL;

			dlclose(library);
			if (mmap((void *)page, 4096, PROT_READ | PROT_EXEC,
				 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != (void *)page)
				_exit(4);
		}
		if (write(socket, &word, 1) != 1)
			_exit(5);
	}
	_exit(0);
}

/* The session works until the answer is there. */
static void await_answer(const struct fixture *f, int socket, char word)
{
	struct pollfd answer = { .fd = socket, .events = POLLIN };
	char answered = 0;

	while (poll(&answer, 1, 0) == 0)
		check(session_step(f->session, 1), f);
	assert_int_equal(read(socket, &answered, 1), 1);
	assert_int_equal(answered, word);
}

static void ask(const struct fixture *f, int socket, char word)
{
	assert_int_equal(write(socket, &word, 1), 1);
	await_answer(f, socket, word);
}

struct told {
	unsigned loaded, unloaded, placed, gone;
};

static void count_notices(void *context, enum session_notice notice, const char *text)
{
	struct told *told = context;
	unsigned *counts[] = { [SESSION_PLACED] = &told->placed,
			       [SESSION_GONE] = &told->gone,
			       [SESSION_MODULE_LOADED] = &told->loaded,
			       [SESSION_MODULE_UNLOADED] = &told->unloaded };

	if (strstr(text, LIBRARY) || strstr(text, "cbrt"))
		(*counts[notice])++;
}

static void test_libraries(void **state)
{
	static const char *const contexts[] = { "reg:rbx" };
	struct tracepoint_spec spec = { .location = "cbrt@" LIBRARY, .kind = TRACEPOINT_ENTRY, .contexts = contexts,
					.context_count = 1 };
	struct session_options options = { .buffer_size = 4 << 20, .notify = count_notices };
	struct fixture f = { 0 };
	struct told told = { 0 };
	int sockets[2];

	snprintf(f.output, sizeof(f.output), "/dev/shm/dyntrace-live-%d-libraries", getpid());
	options.output = f.output;
	options.notify_context = &told;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	f.pid = fork();
	if (f.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		obey(sockets[1]);
	}
	check(proc_open(f.pid, &f.proc), &f);
	check(session_create(f.proc, &options, &f.session), &f);
	check(session_begin(f.session, NULL), &f);

	_cleanup_error_ struct error *missing = session_add(f.session, &spec, NULL);
	assert_non_null(missing);
	spec.wait = true;
	check(session_add(f.session, &spec, NULL), &f);
	assert_string_equal(info(&f, "cbrt").how, "waiting");
	for (unsigned round = 0; round < 4; round++) {
		ask(&f, sockets[0], 'o');
		ask(&f, sockets[0], 'c');
		assert_int_equal(info(&f, "cbrt").hits, CALLS * (round + 1));
		assert_non_null(strstr(info(&f, "cbrt").module, LIBRARY));
		if (round == 1)
			check(session_add_context(f.session, "cbrt", "reg:rsp", NULL), &f);
		if (round == 2)
			check(session_switch(f.session, "cbrt", false, NULL), &f);
		ask(&f, sockets[0], 'x');
		check(session_flush(f.session), &f);
		assert_string_equal(info(&f, "cbrt").how, "waiting");
		assert_null(info(&f, "cbrt").module);
		assert_int_equal(told.unloaded, round + 1);
		assert_int_equal(told.gone, round + 1);
		if (round == 2)
			check(session_switch(f.session, "cbrt", true, NULL), &f);
	}
	assert_int_equal(told.loaded, 4);
	assert_int_equal(told.placed, 4);
	assert_int_equal(info(&f, "cbrt").context_count, 2);
	leave(&f);
	assert_int_equal(judge(&f, "cbrt_entry", "rbx = "), 4 * CALLS);
	assert_int_equal(judge(&f, "cbrt_entry", "rsp = "), 2 * CALLS);
	close(sockets[0]);
	close(sockets[1]);
	end(&f);
}

/* ---- files made by somebody else -------------------------------------------------------------------------- */

struct counted_dir {
	struct trace_dir dir;
	struct trace_dir *real;
	unsigned made, opened, renamed;
};

static int counted_make(struct trace_dir *dir)
{
	struct counted_dir *counted = (struct counted_dir *)dir;

	counted->made++;
	return counted->real->make(counted->real);
}

static int counted_open(struct trace_dir *dir, const char *name, bool create)
{
	struct counted_dir *counted = (struct counted_dir *)dir;

	counted->opened++;
	return counted->real->open(counted->real, name, create);
}

static int counted_rename(struct trace_dir *dir, const char *from, const char *to)
{
	struct counted_dir *counted = (struct counted_dir *)dir;

	counted->renamed++;
	return counted->real->rename(counted->real, from, to);
}

static int counted_remove(struct trace_dir *dir, const char *name)
{
	struct counted_dir *counted = (struct counted_dir *)dir;

	return counted->real->remove(counted->real, name);
}

static void test_directory_of_another(void **state)
{
	struct counted_dir counted = { .dir = { .make = counted_make, .open = counted_open,
						.rename = counted_rename, .remove = counted_remove } };
	struct fixture f = { 0 };

	begin(&f, (struct session_options){ .directory = &counted.dir });
	counted.dir.path = f.output;
	check(trace_dir_direct(f.output, &counted.real), &f);
	assert_int_equal(counted.made, 0);
	uint64_t from = done(2);
	add(&f, 2, TRACEPOINT_ENTRY);
	assert_int_equal(counted.made, 1);
	work(&f, 100);
	leave(&f);
	assert_true(counted.opened >= 3 && counted.renamed >= 3); /* metadata, notes, a stream */
	assert_int_equal(judge(&f, "work_2_entry", ""), done(2) - from);
	trace_dir_free(counted.real);
	end(&f);
}

/* The agent that was built with this. */
static void find_agent(void)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 64);

	for (int i = 0; i < 3 && length > 0; i++) {
		path[length] = '\0';
		length = strrchr(path, '/') - path;
	}
	path[length] = '\0';
	strcat(path, "/libdyntrace-agent.so");
	setenv("DYNTRACE_AGENT", path, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_add_and_remove),	     cmocka_unit_test(test_names),
		cmocka_unit_test(test_all_or_nothing),	     cmocka_unit_test(test_switches),
		cmocka_unit_test(test_stopped_inside), cmocka_unit_test(test_contexts),	     cmocka_unit_test(test_random), cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_cycles_do_not_grow),   cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_directory_of_another), cmocka_unit_test(test_libraries),
	};

	find_agent();
	if (getenv("LIVE_ONLY"))
		cmocka_set_test_filter(getenv("LIVE_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
