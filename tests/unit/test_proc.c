/* Reading processes' state, and refusing processes that can't be traced. */
#include "target.h"

#include <linux/capability.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <time.h>

#include "control/proc/cpu_samples.h"
#include "control/base/cleanup.h"
#include "control/proc/proc.h"
#include "control/proc/proc_status.h"
#include "control/remote/syscall_gadget.h"
#include "place.h"

/* A child that does something and waits for its end. */
static pid_t start(void (*prepare)(void))
{
	int ready[2], hold[2];
	char byte = 0;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prepare();
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		/* for ever: we hold the other end as well. A call that strict seccomp allows. */
		for (;;)
			syscall(SYS_read, hold[0], &byte, 1);
	}
	while (read(ready[0], &byte, 1) < 0)
		assert_int_equal(errno, EINTR);
	assert_int_equal(byte, 'r');
	close(ready[0]);
	close(ready[1]);
	close(hold[0]);
	close(hold[1]);
	return pid;
}

static void end(pid_t pid)
{
	pid_t ended;

	kill(pid, SIGKILL);
	do
		ended = waitpid(pid, NULL, 0);
	while (ended < 0 && errno == EINTR); /* its last signals */
	assert_int_equal(ended, pid);
}

static void expect_refusal(pid_t pid, enum error_kind kind, const char *part)
{
	struct proc *proc = NULL;
	struct error *err = proc_open(pid, &proc);

	assert_non_null(err);
	assert_null(proc);
	if (!strstr(error_text(err), part))
		fail_msg("'%s' doesn't say '%s'", error_text(err), part);
	assert_null(strchr(error_text(err), '\n'));
	assert_int_equal(error_kind(err), kind);
	error_free(err);
}

static void nothing(void)
{
}

static void be_traced(void)
{
	ptrace(PTRACE_TRACEME, 0, 0, 0);
}

static void filter_strictly(void)
{
	/* read, write and exit are all that is left */
	syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
}

static void filter(void)
{
	struct sock_filter_one {
		uint16_t code;
		uint8_t jt, jf;
		uint32_t k;
	} allow = { 0x06, 0, 0, SECCOMP_RET_ALLOW };
	struct {
		unsigned short length;
		struct sock_filter_one *filter;
	} program = { 1, &allow };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Root without this capability can't read filters. */
static void set_administrator(bool is)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct sets[2];
	uint32_t bit = 1u << CAP_SYS_ADMIN;

	assert_int_equal(syscall(SYS_capget, &head, sets), 0);
	sets[0].effective = is ? sets[0].effective | (bit & sets[0].permitted) :
				 sets[0].effective & ~bit;
	assert_int_equal(syscall(SYS_capset, &head, sets), 0);
}

static void test_filter_is_judged_later(void **state)
{
	struct proc *proc = NULL;
	pid_t pid = start(filter);

	if (geteuid() == 0) {
		assert_null(proc_open(pid, &proc));
		assert_true(proc->filtered);
		proc_close(proc);
	}
	end(pid);
}

static void test_refusals(void **state)
{
	char text[128];
	pid_t pid;

	expect_refusal(0, ERROR_GONE, "no process 0");
	expect_refusal(4194300, ERROR_GONE, "no process 4194300");
	pid = start(be_traced);
	snprintf(text, sizeof(text), "already traced by pid %d (test_proc)", getpid());
	expect_refusal(pid, ERROR_FAILED, text);
	end(pid);
	pid = start(filter);
	set_administrator(false);
	expect_refusal(pid, ERROR_FAILED, "seccomp filter");
	set_administrator(true);
	end(pid);
	pid = start(nothing);
	kill(pid, SIGKILL);
	target_await_state(pid, 'Z');
	expect_refusal(pid, ERROR_GONE, "zombie");
	waitpid(pid, NULL, 0);
}

static void test_kernel_thread(void **state)
{
	char name[16] = "";
	FILE *file = fopen("/proc/2/comm", "re");

	if (file && !fgets(name, sizeof(name), file))
		name[0] = '\0';
	if (file)
		fclose(file);
	if (strcmp(name, "kthreadd\n") != 0)
		skip(); /* a pid namespace without kernel threads */
	expect_refusal(2, ERROR_FAILED, "kernel thread");
}

