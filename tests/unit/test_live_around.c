/*
 * The surroundings of a session that changes: sleeping without work, libraries that come and go,
 * forked children, executed programs, files that another process makes.
 */
#include <poll.h>
#include <sys/socket.h>

#include "control/launch/launch.h"
#include "control/session/follow_exec/follow_exec.h"
#include "control/session/processes/follow_state.h"
#include "control/session/takeover/takeover.h"
#include "control/stop/stop.h"
#include "live.h"
#include "thin.h"

#define REUSES THIN(600u, 300u) /* more than GARBAGE_MAX */

/* ---- sleeping -------------------------------------------------------------------------------- */

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
	assert_int_equal(poll(&wait, 1, 100000), 1);
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
	shared = NULL;
}

/* ---- a target that does as it is told -------------------------------------------------------- */

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

/* Its first word: it runs. */
static void await_ready(int socket)
{
	char word = 0;

	assert_int_equal(read(socket, &word, 1), 1);
	assert_int_equal(word, 'r');
}

static void ask(const struct fixture *f, int socket, char word)
{
	assert_int_equal(write(socket, &word, 1), 1);
	await_answer(f, socket, word);
}

/* ---- a forked child -------------------------------------------------------------------------- */

/* (K1, K2) What was forked before a change gets it, too, and no hit is lost meanwhile, however
 * often the memory of what was changed is used again; what is switched off or removed is so there,
 * too. */
static void test_forked_child(void **state)
{
	struct session_options options = { .buffer_size = 4 << 20, .follow_fork = true };
	struct fixture f = { 0 };
	int parent[2], child[2];
	char name[16];

	snprintf(f.output, sizeof(f.output), "%s/dyntrace-live-%d-forked", place_memory(),
		 getpid());
	options.output = f.output;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, parent), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, child), 0);
	f.pid = start_worker("fork", (int[]){ parent[1], child[1] }, 2);
	await_ready(parent[0]);
	check(proc_open(f.pid, &f.proc), &f);
	check(session_create(f.proc, &options, &f.session), &f);
	check(session_begin(f.session, NULL), &f);
	add(&f, 11, TRACEPOINT_FUNCTION);
	ask(&f, parent[0], 'f');
	await_answer(&f, child[0], 'f');
	check(session_add_context(f.session, "work_11", "reg:rsp", NULL), &f);
	for (size_t i = 0; i < REUSES; i++) { /* memory is used again */
		add(&f, i % 11, TRACEPOINT_FUNCTION);
		check(session_remove(f.session, work_name(i % 11, name), NULL), &f);
		if (i % (REUSES / 12) == 0)
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
	assert_int_equal(judge(&f, "work_11_entry", "rsp = "), 14 * CHILD_CALLS);
	for (int i = 0; i < 2; i++) {
		close(parent[i]);
		close(child[i]);
	}
	end(&f);
}

/* (H12) A child that isn't followed has the jumps that its parent had at the fork. Their memory is
 * used again for others after it is restored, too. */
static void test_child_with_old_jumps(void **state)
{
	struct session_options options = { .buffer_size = 4 << 20 };
	struct fixture f = { 0 };
	int parent[2], child[2];
	char name[16];

	snprintf(f.output, sizeof(f.output), "%s/dyntrace-live-%d-jumps", place_memory(), getpid());
	options.output = f.output;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, parent), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, child), 0);
	f.pid = start_worker("fork", (int[]){ parent[1], child[1] }, 2);
	close(child[1]);
	await_ready(parent[0]);
	check(proc_open(f.pid, &f.proc), &f);
	check(session_create(f.proc, &options, &f.session), &f);
	check(session_begin(f.session, NULL), &f);
	for (size_t i = 0; i < 8; i++)
		add(&f, i, TRACEPOINT_FUNCTION);
	ask(&f, parent[0], 'f');
	await_answer(&f, child[0], 'f');
	for (size_t i = 0; i < 8; i++)
		check(session_remove(f.session, work_name(i, name), NULL), &f);
	for (size_t i = 0; i < REUSES; i++) { /* memory is used again */
		add(&f, 8 + i % 16, TRACEPOINT_FUNCTION);
		if (i % 100 == 99)
			ask(&f, child[0], 'w');
		check(session_remove(f.session, work_name(8 + i % 16, name), NULL), &f);
	}
	ask(&f, parent[0], 'w');
	leave(&f);
	ask(&f, child[0], 'w');
	close(parent[0]);
	close(parent[1]);
	close(child[0]);
	end(&f);
}

/* ---- a thread in shared code ----------------------------------------------------------------- */

#define INTERRUPTED 3 /* the frame behind work_12, the handler, and the signal's return */

