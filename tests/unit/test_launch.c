/* Starting commands: found, not found, held, run until their libraries are loaded, ended. */
#include "failing_read.h"
#include "ptrace_call.h"
#include "target.h"

#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "control/remote/remote.h"
#include "control/agent/agent.h"
#include "control/launch/exec_catch.h"
#include "control/launch/launch.h"
#include "control/proc/proc_end.h"
#include "place.h"

static struct launch *start(char *first, ...)
{
	char *argv[16] = { first };
	struct launch *launch = NULL;
	size_t count = 1;
	va_list words;

	va_start(words, first);
	while (count < 15 && (argv[count] = va_arg(words, char *)))
		count++;
	va_end(words);
	no_error(launch_start(argv, &launch));
	return launch;
}

/* Waits for its end: *its* end, so this isn't timing anything. */
static int await_end(struct launch *launch)
{
	bool ended = false;
	int status = -1;

	for (int i = 0; i < 1000000 && !ended; i++) {
		no_error(launch_poll(launch, &ended, &status));
		if (!ended)
			usleep(100);
	}
	assert_true(ended);
	return status;
}

/* The letter of its state, from /proc/PID/stat. */
static bool has_mapping(struct proc *proc, const char *part)
{
	struct maps maps = { 0 };
	bool found = false;

	no_error(maps_read(proc, &maps));
	for (size_t i = 0; i < maps.count; i++)
		found |= strstr(maps.items[i].path, part) != NULL;
	maps_free(&maps);
	return found;
}

static void expect_failure(char *name, enum error_kind kind, const char *text)
{
	char *argv[] = { name, NULL };
	struct launch *launch = NULL;
	struct error *err = launch_start(argv, &launch);

	assert_non_null(err);
	assert_string_equal(error_text(err), text);
	assert_int_equal(error_kind(err), kind);
	assert_null(launch);
	error_free(err);
}

static void test_status_is_passed_on(void **state)
{
	struct launch *launch = start("sh", "-c", "exit 42", NULL);

	assert_int_equal(target_state(launch_proc(launch)->pid), 't');
	no_error(launch_go(launch));
	int status = await_end(launch);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
	launch_free(launch);
	launch = start("sh", "-c", "kill -TERM $$", NULL);
	no_error(launch_go(launch));
	status = await_end(launch);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	launch_free(launch);
}

static void test_not_started(void **state)
{
	char script[64], text[160];

	snprintf(script, sizeof(script), "%s/dyntrace-launch-XXXXXX", place_disk());
	int fd = mkstemp(script);

	expect_failure("no-such-command-here", ERROR_NOT_FOUND,
		       "no-such-command-here: no such command: check its spelling and PATH");
	expect_failure("/no/such/file", ERROR_NOT_FOUND, "/no/such/file: no such command");
	snprintf(text, sizeof(text),
		 "%s: may not be executed (is it a program, with execute permission?)", script);
	expect_failure(script, ERROR_NOT_PERMITTED, text);
	close(fd);
	unlink(script);
}