static void test_strict_seccomp(void **state)
{
	pid_t pid = start(filter_strictly);

	expect_refusal(pid, ERROR_FAILED, "seccomp strict mode");
	end(pid);
}

static void test_thread_is_no_process(void **state)
{
	struct target target = target_start("spin", "--threads", "2", NULL);
	struct proc *proc = NULL;
	struct tids tids = { 0 };
	char text[128];

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	no_error(threads_list(proc, &tids));
	assert_int_equal(tids.count, 2);
	assert_int_equal(tids.items[0], target.pid);
	snprintf(text, sizeof(text), "%d is a thread of process %d: use %d", tids.items[1],
		 target.pid, target.pid);
	expect_refusal(tids.items[1], ERROR_FAILED, text);
	vec_free(&tids);
	proc_close(proc);
	target_end(&target);
}

/* As somebody else, the refusal says whom to run as. */
static void test_not_permitted(void **state)
{
	pid_t pid = start(nothing), other;
	int status;

	if (geteuid())
		skip();
	other = fork();
	if (!other) {
		struct proc *proc = NULL;
		char text[128];

		if (setresuid(65534, 65534, 65534))
			_exit(2);
		struct error *err = proc_open(pid, &proc);
		snprintf(text, sizeof(text),
			 "not permitted to trace process %d (test_proc) of user root: run as root",
			 pid);
		_exit(!err || error_kind(err) != ERROR_NOT_PERMITTED ||
		      strcmp(error_text(err), text));
	}
	waitpid(other, &status, 0);
	assert_int_equal(status, 0);
	end(pid);
}

static void test_identity(void **state)
{
	struct target target = target_start("spin", "--threads", "1", NULL);
	struct proc *proc = NULL;
	char *line = NULL;

	target_ready(&target);
	no_error(proc_open(target.pid, &proc));
	assert_string_equal(proc->comm, "spin");
	assert_string_equal(strrchr(proc->exe, '/'), "/spin");
	assert_int_equal(proc->inner_pid, target.pid);
	assert_true(proc->start_time > 0);
	no_error(proc_cmdline(proc, &line));
	assert_non_null(strstr(line, "/spin --ready-fd 3 --go-fd 4 --threads 1"));
	free(line);
	assert_true(proc_is_alive(proc));
	target_end(&target);
	assert_false(proc_is_alive(proc));
	proc_close(proc);
}

static volatile sig_atomic_t signals;

static void count_signal(int number)
{
	(void)number;
	signals = signals + 1;
}

static void send_signals(void)
{
	pid_t parent = getppid();

	if (fork() == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			kill(parent, SIGUSR1);
	}
}

/* Signals that come all the time: nothing is taken for dead that isn't. */
static void test_alive_among_signals(void **state)
{
	struct sigaction action = { .sa_handler = count_signal };
	struct proc *proc = NULL;

	sigaction(SIGUSR1, &action, NULL);
	pid_t pid = start(send_signals);
	no_error(proc_open_plain(pid, &proc));
	for (unsigned i = 0; i < 20000 || signals < 2000; i++)
		assert_true(proc_is_alive(proc));
	end(pid);
	assert_false(proc_is_alive(proc));
	proc_close(proc);
	signal(SIGUSR1, SIG_IGN); /* the last ones may still come */
}

