/* Holding threads still and letting them go, on real programs. */
#include "ptrace_call.h"
#include "target.h"
#include "thin.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/fence/filters.h"
#include "control/fence/user_dispatch.h"
#include "control/proc/proc_status.h"
#include "control/proc/unreleased.h"
#include "control/remote/remote.h"
#include "control/stop/fitness.h"
#include "control/stop/held.h"
#include "control/stop/rseq.h"
#include "control/stop/sharers.h"
#include "control/stop/stop.h"
#include "control/stop/stop_parts.h"

#define TIMEOUT_MS 20000 /* only what hangs takes as long */
#define FROZEN_MS 60000 /* after that it never goes on */

/* ---- lists that end early -------------------------------------------------------------------- */

static unsigned lists_to_cut; /* so many lists of threads end behind their first thread */

struct list_entry {
	uint64_t inode;
	int64_t next;
	unsigned short length;
	unsigned char type;
	char name[];
};

static long cut_list(const char *list, long size)
{
	for (long at = 0; at < size;) {
		const struct list_entry *entry = (const void *)(list + at);

		at += entry->length;
		if (entry->name[0] != '.')
			return at;
	}
	return size;
}

/* In front of the libc's: the kernel ends a list of threads at a thread that ends just then, and
 * the test does so at will. Reads six arguments, as the libc's does, also where fewer were
 * given. */
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
	static bool is_cut;
	unsigned long a[6];
	va_list list;
	long result;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, unsigned long);
	va_end(list);
	if (number == SYS_getdents64 && is_cut) {
		is_cut = false;
		return 0;
	}
	register unsigned long r10 __asm__("r10") = a[3];
	register unsigned long r8 __asm__("r8") = a[4];
	register unsigned long r9 __asm__("r9") = a[5];
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	if (number == SYS_getdents64 && result > 0 && lists_to_cut) {
		lists_to_cut--;
		is_cut = true;
		result = cut_list((const char *)a[1], result);
	}
	if (result < 0 && result > -4096) {
		errno = (int)-result;
		return -1;
	}
	return result;
}

/* ---- signals that come first ----------------------------------------------------------------- */

static int signal_after_seize; /* 0: none */
static bool dies_before_passing; /* the controller is killed when it passes a signal on */
static bool runs_into_trap; /* just before the next request to stop */

static void wait_for_state(pid_t tid, char state)
{
	while (target_state(tid) != state)
		usleep(1000);
}

/* ---- the order of requests ------------------------------------------------------------------- */

static pid_t computing; /* this thread computes, all others sleep */
static bool others_stood; /* when it was seized */
static pid_t let_go_first; /* 0: no thread was let go yet */
static struct tids asked, let_go; /* in this order, without the one that computes */
static bool *filter_comes; /* that thread waits for this word; NULL: it doesn't */

/* Tells the thread `tid` to give all threads a filter, and waits until that thread has ended. */
static void await_filter(pid_t tid)
{
	__atomic_store_n(filter_comes, true, __ATOMIC_RELEASE);
	while (!syscall(SYS_tgkill, (long)getpgid(tid), (long)tid, 0L))
		usleep(1000);
}

static void note_request(enum __ptrace_request request, pid_t tid)
{
	char path[64];

	if (request == PTRACE_DETACH && !let_go_first)
		let_go_first = tid;
	if (computing && tid != computing && request == PTRACE_INTERRUPT)
		assert_true(vec_push(&asked, tid));
	if (computing && tid != computing && request == PTRACE_DETACH)
		assert_true(vec_push(&let_go, tid));
	if (request != PTRACE_SEIZE || tid != computing)
		return;
	if (filter_comes) {
		await_filter(tid);
		return;
	}
	snprintf(path, sizeof(path), "/proc/%d/task", tid);
	DIR *dir = opendir(path);
	others_stood = true;
	for (struct dirent *entry; (entry = readdir(dir));) {
		pid_t other = atoi(entry->d_name);

		if (other > 0 && other != computing)
			others_stood &= target_state(other) == 't';
	}
	closedir(dir);
}

/* ---- threads that are let go late ------------------------------------------------------------ */

static bool is_still_ours; /* the next seizure fails: an earlier stop has let go of it in vain */
static pid_t let_go_late; /* by the handler of SIGCHLD, right before that is blocked */

static pid_t tracer_of(pid_t tid)
{
	struct thread_status status;

	no_error(proc_status_read(tid, tid, &status));
	return status.tracer;
}

/* In front of the libc's. */
int pthread_sigmask(int how, const sigset_t *set, sigset_t *ret_before)
{
	if (let_go_late && how == SIG_BLOCK) {
		pid_t tid = let_go_late;

		let_go_late = 0;
		ptrace(PTRACE_INTERRUPT, tid, 0, 0);
		while (tracer_of(tid))
			usleep(1000);
	}
	return syscall(SYS_rt_sigprocmask, (long)how, set, ret_before, 8L) ? errno : 0;
}

#define GET_DISPATCH ((enum __ptrace_request)0x4211) /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG */

static bool is_old_kernel; /* that doesn't know this request */
static unsigned dispatch_requests;

/* In front of the libc's: a signal comes between the seizure of a thread and the request to stop,
 * and is reported first. */
long ptrace(enum __ptrace_request request, ...)
{
	va_list list;

	va_start(list, request);
	const struct ptrace_call call = ptrace_call_read(request, list);
	va_end(list);
	if (dies_before_passing && call.data &&
	    (request == PTRACE_CONT || request == PTRACE_DETACH))
		kill(getpid(), SIGKILL);
	if (computing)
		note_request(request, call.tid);
	dispatch_requests += request == GET_DISPATCH;
	if (is_old_kernel && request == GET_DISPATCH) {
		errno = EIO;
		return -1;
	}
	long result = ptrace_call_make(&call);
	if (request == PTRACE_SEIZE && !result && signal_after_seize) {
		syscall(SYS_tgkill, (long)call.tid, (long)call.tid, (long)signal_after_seize);
		signal_after_seize = 0;
		wait_for_state(call.tid, 't');
	}
	if (request == PTRACE_INTERRUPT && !result && runs_into_trap) {
		runs_into_trap = false;
		wait_for_state(call.tid, 't');
		syscall(SYS_tgkill, (long)call.tid, (long)call.tid, (long)SIGTRAP);
	}
	if (request == PTRACE_SEIZE && !result && is_still_ours) {
		is_still_ours = false;
		unreleased_add(call.tid, false);
		let_go_late = call.tid;
		errno = EPERM;
		return -1;
	}
	return result;
}

