/*
 * drive.c - let every call of every operation fail, one after the other, each in a fresh target.
 *
 *	fault_driver [--only OPERATION,...] [--class CLASS] [--onward]
 *	             [--thin N | --paths | --call N] [--slice I/N] [--stacks]
 *
 * A first run of each operation counts its calls. Then one call fails per run: each of them, or
 * (--paths) one for each way by which the code comes to a call, or (--thin) N of the places that
 * call, evenly spread. Afterwards the target is alive and computes what it computed, its text and
 * mappings are as they were found, all hits are counted, the next commands work, and nothing of
 * dyntrace is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <glob.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/base/now.h"
#include "../unit/built.h"
#include "faults.h"

#define RUN_SECONDS 100
#define TARGET_MS 60000
#define STATE_MAX (8 << 20)
#define PROGRESS_MS 30000
#define SLOW_RUN_MS 5000

struct verdict *verdict;
struct shared *shared;
static int shared_fd;
static char folder[64];

static struct {
	const char *only, *class;
	bool onward, paths, stacks;
	uint64_t thin, call;
	unsigned slice, slices;
} args = { .slices = 1 };

struct progress {
	uint64_t began, shown, run_began; /* ms */
	uint64_t call;
	size_t done, all, bad;
};

/* ---- the target ------------------------------------------------------------------------------ */

static pid_t start_target(const struct operation *operation)
{
	char path[PATH_MAX], fd[16];

	built_path("tests/programs/worker", path);
	snprintf(fd, sizeof(fd), "%d", shared_fd);
	memset(shared, 0, sizeof(*shared));
	shared->paused = 1;
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, path,
		      operation->execs	 ? "execs" :
		      operation->handles ? "handles" :
					   "threads",
		      fd, "-1", NULL);
		_exit(127);
	}
	uint64_t until = now_ms() + TARGET_MS;
	while (__atomic_load_n(&shared->standing, __ATOMIC_SEQ_CST) != THREADS) {
		if (now_ms() > until)
			exit((fprintf(stderr, "the target doesn't begin\n"), 2));
		usleep(500);
	}
	return pid;
}

static size_t read_text(char *to, size_t room, int mem, uint64_t from, uint64_t end)
{
	size_t size = end - from;

	if (size > room)
		exit((fprintf(stderr, "the target's text is too big\n"), 2));
	ssize_t n = pread(mem, to, size, (off_t)from);
	return n > 0 ? (size_t)n : 0;
}

/* Mappings, text and descriptors, to compare. */
static size_t read_state(pid_t pid, char *state)
{
	char path[64], line[512], link[256];
	size_t size = 0;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	int mem = open(path, O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	while (maps && fgets(line, sizeof(line), maps)) {
		unsigned long from, end;

		size += (size_t)snprintf(state + size, STATE_MAX - size, "%s", line);
		if (sscanf(line, "%lx-%lx r-xp", &from, &end) == 2 && strstr(line, " r-xp ") &&
		    strchr(line, '/'))
			size += read_text(state + size, STATE_MAX - size, mem, from, end);
	}
	if (maps)
		fclose(maps);
	close(mem);
	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/proc/%d/fd/%d", pid, i);
		ssize_t n = readlink(path, link, sizeof(link) - 1);
		if (n > 0)
			size += (size_t)snprintf(state + size, STATE_MAX - size, "%d %.*s\n", i,
						 (int)n, link);
	}
	return size;
}

static bool tells_of_holder(const char *line)
{
	char state;
	int tracer;

	return (sscanf(line, "State: %c", &state) == 1 && strchr("tTZ", state)) ||
	       (sscanf(line, "TracerPid: %d", &tracer) == 1 && tracer);
}

/* The threads that somebody holds. */
static void judge_threads(pid_t pid)
{
	char path[64], line[256];
	glob_t threads = { 0 };

	snprintf(path, sizeof(path), "/proc/%d/task/*/status", pid);
	if (glob(path, GLOB_NOSORT, NULL, &threads))
		trouble("the target has no threads");
	for (size_t i = 0; i < threads.gl_pathc; i++) {
		FILE *status = fopen(threads.gl_pathv[i], "re");

		while (status && fgets(line, sizeof(line), status)) {
			if (tells_of_holder(line))
				trouble("a thread of the target: %.*s", (int)strcspn(line, "\n"),
					line);
		}
		if (status)
			fclose(status);
	}
	globfree(&threads);
}

