/*
 * safepoint.c - find a thread at rest, check its stack, call.
 *
 * Seen: openat, read, pread64, fstat and close come from inside dlopen with its lock held, which is
 * recursive: a call made there succeeds and corrupts. They are calls on files; a `read` that sleeps
 * on a pipe, a socket or a terminal is the program's own.
 *
 * A futex can be any lock, also the loader's: there the stack must show one of the functions by
 * which a program waits for its other threads (the workers of every thread pool rest there).
 * Likewise restart_syscall, which goes on with an interrupted call and doesn't say which.
 */
#include "safepoint.h"

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/mapped_file.h"
#include "control/proc/proc_status.h"
#include "control/stop/held.h"
#include "remote.h"

#define SAFEPOINT_STOP_MS 100 /* less than STOP_TIMEOUT_MS: other threads and rounds follow */
#define SAFEPOINT_ROOM (64u << 10) /* least room on a thread's stack */
#define SAFEPOINT_FRAMES_MAX 10000
#define WAIT_FRAMES_MAX 4 /* innermost frames among which to look for the function that waits */

static const long rests[] = {
	SYS_epoll_wait,
	SYS_epoll_pwait,
	441 /* epoll_pwait2 */,
	SYS_poll,
	SYS_ppoll,
	SYS_select,
	SYS_pselect6,
	SYS_nanosleep,
	SYS_clock_nanosleep,
	SYS_accept,
	SYS_accept4,
	SYS_recvfrom,
	SYS_recvmsg,
	SYS_recvmmsg,
	SYS_wait4,
	SYS_waitid,
	SYS_pause,
	SYS_rt_sigsuspend,
	SYS_rt_sigtimedwait,
};

/* Calls in which a thread is at rest if its stack shows one of `waits`. */
static const long unsure[] = { SYS_futex, SYS_restart_syscall };

/* Functions that rest in the calls above. */
static const char *const waits[] = {
	"pthread_cond_wait", "pthread_cond_timedwait", "pthread_cond_clockwait", "pthread_join",
	"sem_wait",	     "sem_timedwait",	       "sem_clockwait",		 "nanosleep",
	"clock_nanosleep",   "poll",		       "ppoll",			 "select",
};

static bool is_one_of(const long *numbers, size_t count, long number)
{
	for (size_t i = 0; i < count; i++) {
		if (numbers[i] == number)
			return true;
	}
	return false;
}

static bool is_listed(long number)
{
	return is_one_of(rests, sizeof(rests) / sizeof(rests[0]), number);
}

static bool is_unsure(long number)
{
	return is_one_of(unsure, sizeof(unsure) / sizeof(unsure[0]), number);
}

enum safepoint_rest safepoint_judge(const char *line, bool (*is_stream)(void *context, int fd),
				    void *context)
{
	char *end;
	long number = strtol(line, &end, 10);

	if (end == line || *end != ' ')
		return REST_NOT; /* "running", or in the kernel without a system call */
	if (is_listed(number))
		return REST_CERTAIN;
	if (is_unsure(number))
		return REST_BY_STACK;
	if (number == SYS_read && is_stream(context, (int)strtoul(end, NULL, 16)))
		return REST_CERTAIN;
	return REST_NOT;
}

/* ---- threads --------------------------------------------------------------------------------- */

static bool is_stream(void *context, int fd)
{
	const struct proc *proc = context;
	static const char *const streams[] = { "pipe:", "socket:", "/dev/pts/", "/dev/tty" };
	char path[64], target[PATH_MAX];
	struct stat file;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", proc->pid, fd);
	if (!stat(path, &file) && S_ISFIFO(file.st_mode)) /* named pipes have other links */
		return true;
	ssize_t length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
		if (!strncmp(target, streams[i], strlen(streams[i])))
			return true;
	}
	return false;
}

static enum safepoint_rest judge_thread(struct proc *proc, pid_t tid)
{
	char path[64];
	_cleanup_close_ int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", proc->pid, tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_free_ char *line = fd < 0 ? NULL : proc_status_slurp(fd, NULL);
	return line ? safepoint_judge(line, is_stream, proc) : REST_NOT;
}