/* ---- waits that fail ------------------------------------------------------------------------- */

static unsigned waits_to_fail;

/* In front of the libc's. */
int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
	if (waits_to_fail) {
		waits_to_fail--;
		errno = EAGAIN;
		return -1;
	}
	return (int)syscall(SYS_waitid, (long)type, (long)id, info, (long)options, NULL);
}

/* ---- memory that ends ------------------------------------------------------------------------ */

static size_t growths_left = SIZE_MAX; /* of lists; then one fails */

/* In front of the controller's. */
bool vec_grow(void **items, size_t *room, size_t count, size_t more, size_t item_size)
{
	size_t wanted = 2 * (count + more);

	if (count + more <= *room)
		return true;
	if (growths_left != SIZE_MAX && !growths_left--)
		return false;
	void *grown = realloc(*items, wanted * item_size);
	if (!grown)
		return false;
	*items = grown;
	*room = wanted;
	return true;
}

/* H31: a thread that was seized and can't be noted is let go by itself: nobody stops it again. */
static void test_no_memory_for_a_thread(void **state)
{
	struct target target = target_start("spin", "--threads", "4", NULL);
	struct tids tids = { 0 };
	struct proc *proc = NULL;

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	no_error(threads_list(proc, &tids));
	for (size_t left = 0; growths_left == SIZE_MAX; left++) {
		struct stop *stop = NULL;

		growths_left = left;
		error_free(stop_all(proc, TIMEOUT_MS, &stop));
		stop_release(stop, NULL);
		for (size_t i = 0; i < tids.count; i++) {
			for (int ms = 0; ms < TIMEOUT_MS && tracer_of(tids.items[i]); ms++)
				usleep(1000);
			assert_int_equal(tracer_of(tids.items[i]), 0);
		}
	}
	growths_left = SIZE_MAX;
	vec_free(&tids);
	proc_close(proc);
	target_end(&target);
}

/* S1: a thread that reports a signal isn't stopped yet. The signal is delivered, and ends the
 * program. */
static void test_signal_comes_first(void **state)
{
	struct target target = target_start("steady", "--threads", "1", NULL);
	struct stop *stop = NULL;
	siginfo_t info = { 0 };
	char text[256];

	target_ready(&target);
	target_go(&target);
	struct proc *proc = NULL;
	no_error(proc_open(target.pid, &proc));
	signal_after_seize = SIGUSR1;
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_int_equal(signal_after_seize, 0);
	stop_release(stop, NULL);
	for (int i = 0; i < TIMEOUT_MS && !info.si_pid; i++) {
		usleep(1000);
		waitid(P_PID, (id_t)target.pid, &info, WEXITED | WNOHANG | WNOWAIT);
	}
	assert_int_equal(info.si_pid, target.pid);
	assert_int_equal(info.si_code, CLD_EXITED); /* by itself: its handler saw the signal */
	target_finish(&target, text, sizeof(text));
	proc_close(proc);
}

/* S9: a signal isn't lost when the controller is killed between its report and passing it on. */
static void test_signal_outlives_the_controller(void **state)
{
	struct target target = target_start("steady", "--threads", "1", NULL);
	siginfo_t info = { 0 };
	char text[256];
	int status;

	target_ready(&target);
	target_go(&target);
	pid_t controller = fork();
	if (!controller) {
		struct proc *proc = NULL;
		struct stop *stop = NULL;

		no_error(proc_open(target.pid, &proc));
		signal_after_seize = SIGUSR1;
		dies_before_passing = true;
		error_free(stop_all(proc, TIMEOUT_MS, &stop));
		_exit(0);
	}
	assert_int_equal(waitpid(controller, &status, 0), controller);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	for (int i = 0; i < TIMEOUT_MS && !info.si_pid; i++) {
		usleep(1000);
		waitid(P_PID, (id_t)target.pid, &info, WEXITED | WNOHANG | WNOWAIT);
	}
	if (!info.si_pid)
		target_end(&target);
	assert_int_equal(info.si_code, CLD_EXITED); /* its handler saw the signal */
	target_finish(&target, text, sizeof(text));
}

/* A thread of a stop that was given up is let go in the moment in which the next stop finds that it
 * can't be seized: it isn't ours any more, and hasn't begun another program. */
static void test_let_go_while_seized_again(void **state)
{
	struct target target = target_start("steady", "--threads", "1", NULL);
	struct stop *stop = NULL;

	target_ready(&target);
	struct proc *proc = NULL;
	no_error(proc_open(target.pid, &proc));
	is_still_ours = true;
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_false(is_still_ours);
	assert_int_equal(let_go_late, 0);
	assert_int_equal(target_state(target.pid), 't');
	stop_release(stop, NULL);
	proc_close(proc);
	target_end(&target);
}

/* S4: threads that lists leave out are held all the same. */
static void test_cut_lists(void **state)
{
	struct target target = target_start("spin", "--threads", "4", NULL);
	struct tids tids = { 0 };

	target_ready(&target);
	struct proc *proc = NULL;
	no_error(proc_open(target.pid, &proc));
	no_error(threads_list(proc, &tids));
	assert_true(tids.count >= 4);
	for (unsigned cut = 0; cut < 6; cut++) {
		struct stop *stop = NULL;

		lists_to_cut = cut;
		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(lists_to_cut, 0);
		assert_int_equal(stop_thread_count(stop), tids.count);
		for (size_t i = 0; i < tids.count; i++)
			assert_int_equal(target_state(tids.items[i]), 't');
		stop_release(stop, NULL);
	}
	vec_free(&tids);
	proc_close(proc);
	target_end(&target);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static int64_t remote(struct stop *stop, long number, uint64_t a, uint64_t b)
{
	int64_t result = INT64_MIN;

	no_error(remote_syscall(stop, number, (const uint64_t[6]){ a, b }, &result));
	return result;
}

static struct proc *open_target(const struct target *target)
{
	struct proc *proc = NULL;

	no_error(proc_open(target->pid, &proc));
	return proc;
}

static void expect_all_ok(char *text, size_t lines)
{
	size_t count = 0;

	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"), count++) {
		if (!strstr(line, " ok"))
			fail_msg("%s", line);
	}
	assert_int_equal(count, lines);
}