static void describe_change(const char *before, size_t before_size, const char *after, size_t size)
{
	size_t at = 0;

	while (at < before_size && at < size && before[at] == after[at])
		at++;
	size_t from = at;
	while (from && after[from - 1] != '\n' && at - from < 200)
		from--;
	trouble("the target isn't as it was found: '%.*s' instead of '%.*s'",
		(int)strcspn(after + from, "\n"), after + from, (int)strcspn(before + from, "\n"),
		before + from);
}

static void judge_target(pid_t pid, const char *before, size_t before_size)
{
	static char after[STATE_MAX];
	int status;

	if (waitpid(pid, &status, WNOHANG) != 0) {
		trouble("the target has ended: %s",
			WIFSIGNALED(status) ? strsignal(WTERMSIG(status)) : "exit");
		return;
	}
	size_t size = read_state(pid, after);
	if (size != before_size || memcmp(before, after, size))
		describe_change(before, before_size, after, size);
	judge_threads(pid);
}

/* It goes on without dyntrace. */
static void judge_rest(pid_t pid)
{
	uint64_t before = 0, after = 0, until = now_ms() + TARGET_MS;
	int status;

	__atomic_store_n(&shared->paused, 0, __ATOMIC_SEQ_CST);
	for (size_t i = 0; i < FUNCTIONS; i++)
		before += shared->calls[0][i].done;
	do {
		after = 0;
		for (size_t i = 0; i < FUNCTIONS; i++)
			after += __atomic_load_n(&shared->calls[0][i].done, __ATOMIC_SEQ_CST);
		usleep(500);
	} while (after < before + 10 && now_ms() < until && !waitpid(pid, &status, WNOHANG));
	if (after < before + 10)
		trouble("the target doesn't go on without dyntrace");
}

/* The first line that isn't about losses. */
static void read_complaint(FILE *file, char *ret_line, size_t size)
{
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (*line != '\n' && !strstr(line, "WARNING: Tracer discarded") && !*ret_line)
			snprintf(ret_line, size, "%.*s", (int)strcspn(line, "\n"), line);
	}
}

/* babeltrace2 reads the trace, and finds the events that the summary has. */
static void judge_trace(void)
{
	char command[512], said[FAULTS_OUTPUT], line[512], first[128] = "";
	uint64_t events = 0;

	snprintf(said, sizeof(said), "%s/said", folder);
	snprintf(command, sizeof(command),
		 "test ! -e %s/trace/metadata || babeltrace2 --clock-cycles %s/trace 2> %s", folder,
		 folder, said);
	FILE *pipe = popen(command, "r");
	while (pipe && fgets(line, sizeof(line), pipe))
		events += *line == '[';
	int status = pipe ? pclose(pipe) : -1;
	FILE *complaints = fopen(said, "re");
	read_complaint(complaints, first, sizeof(first));
	if (complaints)
		fclose(complaints);
	if (status || *first)
		trouble("babeltrace2: status 0x%x: %s", status, first);
	else if (events != verdict->events)
		trouble("babeltrace2 reads %llu events, the summary has %llu",
			(unsigned long long)events, (unsigned long long)verdict->events);
}

/* ---- one run --------------------------------------------------------------------------------- */

enum part { PART_DIE, PART_RUN, PART_CLEAN };

static void run_part(enum part part, const struct operation *operation, const struct wanted *wanted,
		     pid_t target)
{
	char output[FAULTS_OUTPUT];
	int status;

	snprintf(output, sizeof(output), "%s/trace", folder);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		alarm(RUN_SECONDS);
		if (part == PART_DIE)
			controller_die(operation, target, output);
		else if (part == PART_RUN)
			controller_run(operation, wanted, target, output);
		controller_clean(target);
	}
	while (waitpid(pid, &status, 0) != pid)
		;
	if (part != PART_DIE && WIFSIGNALED(status))
		trouble("dyntrace was ended: %s",
			WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status)));
	else if (part != PART_DIE && WEXITSTATUS(status) && !*verdict->trouble)
		trouble("exit status %d", WEXITSTATUS(status));
}

/* Only a failed end, or a failure of everything from one call on, may leave something. */
static bool may_be_left(const struct operation *operation, const struct wanted *wanted)
{
	if (verdict->left || wanted->onward)
		return true;
	return verdict->failed && (operation->ends || operation->kills);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at)
{
	return remove(path);
}