static void test_find(void **state)
{
	char program[PATH_MAX], path[64], number[16], text[64];
	pid_t pid = 0;

	/* a name that nobody else has, whatever else runs */
	snprintf(path, sizeof(path), "%s/dtf%d", place_disk(), getpid());
	const char *name = strrchr(path, '/') + 1;
	target_path("spin", program);
	assert_int_equal(symlink(program, path), 0);
	struct target one = target_start(path, NULL), two = { 0 };
	target_ready(&one);
	no_error(proc_find(name, &pid));
	assert_int_equal(pid, one.pid);
	snprintf(number, sizeof(number), "%d", one.pid);
	pid = 0;
	no_error(proc_find(number, &pid));
	assert_int_equal(pid, one.pid);
	two = target_start(path, NULL);
	target_ready(&two);
	struct error *err = proc_find(name, &pid);
	assert_non_null(err);
	snprintf(text, sizeof(text), "%d (", one.pid);
	assert_non_null(strstr(error_text(err), text));
	snprintf(text, sizeof(text), "%d (", two.pid);
	assert_non_null(strstr(error_text(err), text));
	assert_non_null(strstr(error_text(err), "2 processes are called 'dtf"));
	error_free(err);
	err = proc_find("no-process-has-this-name", &pid);
	assert_non_null(err);
	error_free(err);
	pid = 0;
	err = proc_find("test_proc", &pid); /* not ourselves; perhaps another that runs beside us */
	assert_true(err || pid != getpid());
	error_free(err);
	target_end(&one);
	target_end(&two);
	unlink(path);
}