/* Every blocking call goes on as if nothing had been, after stops of all threads and remote calls
 * on each. */
static void test_calls_go_on(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	char text[4096];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 20; i++) {
		struct stop *stop = NULL;

		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 15);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	proc_close(proc);
}

/* The same for stops that are given up at once: threads stop when nobody waits for them (H31). */
static void test_calls_go_on_after_failed_stops(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	char text[4096];
	size_t failed = 0;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 200; i++) {
		struct stop *stop = NULL;
		struct error *err = stop_all(proc, 0, &stop);

		failed += err != NULL;
		error_free(err);
		stop_release(stop, NULL);
	}
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	assert_true(failed);
	proc_close(proc);
}

/* The same, with the remote calls run by each of the sleeping threads in turn. */
static void test_calls_go_on_with_remote_calls(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	struct tids tids = { 0 };
	char text[4096];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	for (size_t i = 0; i < 3 * tids.count; i++) {
		pid_t tid = tids.items[i % tids.count];
		struct stop *stop = NULL;

		no_error(stop_thread(proc, tid, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_tid(stop, 0), tid);
		assert_int_equal(remote(stop, SYS_gettid, 0, 0), tid);
		assert_int_equal(remote(stop, SYS_close, 9999, 0), -EBADF);
		stop_release(stop, NULL);
	}
	vec_free(&tids);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	proc_close(proc);
}

static void expect_kernel_registers(const struct stop *stop)
{
	for (size_t i = 0; i < stop->threads.count; i++) {
		const struct held *held = &stop->threads.items[i];
		struct user_regs_struct regs;

		assert_int_equal(held->state, HELD_STOPPED);
		assert_int_equal(ptrace(PTRACE_GETREGS, held->tid, 0, &regs), 0);
		assert_memory_equal(&regs, &held->regs, sizeof(regs));
	}
}

/* S3: the registers that a stop shows are those that the kernel holds, also after a remote call and
 * after a thread was moved. */
static void test_registers_are_the_kernels(void **state)
{
	struct target target = target_start("sleeper", "--ms", "1500", NULL);
	struct stop *stop = NULL;
	char text[4096];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	expect_kernel_registers(stop);
	assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
	expect_kernel_registers(stop);
	for (size_t i = 0; i < stop_thread_count(stop); i++)
		no_error(stop_thread_set_rip(stop, i, stop_thread_rip(stop, i)));
	expect_kernel_registers(stop);
	stop_release(stop, NULL);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	expect_all_ok(text, 14);
	proc_close(proc);
}

static void test_one_is_fit(void **state)
{
	struct target target = target_start("spin", "--threads", "4", NULL);
	struct stop *stop = NULL;
	struct tids tids = { 0 };
	size_t index = 0;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), 1);
	pid_t tid = stop_thread_tid(stop, 0);
	while (index < tids.count && tids.items[index] != tid)
		index++;
	assert_true(index < tids.count);
	for (size_t i = 0; i < tids.count; i++)
		assert_int_equal(target_state(tids.items[i]) == 't', i == index);
	assert_int_equal(remote(stop, SYS_gettid, 0, 0), tid);
	assert_int_equal(remote(stop, SYS_getppid, 0, 0), getpid());
	stop_release(stop, NULL);
	vec_free(&tids);
	proc_close(proc);
	target_end(&target);
}

/* Runs for as long as we like, and says at the end whether anything was touched. */
static void end_steady(struct target *target)
{
	char text[256];

	kill(target->pid, SIGUSR1);
	assert_int_equal(target_finish(target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
}

static void test_running_threads_are_unharmed(void **state)
{
	struct target target = target_start("steady", "--threads", "4", NULL);

	target_ready(&target);
	target_go(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < THIN(300, 100); i++) {
		struct stop *stop = NULL;

		if (i % 2)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), i % 2 ? 4 : 1);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	end_steady(&target);
	proc_close(proc);
}

static void test_priority_is_raised_and_lowered(void **state)
{
	struct target target = target_start("spin", NULL);
	struct stop *stop = NULL;
	int before = sched_getscheduler(0);

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	if (!geteuid())
		assert_int_equal(sched_getscheduler(0), SCHED_FIFO | SCHED_RESET_ON_FORK);
	stop_release(stop, NULL);
	assert_int_equal(sched_getscheduler(0), before);
	proc_close(proc);
	target_end(&target);
}

#define HOGS_MAX 1024

/* A real-time thread that never sleeps. Ends by itself: without S20 nobody else can end it. */
static void hog(volatile unsigned *turns)
{
	struct rlimit seconds = { 2, 2 };
	struct sched_param param = { .sched_priority = sched_get_priority_max(SCHED_FIFO) / 2 };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (setrlimit(RLIMIT_CPU, &seconds) || sched_setscheduler(0, SCHED_FIFO, &param))
		_exit(1);
	for (;;)
		++*turns;
}

/* Leaves the process to be waited for. */
static bool has_ended(pid_t pid)
{
	siginfo_t info = { .si_pid = 0 };

	return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) || info.si_pid;
}