static void run(const struct operation *operation, const struct wanted *wanted)
{
	static char before[STATE_MAX];
	memset(verdict, 0, offsetof(struct verdict, noted));
	snprintf(folder, sizeof(folder), "%s/dyntrace-faults-XXXXXX",
		 getenv("DYNTRACE_TEST_MEMORY") ? getenv("DYNTRACE_TEST_MEMORY") : "/dev/shm");
	if (!mkdtemp(folder))
		exit((perror(folder), 2));
	pid_t target = start_target(operation);
	size_t size = read_state(target, before);
	if (operation->kills)
		run_part(PART_DIE, operation, wanted, target);
	run_part(PART_RUN, operation, wanted, target);
	if (!verdict->report.killed || operation->execs) {
		if (may_be_left(operation, wanted))
			run_part(PART_CLEAN, operation, wanted, target);
		judge_target(target, before, size);
		judge_rest(target);
	}
	if (operation->writes && verdict->summed_up)
		judge_trace();
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	if (nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS))
		exit((perror(folder), 2));
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void print_stack(void)
{
	char command[2048], self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	extern char __executable_start;
	uint64_t base = (uint64_t)(uintptr_t)&__executable_start;
	int length = snprintf(command, sizeof(command), "addr2line -spfe %.*s", (int)n, self);

	for (int i = 0; i < verdict->report.depth; i++)
		length += snprintf(
			command + length, sizeof(command) - (size_t)length, " %llx",
			(unsigned long long)((uint64_t)(uintptr_t)verdict->report.stack[i] - base -
					     1));
	snprintf(command + length, sizeof(command) - (size_t)length,
		 " | grep -v '[?]' | head -12 | sed 's/^/      /'");
	fflush(stdout);
	if (system(command))
		printf("      (no stack)\n");
}

/* True: nothing is wrong. */
static bool report(const struct operation *operation, uint64_t call)
{
	if (*verdict->trouble || args.stacks) {
		printf("  %s, call %llu, %s: %s%s%s%s\n", operation->name, (unsigned long long)call,
		       verdict->report.fired ? verdict->report.name : "nothing fails",
		       *verdict->trouble ? "TROUBLE: " : "fine", verdict->trouble,
		       verdict->failed ? " | error: " : " | no error", verdict->error);
		if (verdict->report.fired)
			print_stack();
	}
	fflush(stdout);
	return !*verdict->trouble;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Chooses calls of the first run: `ret` has room for all of them. */
static size_t choose(uint64_t calls, uint64_t *ret)
{
	size_t count = 0, kept = 0;

	if (calls > FAULTS_NOTED)
		calls = FAULTS_NOTED;
	for (uint64_t i = 0; i < calls; i++) {
		uint32_t mine = args.thin ? verdict->noted[i].caller : verdict->noted[i].callers;

		ret[count++] = args.thin || args.paths ? (uint64_t)mine << 32 | i : i;
	}
	qsort(ret, count, sizeof(*ret), by_value);
	for (size_t i = 0; i < count; i++) { /* the first of each */
		if (!(args.thin || args.paths) || !i || ret[i] >> 32 != ret[i - 1] >> 32)
			ret[kept++] = ret[i];
	}
	for (size_t i = 0; i < kept; i++)
		ret[i] = (uint32_t)ret[i] + 1;
	qsort(ret, kept, sizeof(*ret), by_value);
	if (!args.thin || kept <= args.thin)
		return kept;
	for (size_t i = 0; i < args.thin; i++)
		ret[i] = ret[i * kept / args.thin];
	return args.thin;
}

/* Where a long drive is, each so often; and runs that take long. */
static void show_progress(const struct operation *operation, struct progress *progress)
{
	uint64_t now = now_ms();

	if (now - progress->run_began > SLOW_RUN_MS)
		fprintf(stderr, "  %s, call %llu, %s: took %.1f s\n", operation->name,
			(unsigned long long)progress->call,
			verdict->report.fired ? verdict->report.name : "nothing fails",
			(double)(now - progress->run_began) / 1000);
	progress->run_began = now;
	if (now - progress->shown < PROGRESS_MS)
		return;
	progress->shown = now;
	fprintf(stderr, "  %s: %zu of %zu runs, %zu bad, %.0f s\n", operation->name, progress->done,
		progress->all, progress->bad, (double)(now - progress->began) / 1000);
}

/* Returns the number of runs in which something was wrong. */
static size_t drive(const struct operation *operation, unsigned classes)
{
	struct wanted wanted = { .classes = classes, .onward = args.onward };
	uint64_t began = now_ms();
	struct progress progress = { .began = began, .shown = began, .run_began = began };

	run(operation, &wanted);
	uint64_t calls = verdict->report.calls;
	char what[256] = "";
	for (int i = 0; i < FAULT_CLASSES; i++)
		if (verdict->report.by_class[i])
			snprintf(what + strlen(what), sizeof(what) - strlen(what), " %s %llu,",
				 fault_class_names[i],
				 (unsigned long long)verdict->report.by_class[i]);
	progress.bad += !report(operation, 0);
	uint64_t *chosen = calloc(calls + 1, sizeof(*chosen));
	size_t count = choose(calls, chosen);
	if (args.call) {
		chosen[0] = args.call;
		count = 1;
	}
	progress.all = (count + args.slices - 1 - args.slice) / args.slices;
	for (size_t i = args.slice; i < count; i += args.slices) {
		wanted.nth = progress.call = chosen[i];
		run(operation, &wanted);
		progress.bad += !report(operation, chosen[i]);
		progress.done++;
		show_progress(operation, &progress);
	}
	free(chosen);
	printf("%s:%s %zu runs, %zu bad\n", operation->name, what, progress.done, progress.bad);
	fflush(stdout);
	return progress.bad;
}

static bool is_wanted(const char *name)
{
	size_t length = strlen(name);

	for (const char *at = args.only; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, length) && (!at[length] || at[length] == ','))
			return true;
	}
	return !args.only;
}

