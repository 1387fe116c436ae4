/* System calls that a borrowed thread makes in one go, before they are asked for (ahead.h). */
#include "failing_read.h"
#include "ptrace_call.h"
#include "target.h"
#include "thin.h"

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>

#include "control/agent/agent.h"
#include "control/agent/sweep.h"
#include "control/proc/proc_status.h"
#include "control/remote/ahead.h"
#include "control/remote/remote_map.h"

#define TIMEOUT_MS 20000 /* only what hangs takes as long */
#define POOL (2ULL << 20)
#define SIZE 0x5000ULL
#define BIT(signal) (1ULL << ((signal) - 1))

static const char *agent_path(void)
{
	static char path[PATH_MAX];

	built_path("libdyntrace-agent.so", path);
	return path;
}

/* ---- a target with an agent, and its thread -------------------------------------------------- */

struct stage {
	struct target target;
	struct proc *proc;
	struct agent *agent;
	struct stop *stop;
	struct remote *remote;
	char *maps, *descriptors; /* before the calls */
};

static struct error *inject(struct proc *proc, struct stop *stop, struct agent **ret_agent)
{
	struct maps maps = { 0 };
	struct error *err = maps_read(proc, &maps);
	const struct agent_options options = { .pool_size = POOL,
					       .base_at = agent_find_place(&maps),
					       .agent_path = agent_path() };

	maps_free(&maps);
	return err ? err : agent_inject(stop, proc, &options, ret_agent);
}

static void hold(struct stage *stage)
{
	no_error(stop_all(stage->proc, TIMEOUT_MS, &stage->stop));
	no_error(remote_begin(stage->stop, &stage->remote));
	ahead_set_desk(stage->remote, (uint8_t *)stage->agent->control + DT_WINDOWS_OFFSET,
		       taddr_add(stage->agent->control_at, DT_WINDOWS_OFFSET));
}

static void begin_with(struct stage *stage, struct target target)
{
	*stage = (struct stage){ .target = target };
	target_ready(&stage->target);
	no_error(proc_open(stage->target.pid, &stage->proc));
	no_error(stop_all(stage->proc, TIMEOUT_MS, &stage->stop));
	no_error(inject(stage->proc, stage->stop, &stage->agent));
	stop_release(stage->stop, NULL);
	stage->maps = target_slurp(stage->target.pid, "maps");
	stage->descriptors = target_descriptors(stage->target.pid);
	hold(stage);
}

static void begin(struct stage *stage)
{
	begin_with(stage, target_start("spin", "--threads", "2", NULL));
}

static void release(struct stage *stage)
{
	no_error(remote_end(stage->remote));
	stop_release(stage->stop, NULL);
	stage->stop = NULL;
}

static void expect_unchanged(const struct stage *stage)
{
	char *maps = target_slurp(stage->target.pid, "maps");
	char *descriptors = target_descriptors(stage->target.pid);

	assert_string_equal(maps, stage->maps);
	assert_string_equal(descriptors, stage->descriptors);
	free(maps);
	free(descriptors);
}

/* The target goes on, and no signal of ours is left in it. */
static void end(struct stage *stage)
{
	struct thread_status status;

	no_error(proc_status_read(stage->target.pid, stage->target.pid, &status));
	assert_int_equal(status.pending, 0);
	assert_int_equal(status.blocked, 0);
	target_go(&stage->target);
	target_ready(&stage->target);
	agent_free(stage->agent);
	proc_close(stage->proc);
	target_end(&stage->target);
	free(stage->maps);
	free(stage->descriptors);
}

static int add_mapping(struct ahead *list, uint64_t at, int fd_of)
{
	int index = (int)list->count;

	ahead_do(list, fd_of, SYS_mmap, at, SIZE, PROT_READ,
		 MAP_PRIVATE | (fd_of < 0 ? MAP_ANONYMOUS : 0), fd_of < 0 ? (uint64_t)-1 : 0, 0);
	return index;
}

static int64_t ask(struct stage *stage, const struct ahead *list, int index, int64_t fd)
{
	const struct ahead_call *call = &list->calls[index];
	uint64_t args[6];
	int64_t result = INT64_MIN;

	memcpy(args, call->args, sizeof(args));
	if (call->fd_of >= 0)
		args[4] = (uint64_t)fd;
	no_error(remote_call(stage->remote, call->number, args, &result));
	return result;
}

static bool is_mapped(struct stage *stage, int64_t at)
{
	struct maps maps = { 0 };

	no_error(maps_read(stage->proc, &maps));
	bool found = maps_find(&maps, taddr_of((uint64_t)at)) != NULL;
	maps_free(&maps);
	return found;
}

static unsigned count_lines(const char *text, const char *word)
{
	unsigned count = 0;

	while ((text = strstr(text, word))) {
		count++;
		text++;
	}
	return count;
}