/* Events of work_12 whose backtrace goes from the handler to the function that x names. */
static uint64_t count_interrupted(const struct fixture *f)
{
	FILE *pipe = open_trace(f);
	char line[1024], wanted[64];
	uint64_t count = 0;

	while (next_event(pipe, line)) {
		const char *x = strstr(line, " work_12_entry:") ? strstr(line, " x = ") : NULL;

		snprintf(wanted, sizeof(wanted), "[%d] = 0x%lX,", INTERRUPTED,
			 x ? strtoul(x + strlen(" x = "), NULL, 10) : 0);
		count += x && strstr(line, wanted);
	}
	return count;
}

/* (P5, U3) A handler interrupts code that trampolines share, and takes its time: backtraces go
 * through both, and the memory of the trampoline that called it isn't used again before. */
static void test_interrupted_in_shared_code(void **state)
{
	struct session_options options = { .buffer_size = 4 << 20 };
	struct fixture f = { 0 };
	int socket[2];

	snprintf(f.output, sizeof(f.output), "%s/dyntrace-live-%d-step", place_memory(), getpid());
	options.output = f.output;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, socket), 0);
	f.pid = start_worker("fork", (int[]){ socket[1], socket[1] }, 2);
	close(socket[1]);
	await_ready(socket[0]);
	check(proc_open(f.pid, &f.proc), &f);
	check(session_create(f.proc, &options, &f.session), &f);
	check(session_begin(f.session, NULL), &f);
	add(&f, 11, TRACEPOINT_BARE);
	add(&f, 12, TRACEPOINT_ENTRY);
	check(session_add_context(f.session, "work_12", "backtrace:20", NULL), &f);
	ask(&f, socket[0], 'c'); /* the agent knows the thread: it blocks no signals any more */
	ask(&f, socket[0], 's'); /* the handler answers */
	check(session_remove(f.session, "work_11", NULL), &f);
	for (size_t i = 0; i < REUSES; i += 10) {
		check(try_add(&f, "work_?", TRACEPOINT_BARE), &f);
		check(session_remove(f.session, "work_?", NULL), &f);
	}
	check(try_add(&f, "work_?", TRACEPOINT_BARE), &f); /* in all memory that is free */
	ask(&f, socket[0], 's'); /* the call is over, with the right result */
	ask(&f, socket[0], 'w');
	leave(&f);
	assert_int_equal(judge(&f, "work_11", ""), CHILD_CALLS + 1);
	assert_int_equal(count_interrupted(&f), 1);
	close(socket[0]);
	end(&f);
}

/* ---- libraries that come and go -------------------------------------------------------------- */

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
	struct tracepoint_spec spec = { .location = "cbrt@" LIBRARY,
					.kind = TRACEPOINT_ENTRY,
					.contexts = contexts,
					.context_count = 1 };
	struct session_options options = { .buffer_size = 4 << 20, .notify = count_notices };
	struct fixture f = { 0 };
	struct told told = { 0 };
	int sockets[2];

	snprintf(f.output, sizeof(f.output), "%s/dyntrace-live-%d-libraries", place_memory(),
		 getpid());
	options.output = f.output;
	options.notify_context = &told;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	f.pid = start_worker("library", &sockets[1], 1);
	await_ready(sockets[0]);
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
		assert_int_equal(info(&f, "cbrt").hits, LIBRARY_CALLS * (round + 1));
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
	assert_int_equal(judge(&f, "cbrt_entry", "rbx = "), 4 * LIBRARY_CALLS);
	assert_int_equal(judge(&f, "cbrt_entry", "rsp = "), 2 * LIBRARY_CALLS);
	close(sockets[0]);
	close(sockets[1]);
	end(&f);
}

/* ---- files made by somebody else ------------------------------------------------------------- */

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
	struct counted_dir counted = { .dir = { .make = counted_make,
						.open = counted_open,
						.rename = counted_rename,
						.remove = counted_remove } };
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

/* ---- what a killed controller leaves --------------------------------------------------------- */

static struct error *count_at(struct session *session, const char *location)
{
	return session_add(session,
			   &(struct tracepoint_spec){ .location = location,
						      .kind = TRACEPOINT_BARE,
						      .tracer = "count" },
			   NULL);
}

/* Another controller places a probe, and is killed. */
static void leave_probe(pid_t pid, const struct session_options *options)
{
	int placed[2];
	char byte = 0;

	assert_int_equal(pipe(placed), 0);
	pid_t controller = fork();
	assert_true(controller >= 0);
	if (!controller) {
		struct proc *proc = NULL;
		struct session *session = NULL;

		if (!proc_open(pid, &proc) && !session_create(proc, options, &session) &&
		    !session_begin(session, NULL) &&
		    !count_at(session, "straight") && write(placed[1], "p", 1) == 1)
			pause();
		_exit(1);
	}
	close(placed[1]);
	assert_int_equal(read(placed[0], &byte, 1), 1);
	close(placed[0]);
	kill(controller, SIGKILL);
	assert_int_equal(waitpid(controller, NULL, 0), controller);
}