static void test_memory_and_maps(void **state)
{
	static const char words[] = "to be read by somebody else";
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct proc *proc = NULL;
	struct maps maps = { 0 };
	char there[sizeof(words)];

	strcpy(page, words);
	assert_int_equal(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	assert_int_equal(munmap(page + 4096, 4096), 0);
	pid_t pid = start(nothing); /* has a copy */
	no_error(proc_open(pid, &proc));
	taddr at = { (uint64_t)(uintptr_t)page };
	no_error(mem_read(proc, at, there, sizeof(there)));
	assert_string_equal(there, words);
	/* through the protection, and into the copy only */
	no_error(mem_write(proc, at, "TO BE", 5));
	no_error(mem_read(proc, at, there, sizeof(there)));
	assert_string_equal(there, "TO BE read by somebody else");
	assert_string_equal(page, words);
	struct error *err = mem_read(proc, taddr_add(at, 4090), there, 16);
	assert_non_null(err);
	assert_non_null(strstr(error_text(err), "nothing is mapped there"));
	error_free(err);
	no_error(maps_read(proc, &maps));
	const struct mapping *mapping = maps_find(&maps, at);
	assert_non_null(mapping);
	assert_int_equal(mapping->prot, PROT_READ | PROT_EXEC);
	assert_false(mapping->shared);
	assert_string_equal(mapping->path, "");
	assert_null(maps_find(&maps, taddr_add(at, 4096)));
	assert_null(maps_find(&maps, taddr_of(0)));
	for (size_t i = 1; i < maps.count; i++)
		assert_true(maps.items[i - 1].end.v <= maps.items[i].start.v);
	maps_free(&maps);
	end(pid);
	err = mem_read(proc, at, there, 1);
	assert_int_equal(error_kind(err), ERROR_GONE);
	error_free(err);
	err = maps_read(proc, &maps);
	assert_int_equal(error_kind(err), ERROR_GONE);
	error_free(err);
	proc_close(proc);
	munmap(page, 4096);
}

/* (S15) One mapping at a time: as it was read, or changed in any way. */
static void test_mapping_is_confirmed(void **state)
{
	char *pages = mmap(NULL, 3 * 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct maps maps = { 0 };
	struct proc *proc = NULL;
	int major = 0, minor = 0;
	struct utsname name;

	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%d.%d", &major, &minor), 2);
	if (major < 6 || (major == 6 && minor < 11))
		skip();
	no_error(proc_open_plain(getpid(), &proc));
	no_error(maps_read(proc, &maps));
	const struct mapping *mapping = maps_find(&maps, taddr_of((uint64_t)(uintptr_t)pages));
	for (size_t i = 0; i < maps.count; i++) {
		struct mapping other = maps.items[i];

		if (other.path[0] != '/') /* heap and stack grow, the kernel's own are special */
			continue;
		assert_true(maps_confirm(proc, &other));
		other.inode++;
		assert_false(maps_confirm(proc, &other));
		other = maps.items[i];
		other.device++;
		assert_false(maps_confirm(proc, &other));
		other = maps.items[i];
		other.offset += 4096;
		assert_false(maps_confirm(proc, &other));
	}
	assert_true(maps_confirm(proc, mapping));
	assert_int_equal(mprotect(pages, 3 * 4096, PROT_NONE), 0);
	assert_false(maps_confirm(proc, mapping));
	assert_int_equal(mprotect(pages, 3 * 4096, PROT_READ), 0);
	assert_true(maps_confirm(proc, mapping));
	assert_int_equal(munmap(pages + 2 * 4096, 4096), 0);
	assert_false(maps_confirm(proc, mapping));
	assert_int_equal(munmap(pages, 2 * 4096), 0);
	assert_false(maps_confirm(proc, mapping));
	maps_free(&maps);
	proc_close(proc);
}

static void test_exact_bounds(void **unused)
{
	char text[] = "1000-3000 rw-p 00000000 00:00 0 \n4000-5000 rw-s 00000000 00:00 0 \n"
		      "5000-6000 rw-p 00000000 08:01 7 /f\n7000-8000 r--p 00000000 00:00 0 \n";
	struct maps maps = { 0 };

	no_error(maps_parse(text, &maps));
	assert_true(maps_has_exactly(&maps, taddr_of(0x1000), 0x2000));
	assert_false(maps_has_exactly(&maps, taddr_of(0x1000), 0x1000));
	assert_false(maps_has_exactly(&maps, taddr_of(0x2000), 0x1000));
	assert_false(maps_has_exactly(&maps, taddr_of(0x3000), 0x1000)); /* nothing */
	assert_false(maps_has_exactly(&maps, taddr_of(0x4000), 0x1000)); /* shared */
	assert_false(maps_has_exactly(&maps, taddr_of(0x5000), 0x1000)); /* a file */
	assert_false(maps_has_exactly(&maps, taddr_of(0x7000), 0x1000)); /* not writable */
	maps_free(&maps);
}

#define BURN_NS 50000000L /* of CPU time: 25 samples */

__attribute__((noinline, section(".text.burn"))) static void burn(void)
{
	for (int i = 0; i < 200000; i++)
		__asm__ volatile("");
}

static bool is_in_burn(const void *context, uint64_t address)
{
	return address - (uint64_t)(uintptr_t)context < 64;
}

static long cpu_ns(void)
{
	struct timespec time;

	assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
	return time.tv_sec * 1000000000L + time.tv_nsec;
}

/* Samples say in which code CPU time goes. */
static void test_cpu_samples(void **state)
{
	const pid_t pids[] = { getpid() };
	struct cpu_samples *samples = NULL;
	struct error *error = cpu_samples_begin(pids, 1, &samples);

	(void)state;
	if (error && error_kind(error) == ERROR_NOT_PERMITTED) {
		error_free(error);
		skip();
	}
	assert_null(error);
	for (long end = cpu_ns() + BURN_NS; cpu_ns() < end;)
		burn();
	struct cpu_samples_sum sum = cpu_samples_read(samples, is_in_burn, (const void *)burn);
	assert_true(sum.cpu_ns >= (uint64_t)BURN_NS);
	assert_true(sum.taken >= 1 && sum.taken <= sum.cpu_ns / CPU_SAMPLES_PERIOD);
	assert_true(sum.inside >= sum.taken / 2 && sum.inside <= sum.taken);
	assert_true(cpu_samples_share(&sum) > 0.4 && cpu_samples_share(&sum) <= 1);
	assert_int_equal(sum.lost, 0);
	/* nothing is read twice */
	struct cpu_samples_sum more = cpu_samples_read(samples, is_in_burn, (const void *)burn);
	assert_true(more.cpu_ns < sum.cpu_ns && more.taken <= more.cpu_ns / CPU_SAMPLES_PERIOD + 1);
	cpu_samples_free(samples);
}

/* A process that is gone has no threads. */
static void test_cpu_samples_of_none(void **state)
{
	const pid_t pids[] = { 0x3fffffff };
	struct cpu_samples *samples = NULL;

	(void)state;
	assert_null(cpu_samples_begin(pids, 1, &samples));
	struct cpu_samples_sum sum = cpu_samples_read(samples, is_in_burn, (const void *)burn);
	assert_int_equal(sum.cpu_ns + sum.taken, 0);
	assert_true(cpu_samples_share(&sum) == 0);
	cpu_samples_free(samples);
	cpu_samples_free(NULL);
}

/* Instructions to borrow are the program's: dyntrace's memory, with copies of them, may be the one
 * that the call unmaps. */
static void test_gadgets_of_the_program(void **unused)
{
	static const uint8_t code[2][16] = {
		{ 0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 },
		{ 0x0f, 0x05, 0xc3, 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 },
	};
	char *paths[] = { (char *)"/memfd:dyntrace-code (deleted)", (char *)"/program" };
	struct mapping items[2];
	const struct maps maps = { .items = items, .count = 2 };
	_cleanup_(cleanup_proc) struct proc *proc = NULL;
	struct syscall_gadgets found;

	for (size_t i = 0; i < 2; i++)
		items[i] = (struct mapping){ .start = taddr_of((uint64_t)code[i]),
					     .end = taddr_of((uint64_t)code[i] + sizeof(code[i])),
					     .prot = PROT_READ | PROT_EXEC,
					     .path = paths[i] };
	no_error(proc_open(getpid(), &proc));
	for (int again = 0; again < 2; again++) {
		no_error(syscall_gadget_find(proc, &maps, &found));
		assert_int_equal(found.call.v, (uint64_t)code[1]);
		assert_int_equal(found.restorer.v, (uint64_t)code[1] + 3);
		proc->gadget_call = (uint64_t)code[0]; /* as found before */
	}
}

/* ---- threads that are about to end ---------------------------------------------------------- */

#define MADE_UP 4000000 /* a pid */

/* Makes the stat of a thread in a /proc of our own. */
static void make_thread(pid_t tid, char state, unsigned flags)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d", MADE_UP, tid);
	assert_int_equal(mkdir(path, 0755), 0);
	strcat(path, "/stat");
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%d (made up) %c 1 1 1 0 -1 %u 0 0 0 0 0 0 0 0 20 0 2 0 77 0\n", tid, state,
		flags);
	assert_int_equal(fclose(file), 0);
}