/* Judges a held thread. /proc shows a rewound call as none; its number is in rax, where the
 * `syscall` instruction will find it. */
static enum safepoint_rest judge_held(const struct stop *stop)
{
	const struct held *held = &stop->threads.items[0];

	if (!held->rewound)
		return judge_thread(stop->proc, held->tid);
	return is_listed((long)held->regs.rax) ? REST_CERTAIN : REST_NOT;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

/* The process of the walk: libdwfl hands find_elf nothing but the module. */
static _Thread_local const struct proc *walked;

/* Opens a module's file. libdwfl's own way is the path in dyntrace's root, where a container's file
 * is missing or another one, with other unwind tables. */
static int find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
		    char **ret_path, Elf **ret_elf)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	Dwarf_Addr start = base;

	if (*name == '[') /* the vdso */
		return dwfl_linux_proc_find_elf(module, data, name, base, ret_path, ret_elf);
	dwfl_module_info(module, NULL, &start, NULL, NULL, NULL, NULL, NULL);
	_cleanup_error_ struct error *error = maps_read(walked, &maps);
	const struct mapping *mapping = error ? NULL : maps_find(&maps, taddr_of(start));
	return mapping ? mapped_file_open(walked, mapping) : -1;
}

/* No separate debug files: the unwind tables are in the ELF files themselves. */
static int no_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
			const char *file, const char *link, GElf_Word crc, char **ret_path)
{
	return -1;
}

/* Findings of a walk over the frames of a thread. */
struct walk {
	Dwfl *dwfl;
	unsigned frames;
	bool dirty;
	bool waits; /* one of the innermost frames is in one of `waits` */
};

static void cleanup_dwfl(Dwfl **dwfl)
{
	if (*dwfl)
		dwfl_end(*dwfl);
}

static bool is_named(const char *name, const char *const *names, size_t count)
{
	while (*name == '_')
		name++;
	for (size_t i = 0; i < count; i++) {
		if (!strcmp(name, names[i]))
			return true;
	}
	return false;
}

static bool is_allocator(const char *name)
{
	static const char *const names[] = { "malloc",	 "calloc",	   "realloc",	   "free",
					     "memalign", "posix_memalign", "aligned_alloc" };

	return is_named(name, names, sizeof(names) / sizeof(names[0]));
}

/* Compares the function's name, if the address is really in it: nameless functions lie between. */
static bool is_wait(Dwfl_Module *module, Dwarf_Addr pc)
{
	GElf_Off offset;
	GElf_Sym symbol;
	const char *name = dwfl_module_addrinfo(module, pc, &offset, &symbol, NULL, NULL, NULL);

	return name && offset < symbol.st_size &&
	       is_named(name, waits, sizeof(waits) / sizeof(waits[0]));
}

/* A frame of the loader or the allocator, or a frame that a signal interrupted, means that the
 * thread may hold a lock. */
static int look_at_frame(Dwfl_Frame *frame, void *context)
{
	struct walk *walk = context;
	bool interrupted = false;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, &interrupted))
		walk->dirty = true;
	if (walk->dirty)
		return DWARF_CB_ABORT;
	Dwfl_Module *module = dwfl_addrmodule(walk->dwfl, pc);
	const char *file =
		module ? dwfl_module_info(module, NULL, NULL, NULL, NULL, NULL, NULL, NULL) : NULL;
	const char *function = module ? dwfl_module_addrname(module, pc) : NULL;
	const char *slash = file ? strrchr(file, '/') : NULL;

	walk->dirty = !module || (slash && !strncmp(slash, "/ld-", 4)) ||
		      (function && is_allocator(function)) || (interrupted && walk->frames > 0);
	if (module && walk->frames < WAIT_FRAMES_MAX)
		walk->waits = walk->waits || is_wait(module, pc);
	walk->frames++;
	return walk->dirty || walk->frames > SAFEPOINT_FRAMES_MAX ? DWARF_CB_ABORT : DWARF_CB_OK;
}