/* How many agents are in the process? Each has a code memory of its own. */
static size_t count_agents(const struct proc *proc)
{
	struct maps maps = { 0 };
	uint64_t inodes[8];
	size_t count = 0, known;

	no_error(maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count; i++) {
		if (!strstr(maps.items[i].path, "memfd:dyntrace-code"))
			continue;
		for (known = 0; known < count && inodes[known] != maps.items[i].inode; known++)
			;
		assert_true(known < 8);
		inodes[known] = maps.items[i].inode;
		count += known == count;
	}
	maps_free(&maps);
	return count;
}

/* (J1, J2) A new site that begins where an old one does replaces it. One in whose bytes threads
 * would come out of the old trampoline is placed when the old probe is gone, with its memory. */
static void test_new_site_ends_behind_an_old_one(void **state)
{
	static const char *const locations[] = { "straight", "straight+2" };

	for (int behind = 0; behind < 2; behind++) {
		struct session_options options = { .buffer_size = 4 << 20 };
		struct takeover takeover = { 0 };
		struct fixture f = { 0 };
		bool waits = false;

		snprintf(f.output, sizeof(f.output), "%s/dyntrace-live-%d-old-%d", place_memory(),
			 getpid(), behind);
		options.output = f.output;
		f.pid = start_target();
		stand(&f); /* it has begun its program */
		go();
		leave_probe(f.pid, &options);
		check(proc_open(f.pid, &f.proc), &f);
		assert_int_equal(count_agents(f.proc), 1);
		check(session_create(f.proc, &options, &f.session), &f);
		check(takeover_inherit(f.session, NULL, true, &takeover, &waits), &f);
		assert_true(waits);
		check(session_begin(f.session, NULL), &f);
		assert_int_equal(count_agents(f.proc), 2);
		check(count_at(f.session, locations[behind]), &f);
		assert_int_equal(count_agents(f.proc), behind ? 1 : 2);
		check(takeover_settle(f.session, &takeover), &f);
		assert_true(takeover.found && !takeover.left && takeover.sites == 1);
		assert_int_equal(count_agents(f.proc), 1);
		work(&f, 10);
		leave(&f);
		end(&f);
	}
}

/* ---- programs that a command executes -------------------------------------------------------- */

static struct session *follow_command(struct launch *launch, const char *output)
{
	const struct tracepoint_spec spec = { .location = "work_1", .kind = TRACEPOINT_FUNCTION };
	struct session_options options = { .output = output,
					   .buffer_size = 4 << 20,
					   .follow_exec = true };
	struct proc *proc = launch_proc(launch);
	struct session *session = NULL;
	struct stop *stop = NULL;
	bool loaded;

	no_error(session_create(proc, &options, &session));
	follow_exec_enable(session);
	no_error(session_add(session, &spec, NULL));
	no_error(launch_run_to_loaded(launch, &loaded));
	no_error(session_resolve(session));
	no_error(stop_adopt(proc, proc->pid, &stop));
	no_error(session_begin(session, stop));
	stop_disown(stop);
	no_error(launch_go(launch));
	return session;
}

/* The command has executed a program, and is killed while a stop of that program's session holds
 * it. Nobody else sees the end, so the command's own struct proc must know of it. */
static void test_end_of_an_executed_program(void **state)
{
	char output[64], path[PATH_MAX], number[16], command[96];
	int sockets[2];
	struct launch *launch = NULL;
	struct session_summary summary = { 0 };
	struct stop *stop = NULL;

	snprintf(output, sizeof(output), "%s/dyntrace-live-%d-ended", place_memory(), getpid());
	target_path("worker", path);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
	snprintf(number, sizeof(number), "%d", sockets[1]);
	no_error(launch_start((char *[]){ "env", path, "library", number, NULL }, &launch));
	struct session *session = follow_command(launch, output);
	struct proc *proc = launch_proc(launch);

	while (!session->follow->execs.count)
		no_error(session_step(session, 1));
	struct proc *later = session->follow->execs.items[0].session->proc;
	assert_true(later != proc && later->pid == proc->pid);
	no_error(stop_all(later, STOP_TIMEOUT_MS, &stop));
	kill(proc->pid, SIGKILL);
	stop_release(stop, NULL);
	assert_true(later->reaped);
	no_error(session_step(session, 1));
	assert_true(proc->reaped);
	assert_int_equal(proc->reaped_status, SIGKILL);
	error_free(session_end(session, &summary));
	session_destroy(session);
	launch_free(launch);
	close(sockets[0]);
	close(sockets[1]);
	snprintf(command, sizeof(command), "rm -rf %s", output);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_forked_child),
		cmocka_unit_test(test_child_with_old_jumps),
		cmocka_unit_test(test_interrupted_in_shared_code),
		cmocka_unit_test(test_libraries),
		cmocka_unit_test(test_directory_of_another),
		cmocka_unit_test(test_new_site_ends_behind_an_old_one),
		cmocka_unit_test(test_end_of_an_executed_program),
	};

	built_use_agent();
	if (getenv("LIVE_ONLY"))
		cmocka_set_test_filter(getenv("LIVE_ONLY"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