/* In a child: its /proc has one process, made up. */
static void look_for_live_threads(void)
{
	const unsigned exiting = 4; /* PF_EXITING */

	assert_int_equal(unshare((geteuid() ? CLONE_NEWUSER : 0) | CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount("none", "/proc", "tmpfs", 0, NULL), 0);
	assert_int_equal(proc_status_live_thread(MADE_UP), 0);
	assert_int_equal(mkdir("/proc/4000000", 0755), 0);
	assert_int_equal(mkdir("/proc/4000000/task", 0755), 0);
	make_thread(MADE_UP, 'R', exiting);
	assert_int_equal(proc_status_live_thread(MADE_UP), MADE_UP);
	make_thread(MADE_UP + 1, 'X', 0);
	assert_int_equal(proc_status_live_thread(MADE_UP), MADE_UP);
	make_thread(MADE_UP + 2, 'D', 0);
	assert_int_equal(proc_status_live_thread(MADE_UP), MADE_UP + 2);
}

/* A killed process may have a leader that is about to end, without memory, and a thread inside a
 * write. No call makes a leader wait between these two steps of its end, so /proc is made up. */
static void test_a_thread_that_is_not_ending(void **unused)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		look_for_live_threads();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_kernel_thread),
		cmocka_unit_test(test_strict_seccomp),
		cmocka_unit_test(test_filter_is_judged_later),
		cmocka_unit_test(test_not_permitted), cmocka_unit_test(test_thread_is_no_process),
		cmocka_unit_test(test_identity),     cmocka_unit_test(test_alive_among_signals),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_cpu_samples), cmocka_unit_test(test_cpu_samples_of_none),
		cmocka_unit_test(test_memory_and_maps), cmocka_unit_test(test_exact_bounds),
		cmocka_unit_test(test_mapping_is_confirmed),
		cmocka_unit_test(test_a_thread_that_is_not_ending),
		cmocka_unit_test(test_gadgets_of_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