/* May this process have the highest real-time priority? root in a container may not. */
static bool may_be_first(void)
{
	struct sched_param first = { .sched_priority = sched_get_priority_max(SCHED_FIFO) };
	pid_t pid = fork();
	int status;

	if (!pid)
		_exit(sched_setscheduler(0, SCHED_FIFO, &first) != 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return !status;
}

/* (S20) Real-time threads of others have all processors: who holds a target gets one. */
static void test_runs_before_real_time_threads(void **state)
{
	struct target target = target_start("spin", NULL);
	int count = (int)sysconf(_SC_NPROCESSORS_ONLN), alive = 0;
	volatile unsigned *turns = mmap(NULL, HOGS_MAX * sizeof(*turns), PROT_READ | PROT_WRITE,
					MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t hogs[HOGS_MAX];
	struct stop *stop = NULL;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	assert_true(turns != MAP_FAILED && count <= HOGS_MAX);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	struct sched_param param;
	bool permitted = sched_getparam(0, &param) == 0 && param.sched_priority > 1;
	for (int i = 0; i < count && permitted; i++) {
		hogs[i] = fork();
		if (!hogs[i])
			hog(&turns[i]);
	}
	for (int i = 0; i < count && permitted; i++) {
		while (!turns[i] && !has_ended(hogs[i]))
			usleep(1000);
	}
	for (int i = 0; i < count && permitted; i++) {
		alive += turns[i] && !has_ended(hogs[i]);
		kill(hogs[i], SIGKILL);
		waitpid(hogs[i], NULL, 0);
	}
	stop_release(stop, NULL);
	if (permitted)
		assert_int_equal(alive, count);
	else
		assert_true(geteuid() || !may_be_first());
	munmap((void *)turns, HOGS_MAX * sizeof(*turns));
	proc_close(proc);
	target_end(&target);
}

/* (H33) Nobody can look which program runs: that isn't taken for another one. */
static void test_no_descriptor_left(void **state)
{
	struct target target = target_start("spin", NULL);
	struct rlimit before, none;
	struct stop *stop = NULL;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ 0, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	struct error *error = stop_check_program(stop);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(error);
	assert_int_not_equal(error_kind(error), ERROR_GONE);
	assert_non_null(strstr(error_text(error), "Too many open files"));
	error_free(error);
	no_error(stop_check_program(stop));
	stop_release(stop, NULL);
	proc_close(proc);
	target_end(&target);
}

/* A stopped process can be held and used, and is still stopped afterwards. */
static void test_stopped_stays_stopped(void **state)
{
	struct target target = target_start("spin", "--threads", "3", NULL);

	target_ready(&target);
	struct proc *proc = open_target(&target);
	kill(target.pid, SIGSTOP);
	target_await_state(target.pid, 'T');
	for (int i = 0; i < 10; i++) {
		struct stop *stop = NULL;

		if (i % 2)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
		target_await_state(target.pid, 'T');
	}
	kill(target.pid, SIGCONT);
	target_await_state(target.pid, 'S');
	target_go(&target);
	target_ready(&target);
	proc_close(proc);
	target_end(&target);
}

/* Our death at any moment of a remote call costs the target nothing (H14). */
static void inject_for_ever(pid_t pid)
{
	struct proc *proc = NULL;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (proc_open(pid, &proc))
		_exit(1);
	for (unsigned i = 0;; i++) {
		struct stop *stop = NULL;
		int64_t result;

		if (i % 2 ? stop_all(proc, TIMEOUT_MS, &stop) : stop_one(proc, TIMEOUT_MS, &stop))
			_exit(2);
		for (int j = 0; j < 3; j++) {
			if (remote_syscall(stop, SYS_getpid, (const uint64_t[6]){ 0 }, &result) ||
			    result != pid)
				_exit(3);
		}
		stop_release(stop, NULL);
	}
}

/* (Between the request to stop and the first look at the thread an epoll_wait can come back with
 * EINTR, as after any SIGSTOP: nobody is left to rewind it.) */
static void test_killed_controllers(void **state)
{
	struct target target = target_start("steady", "--threads", "2", "--eintr", "1", NULL);
	unsigned seed = 12345;

	target_ready(&target);
	target_go(&target);
	for (int i = 0; i < THIN(300, 100); i++) {
		pid_t controller = fork();

		if (!controller)
			inject_for_ever(target.pid);
		/* somewhere in its first few rounds */
		target_kill_controller(&target, controller, 1000000 + rand_r(&seed) % 3000000);
	}
	end_steady(&target);
}

/* Threads and children that come and go, signals that must arrive once: all while it is held again
 * and again. */
static void test_storm(void **state)
{
	struct target target = target_start("storm", NULL);
	char text[256];

	target_ready(&target);
	target_go(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < THIN(300, 100); i++) {
		struct stop *stop = NULL;

		if (i % 4)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	proc_close(proc);
	kill(target.pid, SIGTERM);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
}

static void test_many_threads(void **state)
{
	struct target target =
		target_start("spin", "--threads", "64", "--calls", "2000000000", NULL);
	struct stop *stop = NULL;

	target_ready(&target);
	target_go(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 20; i++) {
		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 64);
		for (size_t j = 0; j < 64; j++)
			assert_int_equal(target_state(stop_thread_tid(stop, j)), 't');
		stop_release(stop, NULL);
	}
	proc_close(proc);
	target_end(&target);
}

#define SLEEPERS 8

static void *sleep_for_ever(void *unused)
{
	for (;;)
		pause();
	return NULL;
}

static void *compute_for_ever(void *unused)
{
	for (;;)
		__asm__ volatile("");
	return NULL;
}

static pid_t start_sleepers(bool leader_computes)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&thread, NULL, sleep_for_ever, NULL);
	if (leader_computes)
		compute_for_ever(NULL);
	pthread_create(&thread, NULL, compute_for_ever, NULL);
	sleep_for_ever(NULL);
	_exit(1);
}

/* Waits until all threads are there, and all but one sleep; finds that one. */
static pid_t find_computing(const struct proc *proc, size_t count)
{
	for (unsigned round = 0;; round++) {
		struct tids tids = { 0 };
		size_t asleep = 0;
		pid_t found = 0;

		no_error(threads_list(proc, &tids));
		for (size_t i = 0; i < tids.count; i++) {
			char state = target_state(tids.items[i]);

			asleep += state == 'S';
			found = state == 'R' ? tids.items[i] : found;
		}
		vec_free(&tids);
		if (found && asleep == count - 1)
			return found;
		held_nap(round);
	}
}

/* (S16) A thread that computes is held when all that sleep stand still, and is let go before
 * them. */