static unsigned class_bits(void)
{
	for (unsigned i = 0; args.class && i < FAULT_CLASSES; i++) {
		if (!strcmp(args.class, fault_class_names[i]))
			return 1u << i;
	}
	return FAULT_ALL;
}

static void parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "only", 1, NULL, 'o' },  { "class", 1, NULL, 'c' },  { "onward", 0, NULL, 'w' },
		{ "thin", 1, NULL, 't' },  { "paths", 0, NULL, 'p' },  { "call", 1, NULL, 'n' },
		{ "slice", 1, NULL, 's' }, { "stacks", 0, NULL, 'k' }, { 0 },
	};

	for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (c == 'o')
			args.only = optarg;
		else if (c == 'c')
			args.class = optarg;
		else if (c == 't')
			args.thin = strtoull(optarg, NULL, 10);
		else if (c == 'n')
			args.call = strtoull(optarg, NULL, 10);
		else if (c == 's' && sscanf(optarg, "%u/%u", &args.slice, &args.slices) != 2)
			exit(2);
		else if (c == '?')
			exit(2);
		args.onward |= c == 'w';
		args.paths |= c == 'p';
		args.stacks |= c == 'k';
	}
}

/* ---- a pid namespace of its own -------------------------------------------------------------- */

/* As init: reaps what the target has begun and left, until the driver ends. */
static void reap_until(pid_t driver)
{
	int status;

	for (pid_t pid; (pid = wait(&status)) != driver;) {
		if (pid < 0 && errno != EINTR)
			_exit(2);
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2);
}

/*
 * dyntrace looks at every process that might have its code (H12). The machine's other processes
 * are many, and all alike: with 300 of them, three of four calls of `clean` would be opening and
 * reading their files. In a namespace there are this process, its init and its parts, and the
 * numbers of calls are the same on every machine.
 */
static void enter_namespace(void)
{
	int status;

	if (unshare(CLONE_NEWPID | CLONE_NEWNS)) {
		fprintf(stderr, "  no pid namespace (%s): goes on beside all processes\n",
			strerror(errno));
		return;
	}
	pid_t init = fork();
	if (init) {
		while (waitpid(init, &status, 0) != init)
			;
		_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 2); /* no clone: no leak check */
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		exit((perror("/proc"), 2));
	pid_t driver = fork();
	if (driver)
		reap_until(driver);
}

int main(int argc, char **argv)
{
	size_t bad = 0;

	parse(argc, argv);
	enter_namespace();
	built_use_agent();
	shared_fd = memfd_create("shared", 0);
	if (shared_fd < 0 || ftruncate(shared_fd, sizeof(*shared)))
		return 2;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED, shared_fd, 0);
	verdict = mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	if (shared == MAP_FAILED || verdict == MAP_FAILED)
		return 2;
	for (size_t i = 0; i < operation_count; i++) {
		if (is_wanted(operations[i].name))
			bad += drive(&operations[i], class_bits());
	}
	return bad ? 1 : 0;
}