static int run_script(const char *content)
{
	char script[64];

	snprintf(script, sizeof(script), "%s/dyntrace-launch-XXXXXX", place_disk());
	int fd = mkstemp(script);

	assert_int_equal(write(fd, content, strlen(content)), strlen(content));
	fchmod(fd, 0755);
	close(fd);
	struct launch *launch = start(script, "7", NULL);
	/* the interpreter is what is there */
	assert_non_null(strstr(launch_proc(launch)->exe, "sh"));
	no_error(launch_go(launch));
	int status = await_end(launch);
	launch_free(launch);
	unlink(script);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_scripts(void **state)
{
	assert_int_equal(run_script("#!/bin/sh\nexit $1\n"), 7);
	assert_int_equal(run_script("exit $1\n"), 7); /* no #!: the shell's, as a shell would */
}

static void test_first_instruction(void **state)
{
	struct launch *launch = start("/bin/true", NULL);
	struct proc *proc = launch_proc(launch);
	struct stop *stop = NULL;
	int64_t result = 0;

	assert_false(has_mapping(proc, "libc"));
	assert_true(has_mapping(proc, "/true"));
	no_error(stop_adopt(proc, proc->pid, &stop));
	no_error(remote_syscall(stop, SYS_getpid, (const uint64_t[6]){ 0 }, &result));
	assert_int_equal(result, proc->pid);
	stop_disown(stop);
	/* whoever wants all threads gets the one that is held, and it stays held */
	no_error(stop_all(proc, 1000, &stop));
	assert_int_equal(stop_thread_count(stop), 1);
	no_error(remote_syscall(stop, SYS_getppid, (const uint64_t[6]){ 0 }, &result));
	assert_int_equal(result, getpid());
	stop_release(stop, NULL);
	assert_int_equal(target_state(proc->pid), 't');
	no_error(launch_go(launch));
	assert_int_equal(await_end(launch), 0);
	launch_free(launch);
}

/* In every kind of executable; dynamic ones have their libraries then, and nothing else has
 * happened. */
static void run_hello(const char *name, bool dynamic)
{
	char path[PATH_MAX], agent_path[PATH_MAX];
	struct stop *stop = NULL;
	struct agent *agent = NULL;
	bool loaded = !dynamic;

	target_path(name, path);
	built_path("libdyntrace-agent.so", agent_path);
	struct launch *launch = start(path, NULL);
	struct proc *proc = launch_proc(launch);
	no_error(launch_run_to_loaded(launch, &loaded));
	assert_int_equal(loaded, dynamic);
	if (dynamic)
		assert_true(has_mapping(proc, "libc"));
	assert_int_equal(target_state(proc->pid), 't');
	struct agent_options options = { .pool_size = DT_POOL_MIN, .agent_path = agent_path };
	char *before = target_slurp(proc->pid, "maps");
	no_error(stop_adopt(proc, proc->pid, &stop));
	no_error(agent_inject(stop, proc, &options, &agent));
	no_error(agent_remove(stop, agent, NULL));
	stop_disown(stop);
	agent_free(agent);
	char *after = target_slurp(proc->pid, "maps");
	assert_string_equal(after, before);
	free(before);
	free(after);
	no_error(launch_go(launch));
	int status = await_end(launch);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	launch_free(launch);
}

static size_t writes_left = SIZE_MAX; /* then one fails */

/* The linker hands all calls of mem_write to this one. */
struct error *__real_mem_write(struct proc *proc, taddr to, const void *from, size_t size);
struct error *__wrap_mem_write(struct proc *proc, taddr to, const void *from, size_t size);
struct error *__wrap_mem_write(struct proc *proc, taddr to, const void *from, size_t size)
{
	if (writes_left != SIZE_MAX && !writes_left--)
		return error_new(ERROR_FAILED, "no write");
	return __real_mem_write(proc, to, from, size);
}

/* Runs a program in which that read fails. Returns how many were left to it. */
static size_t run_with_reads(size_t left)
{
	struct launch *launch = start("/bin/true", NULL);
	bool loaded = false;

	reads_left = left;
	struct error *error = launch_run_to_loaded(launch, &loaded);
	size_t rest = reads_left;
	reads_left = SIZE_MAX;
	assert_true(!error || error_kind(error) != ERROR_GONE);
	error_free(error);
	no_error(launch_go(launch));
	assert_int_equal(await_end(launch), 0);
	launch_free(launch);
	return rest;
}

/* A failed read of the loader's state: the program isn't let run on to a breakpoint that it
 * never meets again. */
static void test_failed_reads(void **state)
{
	size_t many = 1000000, count = many - run_with_reads(many);

	for (size_t i = 1; i <= 8 && i <= count; i++)
		assert_int_equal(run_with_reads(count - i), SIZE_MAX);
}

/* A breakpoint of ours can't be written, or not be removed at once: the program goes on (H32). */
static void test_failed_writes(void **state)
{
	for (size_t left = 0; writes_left == SIZE_MAX; left++) {
		struct launch *launch = start("/bin/true", NULL);
		bool loaded = false;

		writes_left = left;
		error_free(launch_run_to_loaded(launch, &loaded));
		no_error(launch_go(launch));
		assert_int_equal(await_end(launch), 0);
		launch_free(launch);
	}
	writes_left = SIZE_MAX;
}

static void test_kinds_of_programs(void **state)
{
	char path[PATH_MAX];

	run_hello("hello", true);
	run_hello("hello_nopie", true);
	run_hello("hello_static", false);
	run_hello("hello_static_pie", false);
	target_path("hello_musl", path);
	if (access(path, X_OK))
		return;
	run_hello("hello_musl", true);
	run_hello("hello_musl_static", false);
}

static void test_never_let_go_is_killed(void **state)
{
	struct launch *launch = start("sleep", "1000", NULL);
	pid_t pid = launch_proc(launch)->pid;

	launch_free(launch);
	assert_int_equal(kill(pid, 0), -1);
	assert_int_equal(errno, ESRCH);
}

/* Killed while it is held: no hang, and its end is told. */
static void test_killed_in_our_hand(void **state)
{
	struct launch *launch = start("sleep", "1000", NULL);
	struct proc *proc = launch_proc(launch);
	struct stop *stop = NULL;
	int64_t result;

	no_error(stop_adopt(proc, proc->pid, &stop));
	kill(proc->pid, SIGKILL);
	struct error *err = remote_syscall(stop, SYS_getpid, (const uint64_t[6]){ 0 }, &result);
	assert_non_null(err);
	assert_int_equal(error_kind(err), ERROR_GONE);
	error_free(err);
	stop_disown(stop);
	no_error(launch_go(launch));
	int status = await_end(launch);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	assert_false(proc_is_alive(proc));
	launch_free(launch);
}

/* Kills the command, and waits until its end can be seen, which nobody takes. */
static void end_by_force(const struct proc *proc)
{
	siginfo_t info = { 0 };

	kill(proc->pid, SIGKILL);
	/* waitid reports the stop, too, and a stop's timer interrupts it (syscall_timeout.h) */
	while (info.si_code != CLD_KILLED) {
		int failed = waitid(P_PID, (id_t)proc->pid, &info, WEXITED | WNOWAIT | __WALL);

		assert_true(!failed || errno == EINTR);
	}
}

static void expect_killed(struct launch *launch)
{
	int status = await_end(launch);

	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* The stop that lets go of an adopted thread meets its end, not the report of its stop. */
static void test_ended_in_our_hand(void **state)
{
	struct launch *launch = start("sleep", "1000", NULL);
	struct proc *proc = launch_proc(launch);
	struct stop *stop = NULL;

	no_error(stop_adopt(proc, proc->pid, &stop));
	end_by_force(proc);
	stop_disown(stop);
	assert_true(proc->reaped);
	assert_int_equal(proc->reaped_status, SIGKILL);
	no_error(launch_go(launch));
	expect_killed(launch);
	launch_free(launch);
}

/* Another part of dyntrace that held the command has taken its end. */
static void test_end_was_taken(void **state)
{
	struct launch *launch = start("sleep", "1000", NULL);
	struct proc *proc = launch_proc(launch);
	int status;

	end_by_force(proc);
	assert_int_equal(waitpid(proc->pid, &status, __WALL), proc->pid);
	no_error(launch_go(launch));
	if (proc_end_status(proc, &status)) /* since Linux 6.15 */
		expect_killed(launch);
	launch_free(launch);
}

/* A command of ours that has executed a program is adopted: whoever adopts it leaves its end, or
 * says how it ended. */
static void test_adopted_ends(void **state)
{
	for (int held = 0; held < 2; held++) {
		struct launch *launch = start("sleep", "1000", NULL), *adopted = NULL;
		struct proc *proc = launch_proc(launch);
		struct error *err = NULL;
		siginfo_t info;

		if (held)
			no_error(launch_adopt(proc, &adopted));
		end_by_force(proc);
		if (!held)
			err = launch_adopt(proc, &adopted);
		assert_true(held || (err && error_kind(err) == ERROR_GONE && proc->reaped));
		error_free(err);
		if (held)
			no_error(launch_go(adopted));
		launch_free(adopted);
		assert_int_equal(waitid(P_PID, (id_t)proc->pid, &info,
					WEXITED | WNOHANG | WNOWAIT | __WALL),
				 held ? 0 : -1); /* left, or taken and told */
		expect_killed(launch);
		launch_free(launch);
	}
}

/* ---- threads that are followed to their execve ----------------------------------------------- */

static pid_t killed_before_detach; /* 0: none */

/* In front of the libc's: the process is killed just before its thread is let go. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list list;

	va_start(list, request);
	const struct ptrace_call call = ptrace_call_read(request, list);
	va_end(list);
	if (request == PTRACE_DETACH && killed_before_detach) {
		kill(killed_before_detach, SIGKILL);
		killed_before_detach = 0;
		target_await_state(call.tid, 'Z');
	}
	return ptrace_call_make(&call);
}

/* A thread of it that isn't its first. */
static pid_t later_thread(const struct proc *proc)
{
	struct tids tids = { 0 };

	no_error(threads_list(proc, &tids));
	assert_true(tids.count > 1 && tids.items[0] == proc->pid);
	pid_t tid = tids.items[1];
	vec_free(&tids);
	return tid;
}

static void tell_to_go(void *target)
{
	target_go(target);
}

/* A thread that is followed ends without an execve: its process, our own child, goes on. */
static void test_followed_thread_ends(void **state)
{
	struct target target = target_start("spin", "--threads", "2", "--calls", "20", NULL);
	struct exec_watch watch = { .seized = tell_to_go, .context = &target };
	enum exec_result result = EXEC_LATE;
	struct proc *proc = NULL;

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	assert_true(proc->own_child);
	no_error(exec_catch(proc, later_thread(proc), &watch, &result));
	assert_int_equal(result, EXEC_GONE);
	target_ready(&target); /* the first thread goes on */
	assert_false(proc->reaped);
	assert_true(proc_is_alive(proc));
	proc_close(proc);
	target_end(&target);
}

static void do_nothing(void *unused)
{
}

/* A thread that is killed just when it is to be let go: its end is seen, and so the end of its
 * process is (H31). */
static void test_followed_thread_is_killed(void **state)
{
	struct target target = target_start("execer", "--rounds", "7", "--lockstep", "1", NULL);
	struct exec_watch watch = { .seized = do_nothing };
	enum exec_result result = EXEC_GONE;
	struct proc *proc = NULL;
	siginfo_t info = { 0 };

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	killed_before_detach = target.pid;
	no_error(exec_catch(proc, later_thread(proc), &watch, &result));
	assert_int_equal(killed_before_detach, 0);
	for (int i = 0; i < 20000 && !info.si_pid; i++) {
		usleep(1000);
		assert_int_equal(waitid(P_PID, (id_t)target.pid, &info,
					WEXITED | WNOHANG | WNOWAIT), 0);
	}
	assert_int_equal(info.si_pid, target.pid);
	proc_close(proc);
	target_end(&target);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_status_is_passed_on),
		cmocka_unit_test(test_not_started),
		cmocka_unit_test(test_scripts),
		cmocka_unit_test(test_first_instruction),
		cmocka_unit_test(test_kinds_of_programs),
		cmocka_unit_test(test_failed_writes),
		cmocka_unit_test(test_failed_reads),
		cmocka_unit_test(test_never_let_go_is_killed),
		cmocka_unit_test(test_killed_in_our_hand),
		cmocka_unit_test(test_ended_in_our_hand),
		cmocka_unit_test(test_end_was_taken),
		cmocka_unit_test(test_adopted_ends),
		cmocka_unit_test(test_followed_thread_ends),
		cmocka_unit_test(test_followed_thread_is_killed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