static void check_computing(bool leader_computes)
{
	size_t count = leader_computes ? SLEEPERS + 1 : SLEEPERS + 2;
	pid_t pid = start_sleepers(leader_computes);
	struct proc *proc = NULL;
	struct stop *stop = NULL;

	no_error(proc_open(pid, &proc));
	computing = find_computing(proc, count);
	assert_int_equal(computing == pid, leader_computes);
	others_stood = false;
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_true(others_stood);
	assert_int_equal(stop_thread_count(stop), count);
	assert_int_equal(stop_thread_tid(stop, 0), pid);
	let_go_first = 0;
	stop_release(stop, NULL);
	assert_int_equal(let_go_first, computing);
	computing = 0;
	/* (S17) no thread waits for the others both when they are asked and when they are let go */
	assert_int_equal(asked.count, count - 1);
	assert_int_equal(let_go.count, count - 1);
	assert_memory_equal(asked.items, let_go.items, (count - 1) * sizeof(asked.items[0]));
	vec_free(&asked);
	vec_free(&let_go);
	/* killed while it is held: nobody waits for the leader's end before the others' */
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	kill(pid, SIGKILL);
	stop_release(stop, NULL);
	assert_false(proc_is_alive(proc));
	assert_true(proc->reaped && WIFSIGNALED(proc->reaped_status));
	proc_close(proc);
}

static void test_computing_threads_are_held_last(void **state)
{
	check_computing(false);
	check_computing(true);
}

static void *bring_filter(void *unused)
{
	struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	struct sock_fprog program = { .len = 1, .filter = &allow };

	while (!__atomic_load_n(filter_comes, __ATOMIC_ACQUIRE))
		;
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		_exit(1);
	syscall(SYS_exit, 0);
	return NULL;
}

/* Sleepers, and a thread that computes until it brings the filter. */
static pid_t start_filtering(void)
{
	pid_t pid = fork();
	pthread_t thread;

	if (pid)
		return pid;
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	for (int i = 0; i < SLEEPERS; i++)
		pthread_create(&thread, NULL, sleep_for_ever, NULL);
	pthread_create(&thread, NULL, bring_filter, NULL);
	sleep_for_ever(NULL);
	_exit(1);
}

/* (S19) The sleepers have no filter when they are asked. They have one when all are held, and
 * whoever gave it to them has ended. */
static void test_filter_comes_while_others_stand(void **state)
{
	struct proc *proc = NULL;
	struct stop *stop = NULL;

	if (!filters_may_read())
		skip();
	filter_comes = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(filter_comes, MAP_FAILED);
	pid_t pid = start_filtering();
	no_error(proc_open(pid, &proc));
	pid_t brings = find_computing(proc, SLEEPERS + 2);
	no_error(stop_all_and_ask(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), SLEEPERS + 2);
	for (size_t i = 0; i < stop_thread_count(stop); i++)
		assert_true(stop_thread_is_plain(stop, i));
	stop_release(stop, NULL);
	assert_int_equal(find_computing(proc, SLEEPERS + 2), brings);
	computing = brings;
	no_error(stop_all_and_ask(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), SLEEPERS + 1);
	for (size_t i = 0; i < stop_thread_count(stop); i++)
		assert_false(stop_thread_is_plain(stop, i));
	stop_release(stop, NULL);
	computing = 0;
	munmap(filter_comes, 4096);
	filter_comes = NULL;
	vec_free(&asked);
	vec_free(&let_go);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	proc_close(proc);
}

/* A kernel that doesn't know how to tell of dispatches is asked once, not for each thread. In a
 * process of its own: it never asks again. */
static void test_old_kernel_is_asked_once(void **state)
{
	struct user_dispatch dispatch;
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		dispatch_requests = 0;
		is_old_kernel = true;
		bool found = user_dispatch_read(getppid(), &dispatch) ||
			     user_dispatch_read(getppid(), &dispatch);
		_exit(found ? 100 : (int)dispatch_requests);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 1);
	/* a thread that can't be asked now says nothing of the kernel */
	dispatch_requests = 0;
	assert_false(user_dispatch_read(getpid(), &dispatch));
	assert_false(user_dispatch_read(getpid(), &dispatch));
	assert_int_equal(dispatch_requests, 2);
}

/* To look for ends takes longer then than until the next look. */
static void test_thousands_of_threads(void **state)
{
	struct target target = target_start("spin", "--threads", "5000", "--calls", "20", NULL);
	struct stop *stop = NULL;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 2; i++) {
		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 5000);
		stop_release(stop, NULL);
	}
	proc_close(proc);
	target_end(&target);
}

/* Is the thread held, or still ours? */
static bool is_tied(pid_t tid)
{
	struct thread_status status;

	no_error(proc_status_read(tid, tid, &status));
	return status.tracer || target_state(tid) == 't';
}

/* However many threads stop late, each is let go (H31). */
static void test_many_stop_late(void **state)
{
	struct target target = target_start("spin", "--threads", "300", "--calls", "20", NULL);
	struct tids tids = { 0 };

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	assert_int_equal(tids.count, 300);
	for (size_t i = 0; i < tids.count; i++)
		assert_int_equal(ptrace(PTRACE_SEIZE, tids.items[i], 0, 0), 0);
	for (size_t i = 0; i < tids.count; i++)
		unreleased_add(tids.items[i], true);
	for (size_t i = 0; i < tids.count; i++)
		ptrace(PTRACE_INTERRUPT, tids.items[i], 0, 0);
	for (size_t i = 0; i < tids.count; i++) {
		for (unsigned round = 0; is_tied(tids.items[i]); round++)
			held_nap(round);
	}
	vec_free(&tids);
	proc_close(proc);
	target_end(&target);
}

/* A thread stays on the list while nobody can tell what it does (H31). */
static void test_wait_fails(void **state)
{
	struct target target = target_start("spin", "--threads", "1", "--calls", "20", NULL);

	target_ready(&target);
	assert_int_equal(ptrace(PTRACE_SEIZE, target.pid, 0, 0), 0);
	waits_to_fail = 1;
	unreleased_add(target.pid, true);
	assert_int_equal(waits_to_fail, 0);
	ptrace(PTRACE_INTERRUPT, target.pid, 0, 0);
	for (unsigned round = 0; is_tied(target.pid) && round < TIMEOUT_MS; round++)
		usleep(1000);
	assert_false(is_tied(target.pid));
	target_end(&target);
}

/* A thread of a stop that was given up makes another thread before it stops: that one is ours from
 * birth, and is let go as well (H31). */