/* Descriptors with this name, that the target has now. */
static unsigned count_named(const struct stage *stage, const char *name)
{
	char *text = target_descriptors(stage->target.pid);
	unsigned count = count_lines(text, name);

	free(text);
	return count;
}

static void add_memfd(struct stage *stage, struct ahead *list, const char *name)
{
	taddr at;

	no_error(remote_put(stage->remote, name, strlen(name) + 1, &at));
	ahead_do(list, -1, SYS_memfd_create, at.v, MFD_CLOEXEC);
}

/* Asks for calls to be made ahead: none is. */
static void expect_none_ahead(struct stage *stage)
{
	struct ahead list = { 0 };

	add_memfd(stage, &list, "ahead-test");
	add_mapping(&list, 0, -1);
	no_error(ahead_make(stage->remote, &list));
	assert_int_equal(count_named(stage, "ahead-test"), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* All are made before the first is asked for, and each once. */
static void test_made_before_they_are_asked_for(void **state)
{
	struct stage stage;
	struct ahead list = { 0 };

	begin(&stage);
	add_memfd(&stage, &list, "ahead-test");
	int one = add_mapping(&list, 0, 0), other = add_mapping(&list, 0, -1);
	no_error(ahead_make(stage.remote, &list));
	assert_int_equal(count_named(&stage, "ahead-test"), 1);
	int64_t fd = ask(&stage, &list, 0, 0);
	int64_t first = ask(&stage, &list, one, fd), second = ask(&stage, &list, other, 0);
	assert_int_equal(count_named(&stage, "ahead-test"), 1);
	assert_true(fd > 0 && is_mapped(&stage, first) && is_mapped(&stage, second));
	no_error(remote_map_remove(stage.remote, taddr_of((uint64_t)first), SIZE));
	no_error(remote_map_remove(stage.remote, taddr_of((uint64_t)second), SIZE));
	int64_t closed;
	no_error(remote_do(stage.remote, &closed, SYS_close, (uint64_t)fd));
	release(&stage);
	expect_unchanged(&stage);
	end(&stage);
}

/* The first that fails is the last one: what follows may rest on it. */
static void test_ends_with_a_failure(void **state)
{
	struct stage stage;
	struct ahead list = { 0 };

	begin(&stage);
	int first = add_mapping(&list, 0, -1);
	int bad = ahead_do(&list, -1, SYS_close, 12345);
	add_memfd(&stage, &list, "ahead-late");
	no_error(ahead_make(stage.remote, &list));
	assert_int_equal(count_named(&stage, "ahead-late"), 0);
	int64_t at = ask(&stage, &list, first, 0);
	assert_int_equal(ask(&stage, &list, bad, 0), -EBADF);
	no_error(remote_map_remove(stage.remote, taddr_of((uint64_t)at), SIZE));
	release(&stage);
	expect_unchanged(&stage);
	end(&stage);
}

/* (S11) A caller that goes another way, or none, finds nothing of what it didn't ask for. */
static void test_unasked_is_undone(void **state)
{
	struct stage stage;

	begin(&stage);
	for (int asked = 0; asked <= 1; asked++) {
		struct ahead list = { 0 };
		int64_t result;

		int one = add_mapping(&list, 0, -1);
		add_memfd(&stage, &list, "ahead-test");
		add_mapping(&list, 0, 1);
		no_error(ahead_make(stage.remote, &list));
		int64_t at = asked ? ask(&stage, &list, one, 0) : 0;
		no_error(remote_do(stage.remote, &result, SYS_getpid));
		assert_int_equal(result, stage.target.pid);
		assert_int_equal(count_named(&stage, "ahead-test"), 0);
		if (asked)
			no_error(remote_map_remove(stage.remote, taddr_of((uint64_t)at), SIZE));
	}
	struct ahead list = { 0 };
	add_mapping(&list, 0, -1);
	add_mapping(&list, 0, -1);
	no_error(ahead_make(stage.remote, &list));
	release(&stage);
	expect_unchanged(&stage);
	end(&stage);
}

/* (S14) Whoever else opens the process, or a child of it, makes calls one by one. */
static void test_desk_is_for_one(void **state)
{
	struct stage stage;
	struct proc *other = NULL;

	begin(&stage);
	release(&stage);
	assert_non_null(stage.proc->desk);
	no_error(proc_open(stage.target.pid, &other));
	proc_take_after(other, stage.proc);
	no_error(stop_all(other, TIMEOUT_MS, &stage.stop));
	no_error(remote_begin(stage.stop, &stage.remote));
	expect_none_ahead(&stage);
	release(&stage);
	proc_close(other);
	expect_unchanged(&stage);
	end(&stage);
}

/* Results that can't be read at once aren't forgotten: what was made is undone (H32). */
static void test_failed_reads(void **state)
{
	bool failed = true;

	for (size_t left = 0; failed; left++) {
		struct stage stage;
		struct ahead list = { 0 };

		begin(&stage);
		add_memfd(&stage, &list, "ahead-test");
		add_mapping(&list, 0, -1);
		reads_left = left;
		error_free(ahead_make(stage.remote, &list));
		failed = reads_left == SIZE_MAX;
		reads_left = SIZE_MAX;
		release(&stage);
		expect_unchanged(&stage);
		end(&stage);
	}
}

/* (S10) While others run, a handler may come for the signal. */
static void test_only_while_all_are_held(void **state)
{
	struct stage stage;

	begin(&stage);
	release(&stage);
	no_error(stop_one(stage.proc, TIMEOUT_MS, &stage.stop));
	no_error(remote_begin(stage.stop, &stage.remote));
	ahead_set_desk(stage.remote, (uint8_t *)stage.agent->control + DT_WINDOWS_OFFSET,
		       taddr_add(stage.agent->control_at, DT_WINDOWS_OFFSET));
	expect_none_ahead(&stage);
	release(&stage);
	expect_unchanged(&stage);
	end(&stage);
}

/* (S10) Also when its dispatch has been set aside: the guard that puts it back, if we are killed,
 * doesn't know the desk. */
static void test_not_of_a_dispatched_thread(void **state)
{
	struct stage stage;
	int64_t result;

	begin_with(&stage, target_start("dispatched", "--range", "own", "--busy", "1", NULL));
	no_error(remote_do(stage.remote, &result, SYS_getpid));
	assert_int_equal(result, stage.target.pid);
	expect_none_ahead(&stage);
	release(&stage);
	expect_unchanged(&stage);
	end(&stage);
}

/* (S10) */
static void test_signal_does_nothing(void **state)
{
	const uint64_t silent = BIT(SIGURG) | BIT(SIGWINCH) | BIT(SIGCHLD);
	struct thread_status status = { 0 };

	assert_int_equal(ahead_find_signal(&status, 0), SIGURG);
	assert_int_equal(ahead_find_signal(&status, BIT(SIGURG)), SIGWINCH);
	status.caught = BIT(SIGURG);
	assert_int_equal(ahead_find_signal(&status, 0), SIGWINCH);
	status.blocked = BIT(SIGWINCH);
	assert_int_equal(ahead_find_signal(&status, 0), SIGCHLD);
	status.pending = BIT(SIGCHLD);
	assert_int_equal(ahead_find_signal(&status, 0), 0);
	status = (struct thread_status){ .caught = silent, .ignored = BIT(SIGPIPE) };
	assert_int_equal(ahead_find_signal(&status, 0), SIGPIPE);
	status.blocked = BIT(SIGPIPE);
	assert_int_equal(ahead_find_signal(&status, 0), 0);
	/* the job control of a shell ignores these, and they do more than nothing */
	status.ignored = BIT(SIGCONT) | BIT(SIGTSTP) | BIT(SIGTTIN) | BIT(SIGTTOU) | BIT(SIGTRAP);
	assert_int_equal(ahead_find_signal(&status, 0), 0);
}

/* Calls that wait go on as if nothing had been: registers and mask are the thread's own again. */
static void test_calls_go_on(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	struct proc *proc = NULL;
	char text[4096];

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	for (int i = 0; i < 20; i++) {
		struct agent *agent = NULL;
		struct stop *stop = NULL;

		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		no_error(inject(proc, stop, &agent));
		no_error(agent_remove(stop, agent, NULL));
		stop_release(stop, NULL);
		agent_free(agent);
	}
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	assert_int_equal(count_lines(text, " ok"), 14);
	proc_close(proc);
}

/* ---- H14 ------------------------------------------------------------------------------------- */

static void inject_for_ever(pid_t pid)
{
	struct proc *proc = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (proc_open(pid, &proc))
		_exit(1);
	for (;;) {
		struct agent *agent = NULL;
		struct stop *stop = NULL;
		struct error *err = stop_all(proc, TIMEOUT_MS, &stop);

		if (!err)
			err = inject(proc, stop, &agent);
		if (!err)
			err = agent_remove(stop, agent, NULL);
		if (err) {
			fprintf(stderr, "%s\n", error_text(err));
			_exit(2);
		}
		stop_release(stop, NULL);
		agent_free(agent);
	}
}

static void sweep(struct proc *proc)
{
	struct stop *stop = NULL;
	bool any = true;

	no_error(sweep_await_home(proc));
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	no_error(sweep_clean(stop, NULL));
	stop_release(stop, NULL);
	no_error(sweep_look(proc, &any));
	assert_false(any);
}

/* Our death at any moment costs the target nothing (H14, S12). */
static void test_killed_controllers(void **state)
{
	struct target target = target_start("steady", "--threads", "2", "--eintr", "1", NULL);
	struct proc *proc = NULL;
	unsigned seed = 4711;
	char text[256];

	target_ready(&target);
	target_go(&target);
	no_error(proc_open(target.pid, &proc));
	for (int i = 0; i < THIN(300, 60); i++) {
		pid_t controller = fork();

		if (!controller)
			inject_for_ever(target.pid);
		target_kill_controller(&target, controller, 1000000 + rand_r(&seed) % 4000000);
		sweep(proc);
	}
	kill(target.pid, SIGUSR1);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
	proc_close(proc);
}

/* Lets the first thread, which waits in a system call, go on at `to`: where the call is restarted,
 * two bytes before. Returns where it was. */
static taddr send(struct proc *proc, taddr to)
{
	struct stop *stop = NULL;

	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_tid(stop, 0), proc->pid);
	taddr at = stop_thread_rip(stop, 0);
	no_error(stop_thread_set_rip(stop, 0, to));
	stop_release(stop, NULL);
	return at;
}

/* (S12) While a thread is on the desk of a dead controller, the next one doesn't begin. */
static void test_next_one_waits(void **state)
{
	static const uint8_t for_ever[] = { 0xeb, 0xfe };
	struct stage stage;

	begin(&stage);
	release(&stage);
	taddr desk = taddr_add(stage.agent->control_at, DT_WINDOWS_OFFSET);
	memcpy((uint8_t *)stage.agent->control + DT_WINDOWS_OFFSET, for_ever, sizeof(for_ever));
	taddr home = send(stage.proc, taddr_add(desk, 2));
	struct error *err = sweep_await_home(stage.proc);
	assert_non_null(err);
	assert_non_null(strstr(error_text(err), "hasn't finished yet"));
	error_free(err);
	assert_true(taddr_equal(send(stage.proc, taddr_add(home, -2)), desk));
	no_error(sweep_await_home(stage.proc));
	end(&stage);
}

static bool dies_with_its_registers; /* the controller is killed when a thread has its registers */

/* In front of the libc's. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list list;

	va_start(list, request);
	const struct ptrace_call call = ptrace_call_read(request, list);
	va_end(list);
	long result = ptrace_call_make(&call);
	if (dies_with_its_registers && request == PTRACE_SETREGS)
		kill(getpid(), SIGKILL);
	return result;
}

/* A controller that is killed when the thread is about to make its call. */
static void die_in_a_call(pid_t pid)
{
	static const char name[] = "dyntrace-test";
	struct remote *remote = NULL;
	struct stop *stop = NULL;
	struct proc *proc = NULL;
	int64_t result;
	taddr at;

	if (proc_open(pid, &proc) || stop_all(proc, TIMEOUT_MS, &stop) ||
	    remote_begin(stop, &remote) || remote_put(remote, name, sizeof(name), &at))
		_exit(1);
	dies_with_its_registers = true;
	error_free(remote_do(remote, &result, SYS_memfd_create, at.v, 0));
	_exit(2);
}

/* (S12) The same while a thread is about to make a single call: here in a stopped process, so that
 * it doesn't get to it. */
static void test_next_one_waits_for_a_call(void **state)
{
	struct target target = target_start("spin", "--threads", "1", "--calls", "1", NULL);
	struct proc *proc = NULL;
	bool any = true;
	int status;

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	kill(target.pid, SIGSTOP);
	while (target_state(target.pid) != 'T')
		usleep(1000);
	pid_t controller = fork();
	if (!controller)
		die_in_a_call(target.pid);
	assert_int_equal(waitpid(controller, &status, 0), controller);
	assert_true(WIFSIGNALED(status));
	no_error(sweep_look(proc, &any));
	assert_false(any);
	struct error *err = sweep_await_home(proc);
	assert_non_null(err);
	assert_non_null(strstr(error_text(err), "hasn't finished yet"));
	error_free(err);
	kill(target.pid, SIGCONT);
	no_error(sweep_await_home(proc));
	no_error(sweep_look(proc, &any));
	assert_true(any); /* the call was made meanwhile */
	sweep(proc);
	proc_close(proc);
	target_go(&target);
	target_ready(&target);
	target_end(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_before_they_are_asked_for),
		cmocka_unit_test(test_ends_with_a_failure),
		cmocka_unit_test(test_unasked_is_undone),
		cmocka_unit_test(test_failed_reads),
		cmocka_unit_test(test_only_while_all_are_held),
		cmocka_unit_test(test_not_of_a_dispatched_thread),
		cmocka_unit_test(test_desk_is_for_one),
		cmocka_unit_test(test_signal_does_nothing),
		cmocka_unit_test(test_calls_go_on),
		cmocka_unit_test(test_next_one_waits),
		cmocka_unit_test(test_next_one_waits_for_a_call),
		cmocka_unit_test(test_killed_controllers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