/* Walks the whole stack of the held thread, by the files' unwind tables, to its outermost frame. */
static bool is_clean(const struct proc *proc, pid_t tid, enum safepoint_rest rest)
{
	static const Dwfl_Callbacks callbacks = { .find_elf = find_elf,
						  .find_debuginfo = no_debuginfo };
	_cleanup_(cleanup_dwfl) Dwfl *dwfl = dwfl_begin(&callbacks);
	struct walk walk = { .dwfl = dwfl };

	walked = proc;
	if (!dwfl || dwfl_linux_proc_report(dwfl, proc->pid) || dwfl_report_end(dwfl, NULL, NULL) ||
	    dwfl_linux_proc_attach(dwfl, proc->pid, true))
		return false;
	int end = dwfl_getthread_frames(dwfl, tid, look_at_frame, &walk);
	/* -1 with frames: the outermost frame is marked as such, or its table ends there. */
	return !walk.dirty && walk.frames > 1 && (end == 0 || end == -1) &&
	       (rest == REST_CERTAIN || walk.waits);
}

static bool has_room(struct proc *proc, uint64_t rsp)
{
	_cleanup_(maps_free) struct maps maps = { 0 };
	_cleanup_error_ struct error *error = maps_read(proc, &maps);
	const struct mapping *stack = error ? NULL : maps_find(&maps, taddr_of(rsp));

	return stack && (!strcmp(stack->path, "[stack]") || rsp - stack->start.v >= SAFEPOINT_ROOM);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static struct error *call_held(struct stop *stop, taddr function, const uint64_t args[3])
{
	struct remote *remote = NULL;
	struct error *error = remote_begin(stop, &remote);

	if (error)
		return error;
	error = remote_function(remote, function, args);
	struct error *ending = remote_end(remote);
	if (error)
		error_free(ending);
	return error ? error : ending;
}

/* Makes the call on that thread if it is at a safe point now: *ret_done. */
static struct error *try_thread(struct proc *proc, pid_t tid, taddr function,
				const uint64_t args[3], bool *ret_done)
{
	_cleanup_(cleanup_stop) struct stop *stop = NULL;

	if (judge_thread(proc, tid) == REST_NOT)
		return NULL;
	struct error *error = stop_thread(proc, tid, SAFEPOINT_STOP_MS, &stop);
	if (error && error_kind(error) != ERROR_GONE) {
		error_free(error); /* it may have left the safe point */
		return NULL;
	}
	enum safepoint_rest rest = error ? REST_NOT : judge_held(stop);
	if (rest == REST_NOT || !has_room(proc, stop_thread_rsp(stop, 0).v) ||
	    !is_clean(proc, tid, rest))
		return error;
	*ret_done = true;
	return call_held(stop, function, args);
}

struct error *safepoint_call(struct proc *proc, struct stop *held, taddr function,
			     const uint64_t args[3], unsigned timeout_ms)
{
	uint64_t deadline = held_now_us() + (uint64_t)timeout_ms * 1000;
	struct error *error = NULL;
	bool done = false;

	if (held && !held->threads.items[0].regs.fs_base)
		return error_new(ERROR_REFUSED, "the program's start code has not run yet");
	if (held)
		return call_held(held, function, args);
	for (unsigned round = 0; !error && !done && (!round || held_now_us() < deadline); round++) {
		struct tids tids = { 0 };

		error = threads_list(proc, &tids);
		for (size_t i = 0; i < tids.count && !error && !done; i++)
			error = try_thread(proc, tids.items[i], function, args, &done);
		vec_free(&tids);
		if (!error && !done)
			held_nap(round);
	}
	if (!error && !done)
		error = error_new(
			ERROR_REFUSED,
			"no thread of process %d sleeps where a function of it can be "
			"called (in poll, nanosleep, accept, pthread_cond_wait and the like)",
			proc->pid);
	return error;
}