static void test_child_of_a_late_thread(void **state)
{
	struct target target = target_start("churn", "--threads", "4", "--rounds", "1", NULL);
	char text[256];

	target_ready(&target);
	assert_int_equal(ptrace(PTRACE_SEIZE, target.pid, 0, PTRACE_O_TRACECLONE), 0);
	assert_true(unreleased_reserve(2));
	unreleased_add(target.pid, true);
	target_go(&target);
	target_ready(&target);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
}

static void expect_other_borrowed(size_t trapped)
{
	struct target target = target_start("spin", "--threads", "2", "--calls", "20", NULL);
	struct stop *stop = NULL;
	struct remote *remote = NULL;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), 2);
	pid_t tid = stop_thread_tid(stop, trapped);
	syscall(SYS_tgkill, (long)target.pid, (long)tid, (long)SIGTRAP);
	assert_true(stop_thread_trapped(stop, trapped));
	no_error(remote_begin(stop, &remote));
	assert_int_not_equal(remote_thread(remote), tid);
	no_error(remote_end(remote));
	stop_release(stop, NULL);
	proc_close(proc);
	target_end(&target);
}

/* H10: a thread that has run into a trap isn't borrowed where another can be. */
static void test_trapped_is_borrowed_last(void **state)
{
	expect_other_borrowed(0);
	expect_other_borrowed(1);
}

static void on_trap(int number)
{
}

/* A process of one thread, which survives traps. */
static pid_t start_alone(void)
{
	int ready[2];
	char byte;

	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGTRAP, on_trap);
		close(ready[1]);
		for (;;)
			pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 0);
	close(ready[0]);
	return pid;
}

static void end_alone(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* H10: the only thread has run into a trap. It is let go, to the trap's handler, before it is
 * borrowed. */
static void test_trapped_alone(void **state)
{
	for (int all = 0; all < 2; all++) {
		pid_t pid = start_alone();
		struct proc *proc = NULL;
		struct stop *stop = NULL;

		no_error(proc_open(pid, &proc));
		runs_into_trap = true;
		no_error((all ? stop_all : stop_one)(proc, TIMEOUT_MS, &stop));
		assert_false(runs_into_trap);
		assert_false(stop_thread_trapped(stop, 0));
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), pid);
		stop_release(stop, NULL);
		proc_close(proc);
		end_alone(pid);
	}
}

/* A stopped process gets to no handler, however long we wait. */
static void test_trapped_and_stopped(void **state)
{
	pid_t pid = start_alone();
	struct proc *proc = NULL;
	struct stop *stop = NULL;

	kill(pid, SIGSTOP);
	wait_for_state(pid, 'T');
	kill(pid, SIGTRAP);
	no_error(proc_open(pid, &proc));
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_true(stop_thread_trapped(stop, 0));
	stop_release(stop, NULL);
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	assert_int_equal(remote(stop, SYS_getpid, 0, 0), pid);
	stop_release(stop, NULL);
	wait_for_state(pid, 'T');
	proc_close(proc);
	end_alone(pid);
}

/* A process that shares the memory is held as well (H13). */
static void test_sharer(void **state)
{
	struct target target = target_start("sharer", NULL);
	struct stop *stop = NULL;
	char text[64] = "";
	unsigned long counter[2];
	pid_t child = 0;
	taddr at = { 0 };

	target_ready(&target);
	assert_true(read(target.out, text, sizeof(text) - 1) > 0);
	assert_int_equal(sscanf(text, "%d %lx", &child, &at.v), 2);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_count(stop), 2);
	assert_int_equal(stop_thread_tid(stop, 1), child);
	no_error(mem_read(proc, at, &counter[0], 8));
	/* remote calls are the process's own */
	assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
	no_error(mem_read(proc, at, &counter[1], 8));
	assert_int_equal(counter[0], counter[1]);
	stop_release(stop, NULL);
	do
		no_error(mem_read(proc, at, &counter[1], 8));
	while (counter[0] == counter[1]);
	proc_close(proc);
	target_go(&target);
	assert_int_equal(target_finish(&target, NULL, 0), 0);
}

#define MANY 10000

/* Makes a process, which gets the machine's next number, and sees its end. */
static void use_a_number(void)
{
	pid_t child = fork();

	if (!child)
		_exit(0);
	assert_int_equal(waitpid(child, NULL, 0), child);
}

/* (S8) A process that shares the memory is found though it was made after the look, among others
 * that are none of the target's. */
static void test_sharer_comes_late(void **state)
{
	struct target target = target_start("sharer", "--late", "1", NULL);
	char text[64] = "";
	bool found = true;
	pid_t child = 0;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	struct stop before = { .proc = proc }, *stop = NULL;
	sharers_look(&before);
	assert_true(before.alone_number > 0);
	assert_int_equal(before.alone_threads.count, 1);
	use_a_number();
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	stop->alone_number = before.alone_number;
	stop->alone_threads = before.alone_threads;
	no_error(sharers_take(stop, &found));
	assert_false(found);
	before.alone_threads = stop->alone_threads;
	stop->alone_threads = (struct tids){ 0 };
	stop_release(stop, NULL);

	target_go(&target);
	target_ready(&target);
	assert_true(read(target.out, text, sizeof(text) - 1) > 0);
	assert_int_equal(sscanf(text, "%d", &child), 1);
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	stop->alone_number = child - 1; /* the machine may have made many more */
	stop->alone_threads = before.alone_threads;
	while (stop->alone_threads.count < MANY) /* as if it had so many threads */
		assert_true(vec_push(&stop->alone_threads, target.pid));
	no_error(sharers_take(stop, &found));
	assert_true(found);
	assert_int_equal(stop_thread_count(stop), 2);
	assert_int_equal(stop_thread_tid(stop, 1), child);
	stop_release(stop, NULL);
	proc_close(proc);
	target_go(&target);
	assert_int_equal(target_finish(&target, NULL, 0), 0);
}

/* Lets the child of a vfork end. The thread that we had seized stops then, and is let go though
 * nobody looks (H31). */
static void finish_vfork(struct target *target, struct proc *proc, struct tids *tids)
{
	target_go(target);
	for (unsigned round = 0; target_state(tids->items[1]); round++)
		held_nap(round);
	target_ready(target);
	vec_free(tids);
	target_go(target);
	proc_close(proc);
	assert_int_equal(target_finish(target, NULL, 0), 0);
}

/* A thread in vfork can't be stopped: an error that names it, in time, and nothing stays behind. */
static void test_vfork(void **state)
{
	struct target target = target_start("sharer", "--vfork", "1", NULL);
	struct stop *stop = NULL;
	struct tids tids = { 0 };
	char name[32];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	assert_int_equal(tids.count, 2);
	target_await_state(tids.items[1], 'D');
	struct error *err = stop_all(proc, 100, &stop);
	assert_non_null(err);
	snprintf(name, sizeof(name), "thread %d (", tids.items[1]);
	assert_non_null(strstr(error_text(err), name));
	assert_non_null(strstr(error_text(err), "uninterruptible"));
	error_free(err);
	/* one thread can be had all the same */
	no_error(stop_one(proc, TIMEOUT_MS, &stop));
	assert_int_equal(stop_thread_tid(stop, 0), target.pid);
	stop_release(stop, NULL);
	finish_vfork(&target, proc, &tids);
}

static void want_to_end(int number)
{
	interrupt_request();
}

/* In a child, for the wish to end stays. 0: as it should be. */
static int quit_while_waiting(struct proc *proc)
{
	struct itimerval soon = { .it_value = { .tv_usec = 30000 } };
	struct stop *stop = NULL;

	signal(SIGALRM, want_to_end);
	setitimer(ITIMER_REAL, &soon, NULL);
	struct error *err = stop_all_or_quit(proc, FROZEN_MS, &stop);
	if (!err || error_kind(err) != ERROR_INTERRUPTED)
		return 1;
	error_free(err);
	/* what must be done is done all the same */
	err = stop_all(proc, 100, &stop);
	if (!err || !strstr(error_text(err), "uninterruptible"))
		return 2;
	error_free(err);
	err = stop_one(proc, TIMEOUT_MS, &stop);
	if (err)
		return 3;
	stop_release(stop, NULL);
	err = stop_one_or_quit(proc, TIMEOUT_MS, &stop);
	if (!err || error_kind(err) != ERROR_INTERRUPTED)
		return 4;
	error_free(err);
	return 0;
}

/* Ctrl-C ends the wait for a thread in vfork, and all threads run on. */
static void test_quit(void **state)
{
	struct target target = target_start("sharer", "--vfork", "1", NULL);
	struct tids tids = { 0 };
	int status = -1;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(threads_list(proc, &tids));
	target_await_state(tids.items[1], 'D');
	pid_t child = fork();
	if (!child)
		_exit(quit_while_waiting(proc));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	finish_vfork(&target, proc, &tids);
}

static void test_zombie_leader(void **state)
{
	struct target target = target_start("headless", NULL);
	struct stop *stop = NULL;
	struct maps maps = { 0 };

	target_ready(&target);
	struct proc *proc = open_target(&target);
	assert_true(proc_is_alive(proc));
	no_error(maps_read(proc, &maps));
	assert_true(maps.count > 5);
	maps_free(&maps);
	for (int i = 0; i < 5; i++) {
		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 1);
		assert_int_not_equal(stop_thread_tid(stop, 0), target.pid);
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	proc_close(proc);
	target_go(&target);
	int status = target_finish(&target, NULL, 0);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* A thread inside a restartable sequence runs no remote call and is moved to its abort address only
 * (H11). */
static void test_restartable_sequence(void **state)
{
	struct target target = target_start("rseq", NULL);
	uint64_t before = 0, now = 0;
	unsigned inside = 0;
	char text[64] = "";
	taddr counter = { 0 };

	target_ready(&target);
	assert_true(read(target.out, text, sizeof(text) - 1) > 0);
	assert_int_equal(sscanf(text, "%lx", &counter.v), 1);
	struct proc *proc = open_target(&target);
	for (int i = 0; i < 200; i++) {
		struct stop *stop = NULL;
		taddr abort_at;

		/* not before it got on since the last time */
		for (before = now; now == before;)
			no_error(mem_read(proc, counter, &now, sizeof(now)));

		no_error(stop_all(proc, TIMEOUT_MS, &stop));
		assert_int_equal(stop_thread_count(stop), 2);
		assert_int_equal(stop_thread_tid(stop, 0), target.pid);
		if (rseq_inside(stop, 1, &abort_at)) {
			assert_false(fitness_of(stop, 1));
			/* even to where it is */
			no_error(stop_thread_set_rip(stop, 1, stop_thread_rip(stop, 1)));
			assert_int_equal(stop_thread_rip(stop, 1).v, abort_at.v);
			assert_false(rseq_inside(stop, 1, &abort_at));
			inside++;
		}
		assert_int_equal(remote(stop, SYS_gettid, 0, 0), target.pid);
		stop_release(stop, NULL);
	}
	assert_true(inside > 20);
	proc_close(proc);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
}

static void use_repeatedly(struct proc *proc)
{
	for (int i = 0; i < 10; i++) {
		struct stop *stop = NULL;

		if (i % 2)
			no_error(stop_all(proc, TIMEOUT_MS, &stop));
		else
			no_error(stop_one(proc, TIMEOUT_MS, &stop));
		assert_int_equal(remote(stop, SYS_getpid, 0, 0), proc->pid);
		stop_release(stop, NULL);
	}
}

/* At the lower end of its stack a frame still finds room; below a stack of unknown size none is
 * written. */
static void test_odd_stacks(void **state)
{
	struct target target = target_start("deep", NULL);
	char text[64];

	target_ready(&target);
	struct proc *proc = open_target(&target);
	use_repeatedly(proc);
	target_go(&target);
	target_ready(&target);
	use_repeatedly(proc);
	proc_close(proc);
	target_go(&target);
	assert_int_equal(target_finish(&target, text, sizeof(text)), 0);
	assert_string_equal(text, "ok\n");
}

/* Stops one program of the process until it ends or begins the next. Returns how often it was held;
 * *ret_status >= 0: the end of the process was seen. */
static unsigned hold_program(struct proc *proc, int *ret_status)
{
	unsigned held = 0;

	for (bool gone = false; !gone;) {
		struct stop *stop = NULL;
		_cleanup_error_ struct error *err = stop_all(proc, TIMEOUT_MS, &stop);

		if (err && error_kind(err) != ERROR_GONE)
			fail_msg("%s", error_text(err));
		held += !err;
		gone = err;
		stop_release(stop, NULL);
	}
	*ret_status = proc->reaped ? proc->reaped_status : -1;
	return held;
}

/* Execs from any thread while it is being stopped: both get on, or the program is said to be
 * gone. */
static void test_exec(void **state)
{
	unsigned held = 0;

	/* on a busy machine all of its programs may have begun and ended unseen */
	while (!held) {
		struct target target = target_start("execer", "--rounds", "100", NULL);
		int status = -1;

		target_ready(&target);
		struct proc *proc = open_target(&target);
		target_go(&target);
		while (proc) {
			held += hold_program(proc, &status);
			proc_close(proc);
			proc = NULL;
			if (status < 0)
				error_free(proc_open(target.pid, &proc));
			if (proc && !proc_is_alive(proc))
				proc_close(take_ptr(&proc));
		}
		assert_int_equal(status >= 0 ? status : target_finish(&target, NULL, 0), 0);
	}
}

/* Stops it again and again until it begins the next program; false: it did so unseen. */
static bool meet_exec(const struct target *target, struct proc *proc)
{
	struct pollfd ready = { .fd = target->ready, .events = POLLIN };

	while (!poll(&ready, 1, 0)) {
		struct stop *stop = NULL;
		_cleanup_error_ struct error *err = stop_all(proc, TIMEOUT_MS, &stop);

		stop_release(stop, NULL);
		if (err && error_kind(err) != ERROR_GONE)
			fail_msg("%s", error_text(err));
		if (err)
			return true;
	}
	return false;
}

/* A process that began another program while it was being stopped runs on, without another look at
 * it. */
static void expect_let_go(const char *headless)
{
	struct target target = target_start("execer", "--rounds", THIN("40", "20"), "--lockstep", "1",
					    "--headless", headless, NULL);
	struct pollfd ready = { .fd = target.ready, .events = POLLIN };
	unsigned met = 0;

	target_ready(&target);
	for (int round = 0; round < THIN(39, 19); round++) {
		struct proc *proc = open_target(&target); /* for one program each */

		target_go(&target);
		met += meet_exec(&target, proc);
		proc_close(proc);
		if (poll(&ready, 1, FROZEN_MS) != 1)
			fail_msg("it doesn't go on after exec %d (it is in state %c)", round,
				 target_state(target.pid));
		target_ready(&target);
	}
	assert_true(met > 0);
	target_go(&target);
	assert_int_equal(target_finish(&target, NULL, 0), 0);
}

static void test_exec_lets_go(void **state)
{
	expect_let_go("0");
}

static void test_exec_without_leader(void **state)
{
	expect_let_go("1");
}

/* Killed while held: an error of the right kind, and its parent sees its end. */
static void test_killed_while_held(void **state)
{
	struct target target = target_start("spin", "--threads", "8", NULL);
	struct stop *stop = NULL;
	int64_t result;

	target_ready(&target);
	struct proc *proc = open_target(&target);
	no_error(stop_all(proc, TIMEOUT_MS, &stop));
	kill(target.pid, SIGKILL);
	struct error *err = remote_syscall(stop, SYS_getpid, (const uint64_t[6]){ 0 }, &result);
	assert_non_null(err);
	if (error_kind(err) != ERROR_GONE)
		fail_msg("%s", error_text(err));
	error_free(err);
	stop_release(stop, NULL);
	assert_false(proc_is_alive(proc));
	/* it is our own child: stop has seen its end */
	assert_true(proc->reaped && WIFSIGNALED(proc->reaped_status));
	err = stop_all(proc, TIMEOUT_MS, &stop);
	assert_int_equal(error_kind(err), ERROR_GONE);
	error_free(err);
	proc_close(proc);
	close(target.ready);
	close(target.go);
	close(target.out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_let_go_while_seized_again),
		cmocka_unit_test(test_cut_lists),
		cmocka_unit_test(test_signal_comes_first),
		cmocka_unit_test(test_signal_outlives_the_controller),
		cmocka_unit_test(test_calls_go_on),
		cmocka_unit_test(test_calls_go_on_after_failed_stops),
		cmocka_unit_test(test_calls_go_on_with_remote_calls),
		cmocka_unit_test(test_registers_are_the_kernels),
		cmocka_unit_test(test_one_is_fit),
		cmocka_unit_test(test_running_threads_are_unharmed),
		cmocka_unit_test(test_priority_is_raised_and_lowered),
		cmocka_unit_test(test_runs_before_real_time_threads),
		cmocka_unit_test(test_no_descriptor_left),
		cmocka_unit_test(test_stopped_stays_stopped),
		cmocka_unit_test(test_killed_controllers),
		cmocka_unit_test(test_storm),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_computing_threads_are_held_last),
		cmocka_unit_test(test_filter_comes_while_others_stand),
		cmocka_unit_test(test_old_kernel_is_asked_once),
		cmocka_unit_test(test_thousands_of_threads),
		cmocka_unit_test(test_many_stop_late),
		cmocka_unit_test(test_wait_fails),
		cmocka_unit_test(test_child_of_a_late_thread),
		cmocka_unit_test(test_trapped_is_borrowed_last),
		cmocka_unit_test(test_trapped_alone),
		cmocka_unit_test(test_trapped_and_stopped),
		cmocka_unit_test(test_sharer),
		cmocka_unit_test(test_sharer_comes_late),
		cmocka_unit_test(test_vfork),
		cmocka_unit_test(test_quit),
		cmocka_unit_test(test_no_memory_for_a_thread),
		cmocka_unit_test(test_zombie_leader),
		cmocka_unit_test(test_restartable_sequence),
		cmocka_unit_test(test_odd_stacks),
		cmocka_unit_test(test_exec),
		cmocka_unit_test(test_exec_lets_go),
		cmocka_unit_test(test_exec_without_leader),
		cmocka_unit_test(test_killed_while_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
