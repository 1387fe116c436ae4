#include "inject.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/remote/remote_state.h"
#include "control/stop/stop.h"

const char *const fault_class_names[FAULT_CLASSES] = {
	[FAULT_ALLOCATION] = "allocation",
	[FAULT_CALL] = "call",
	[FAULT_WRITE] = "write",
	[FAULT_PTRACE] = "ptrace",
	[FAULT_REMOTE] = "remote",
	[FAULT_STOP] = "stop",
	[FAULT_TEXT] = "text",
	[FAULT_UNFIT] = "unfit",
};

static struct {
	unsigned classes; /* 0: not armed */
	uint64_t nth;
	bool onward;
	inject_note_fn note;
	struct fault_report report;
} faults;

static struct inject_control *control; /* NULL: there is no such file */
static uint32_t role;

/* unwinding allocates memory and calls the system itself */
static _Thread_local bool busy;

/* ---- libraries that don't survive it --------------------------------------------------------- */

/* libdw ends the program when it has no memory, and libstdc++'s demangler isn't tried either. */
static const char *const frail[] = { "/libdw", "/libstdc++" };

static struct {
	uintptr_t from, to;
} frail_code[4];
static size_t frail_count;

static int find_frail(struct dl_phdr_info *info, size_t size, void *data)
{
	for (size_t i = 0; i < sizeof(frail) / sizeof(frail[0]) && frail_count < 4; i++) {
		if (!strstr(info->dlpi_name, frail[i]))
			continue;
		for (size_t j = 0; j < info->dlpi_phnum; j++) {
			const ElfW(Phdr) *segment = &info->dlpi_phdr[j];

			if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
				continue;
			frail_code[frail_count].from = info->dlpi_addr + segment->p_vaddr;
			frail_code[frail_count++].to =
				info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
		}
	}
	return 0;
}

static bool is_frail(void *const *stack, int depth)
{
	for (int i = 0; i < depth && i < 4; i++) {
		for (size_t j = 0; j < frail_count; j++) {
			if ((uintptr_t)stack[i] >= frail_code[j].from &&
			    (uintptr_t)stack[i] < frail_code[j].to)
				return true;
		}
	}
	return false;
}

/* ---- which call fails ------------------------------------------------------------------------ */

static uint32_t hash_of(void *const *stack, int depth)
{
	uint64_t hash = 14695981039346656037u;

	for (int i = 0; i < depth; i++)
		hash = (hash ^ (uintptr_t)stack[i]) * 1099511628211u;
	return (uint32_t)(hash ^ hash >> 32);
}

/* Counts the call for the file's reader. True: it fails. */
static bool is_controlled_call(enum fault_class class, const char *name)
{
	void *frames[FAULT_DEPTH + 3], **stack = frames + 3; /* without the wrapper and two more */
	uint32_t classes = __atomic_load_n(&control->classes, __ATOMIC_SEQ_CST);

	if (!(classes & 1u << class) || control->role != role)
		return false;
	int depth = backtrace(frames, FAULT_DEPTH + 3) - 3;
	if (class == FAULT_ALLOCATION && is_frail(stack, depth))
		return false;
	uint64_t call = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
	depth = depth < 0 ? 0 : depth;
	if (call <= INJECT_NOTED)
		control->noted[call - 1] = hash_of(stack, depth);
	if (call != control->nth)
		return false;
	extern char __executable_start;
	snprintf(control->name, sizeof(control->name), "%s", name);
	control->base = (uint64_t)(uintptr_t)&__executable_start;
	control->depth = (uint64_t)depth;
	memcpy(control->stack, stack, (size_t)depth * sizeof(stack[0]));
	__atomic_store_n(&control->fired, 1, __ATOMIC_SEQ_CST);
	return true;
}

/* The same, and sets errno. */
static bool fails_by_control(enum fault_class class, int number, const char *name)
{
	if (busy)
		return false;
	busy = true;
	bool now = is_controlled_call(class, name);
	busy = false;
	if (now)
		errno = number;
	return now;
}

/* Counts the call. True: it fails, with that errno. */
static bool fails(enum fault_class class, int number, const char *name)
{
	struct fault_report *report = &faults.report;

	if (control)
		return fails_by_control(class, number, name);
	if (!(faults.classes & 1u << class) || busy)
		return false;
	busy = true;
	/* without this function and the wrapper */
	void *frames[FAULT_DEPTH + 2], **stack = frames + 2;
	int depth = backtrace(frames, class == FAULT_ALLOCATION ? 6 : 0) - 2;
	if (is_frail(stack, depth))
		return busy = false;
	uint64_t call = ++report->calls;
	/* no call is interrupted for ever, and a page that was written can be written again */
	bool onward = faults.onward && number != EINTR && class != FAULT_TEXT;
	bool now = faults.nth && (call == faults.nth || (onward && call > faults.nth));

	report->by_class[class]++;
	if (faults.note || (now && !report->fired)) {
		depth = backtrace(frames, FAULT_DEPTH + 2) - 2;
		depth = depth < 0 ? 0 : depth;
		if (faults.note)
			faults.note(call, hash_of(stack, depth ? 1 : 0), hash_of(stack, depth));
		if (now && !report->fired) {
			report->fired = true;
			report->name = name;
			report->depth = depth;
			memcpy(report->stack, stack, (size_t)depth * sizeof(stack[0]));
		}
	}
	busy = false;
	if (now)
		errno = number;
	return now;
}

/* ---- by a file ------------------------------------------------------------------------------- */

ssize_t __real_readlink(const char *path, char *to, size_t size);
int __real_open64(const char *path, int flags, ...);
void *__real_mmap64(void *at, size_t size, int prot, int flags, int fd, off64_t from);

static uint32_t role_of(const char *word)
{
	static const char *const words[] = { "", "--worker", "--keeper", "--asker" };

	for (uint32_t i = 1; word && i < sizeof(words) / sizeof(words[0]); i++) {
		if (!strncmp(word, words[i], strlen(words[i]))) /* also --keeper-again */
			return i;
	}
	return INJECT_SUPERVISOR;
}

/* Maps the file beside the program. Nothing is left open: a worker knows its descriptors. */
__attribute__((constructor)) static void find_control(int argc, char **argv)
{
	static const char suffix[] = ".faults";
	char path[4096];
	ssize_t n = __real_readlink("/proc/self/exe", path, sizeof(path) - sizeof(suffix));
	void *warm[4];

	memcpy(path + (n > 0 ? n : 0), suffix, sizeof(suffix));
	int fd = __real_open64(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	void *at = __real_mmap64(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	busy = true;
	backtrace(warm, 4); /* loads the unwinder */
	dl_iterate_phdr(find_frail, NULL);
	busy = false;
	role = role_of(argc > 1 ? argv[1] : NULL);
	control = at == MAP_FAILED ? NULL : at;
}

/* ---- by the environment ---------------------------------------------------------------------- */

/* "CLASSES:N[+]", CLASSES: names with commas between, or "all". */
static bool parse_wish(const char *wish, unsigned *ret_classes, uint64_t *ret_nth, bool *ret_onward)
{
	const char *colon = strchr(wish, ':');
	char *end;

	*ret_classes = 0;
	if (!colon)
		return false;
	for (unsigned i = 0; i < FAULT_CLASSES; i++) {
		size_t length = strlen(fault_class_names[i]);

		for (const char *at = wish; at && at < colon; at = strchr(at, ',')) {
			at += *at == ',';
			if (!strncmp(at, fault_class_names[i], length) &&
			    (at[length] == ',' || at[length] == ':'))
				*ret_classes |= 1u << i;
		}
	}
	if (!strncmp(wish, "all:", 4))
		*ret_classes = FAULT_ALL;
	*ret_nth = strtoull(colon + 1, &end, 10);
	*ret_onward = *end == '+';
	return *ret_classes && *ret_nth;
}

__attribute__((constructor)) static void arm_by_environment(void)
{
	const char *wish = getenv("DYNTRACE_FAULT"), *only = getenv("DYNTRACE_FAULT_PROGRAM");
	unsigned classes;
	uint64_t nth;
	bool onward;

	if (!wish || (only && strcmp(only, program_invocation_short_name)))
		return;
	if (parse_wish(wish, &classes, &nth, &onward))
		inject_arm(classes, nth, onward, NULL);
	else
		fprintf(stderr, "DYNTRACE_FAULT isn't CLASSES:N: '%s'\n", wish);
}

/* ---- for the driver -------------------------------------------------------------------------- */

void inject_arm(unsigned classes, uint64_t nth, bool onward, inject_note_fn note)
{
	void *warm[4];

	busy = true;
	backtrace(warm, 4); /* loads the unwinder */
	busy = false;
	frail_count = 0;
	dl_iterate_phdr(find_frail, NULL);
	memset(&faults, 0, sizeof(faults));
	faults.nth = nth;
	faults.onward = onward;
	faults.note = note;
	faults.classes = classes;
}

bool inject_has_killed(void)
{
	return faults.report.killed;
}

void inject_disarm(struct fault_report *ret_report)
{
	faults.classes = 0;
	*ret_report = faults.report;
}

/* ---- the functions --------------------------------------------------------------------------- */

/* A function that gives `failure` and sets errno. */
#define WRAP(class, number, failure, type, name, parameters, arguments)                            \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		if (fails(class, number, #name))                                                   \
			return failure;                                                            \
		return __real_##name arguments;                                                    \
	}

#ifdef __SANITIZE_ADDRESS__
#define ALLOCATOR(type, name, parameters, arguments)                                               \
	WRAP(FAULT_ALLOCATION, ENOMEM, NULL, type, name, parameters, arguments)
ALLOCATOR(char *, strdup, (const char *text), (text))
ALLOCATOR(char *, strndup, (const char *text, size_t size), (text, size))
ALLOCATOR(void *, reallocarray, (void *at, size_t count, size_t size), (at, count, size))
WRAP(FAULT_ALLOCATION, ENOMEM, -1, int, vasprintf, (char **text, const char *format, va_list args),
     (text, format, args))

int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	int length = __wrap_vasprintf(text, format, args);
	va_end(args);
	return length;
}
#else
/* Libraries call these, too: libelf, libdw, and libc for asprintf, opendir, fopen... */
#define ALLOCATOR(type, name, parameters, arguments)                                               \
	type __libc_##name parameters;                                                             \
	__attribute__((visibility("default"))) type name parameters                                \
	{                                                                                          \
		if (fails(FAULT_ALLOCATION, ENOMEM, #name))                                        \
			return NULL;                                                               \
		return __libc_##name arguments;                                                    \
	}
#endif
ALLOCATOR(void *, malloc, (size_t size), (size))
ALLOCATOR(void *, calloc, (size_t count, size_t size), (count, size))
ALLOCATOR(void *, realloc, (void *at, size_t size), (at, size))

#define CALL(number, failure, type, name, parameters, arguments)                                   \
	WRAP(FAULT_CALL, number, failure, type, name, parameters, arguments)
CALL(EACCES, -1, int, access, (const char *path, int mode), (path, mode))
CALL(EACCES, -1, int, faccessat, (int at, const char *path, int mode, int flags),
     (at, path, mode, flags))
CALL(ENOMEM, NULL, FILE *, fdopen, (int fd, const char *mode), (fd, mode))
CALL(EMFILE, NULL, FILE *, fopen64, (const char *path, const char *mode), (path, mode))
CALL(EAGAIN, -1, pid_t, fork, (void), ())
CALL(EIO, -1, int, fstat64, (int fd, struct stat64 *to), (fd, to))
CALL(ENOMEM, -1, int, madvise, (void *at, size_t size, int advice), (at, size, advice))
CALL(ENOMEM, MAP_FAILED, void *, mmap64,
     (void *at, size_t size, int prot, int flags, int fd, off64_t from),
     (at, size, prot, flags, fd, from))
CALL(ENOMEM, -1, int, munmap, (void *at, size_t size), (at, size))
CALL(EMFILE, NULL, DIR *, opendir, (const char *path), (path))
CALL(EMFILE, -1, int, pipe2, (int *fds, int flags), (fds, flags))
CALL(ENOMEM, -1, int, poll, (struct pollfd * fds, nfds_t count, int ms), (fds, count, ms))
CALL(EIO, -1, ssize_t, pread64, (int fd, void *to, size_t size, off64_t at), (fd, to, size, at))
CALL(EPERM, -1, int, prlimit64,
     (pid_t pid, int which, const struct rlimit64 *new, struct rlimit64 *old),
     (pid, which, new, old))
CALL(EIO, -1, ssize_t, read, (int fd, void *to, size_t size), (fd, to, size))
CALL(ENOMEM, -1, ssize_t, readlink, (const char *path, char *to, size_t size), (path, to, size))
CALL(ENOMEM, -1, ssize_t, readlinkat, (int at, const char *path, char *to, size_t size),
     (at, path, to, size))
CALL(ENOBUFS, -1, ssize_t, recvmsg, (int fd, struct msghdr *message, int flags),
     (fd, message, flags))
CALL(EPERM, -1, int, sched_setscheduler,
     (pid_t pid, int policy, const struct sched_param *parameters), (pid, policy, parameters))
CALL(ENOBUFS, -1, ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags),
     (fd, message, flags))
CALL(EACCES, -1, int, stat64, (const char *path, struct stat64 *to), (path, to))
CALL(EAGAIN, -1, int, timer_create, (clockid_t clock, struct sigevent *event, timer_t *timer),
     (clock, event, timer))
CALL(EINTR, -1, int, waitid, (idtype_t type, id_t id, siginfo_t *info, int options),
     (type, id, info, options))
CALL(EINTR, -1, pid_t, waitpid, (pid_t pid, int *status, int options), (pid, status, options))

#define WRITE(number, failure, type, name, parameters, arguments)                                  \
	WRAP(FAULT_WRITE, number, failure, type, name, parameters, arguments)
WRITE(EIO, EOF, int, fflush, (FILE * file), (file))
WRITE(ENOSPC, -1, int, ftruncate64, (int fd, off64_t size), (fd, size))
WRITE(ENOSPC, -1, int, mkdir, (const char *path, mode_t mode), (path, mode))
WRITE(ENOSPC, ENOSPC, int, posix_fallocate64, (int fd, off64_t at, off64_t size), (fd, at, size))
WRITE(EIO, -1, ssize_t, pwrite64, (int fd, const void *from, size_t size, off64_t at),
      (fd, from, size, at))
WRITE(EDQUOT, -1, ssize_t, pwritev64, (int fd, const struct iovec *from, int count, off64_t at),
      (fd, from, count, at))
WRITE(EIO, -1, int, renameat, (int from_at, const char *from, int to_at, const char *to),
      (from_at, from, to_at, to))
WRITE(EIO, -1, int, unlinkat, (int at, const char *path, int flags), (at, path, flags))
WRITE(ENOSPC, -1, ssize_t, write, (int fd, const void *from, size_t size), (fd, from, size))

/* ---- functions with arguments of any kind ---------------------------------------------------- */

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	unsigned mode = va_arg(args, unsigned); /* read in vain if there is none */
	va_end(args);
	return fails(FAULT_CALL, EMFILE, "open") ? -1 : __real_open64(path, flags, mode);
}

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...)
{
	va_list args;

	va_start(args, flags);
	unsigned mode = va_arg(args, unsigned);
	va_end(args);
	return fails(FAULT_CALL, ENFILE, "openat") ? -1 : __real_openat64(at, path, flags, mode);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...)
{
	va_list args;

	va_start(args, command);
	void *argument = va_arg(args, void *);
	va_end(args);
	return fails(FAULT_CALL, EMFILE, "fcntl") ? -1 : __real_fcntl64(fd, command, argument);
}

/* Calls that can fail. gettid and futex can't; tgkill and kcmp fail for rights alone. */
static bool may_fail(long number)
{
	static const long numbers[] = { SYS_getdents64,	       SYS_pidfd_open,
					SYS_memfd_create,      SYS_process_vm_readv,
					SYS_process_vm_writev, SYS_pidfd_getfd };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		if (numbers[i] == number)
			return true;
	}
	return false;
}

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
long __wrap_syscall(long number, ...)
{
	long arguments[6];
	va_list args;

	va_start(args, number);
	for (size_t i = 0; i < 6; i++)
		arguments[i] = va_arg(args, long);
	va_end(args);
	if (may_fail(number) && fails(FAULT_CALL, ENOMEM, "syscall"))
		return -1;
	return __real_syscall(number, arguments[0], arguments[1], arguments[2], arguments[3],
			      arguments[4], arguments[5]);
}

/* A thread of another user, or of another tracer, can't be seized. All other requests, to a thread
 * in its stop, fail for one reason: the thread is being killed. So it is. */
long __real_ptrace(int request, ...);
long __wrap_ptrace(int request, ...);
long __wrap_ptrace(int request, ...)
{
	va_list args;

	va_start(args, request);
	pid_t pid = va_arg(args, pid_t);
	void *at = va_arg(args, void *), *data = va_arg(args, void *);
	va_end(args);
	if (!fails(FAULT_PTRACE, request == PTRACE_SEIZE ? EPERM : ESRCH, "ptrace"))
		return __real_ptrace(request, pid, at, data);
	if (request != PTRACE_SEIZE) {
		faults.report.killed = true;
		if (control)
			control->killed = 1;
		kill(pid, SIGKILL);
		errno = ESRCH;
	}
	return -1;
}

/* ---- parts of the controller ----------------------------------------------------------------- */

#define PART(class, what, name, parameters, arguments)                                             \
	struct error *__real_##name parameters;                                                    \
	struct error *__wrap_##name parameters;                                                    \
	struct error *__wrap_##name parameters                                                     \
	{                                                                                          \
		if (fails(class, EIO, #name))                                                      \
			return error_new(ERROR_FAILED, "no " what " (injected)");                  \
		return __real_##name arguments;                                                    \
	}
PART(FAULT_TEXT, "write to memory", mem_write,
     (struct proc * proc, taddr to, const void *from, size_t size), (proc, to, from, size))
PART(FAULT_STOP, "stop", stop_all, (struct proc * proc, unsigned ms, struct stop **ret_stop),
     (proc, ms, ret_stop))
PART(FAULT_STOP, "stop", stop_one, (struct proc * proc, unsigned ms, struct stop **ret_stop),
     (proc, ms, ret_stop))
PART(FAULT_STOP, "stop", stop_thread,
     (struct proc * proc, pid_t tid, unsigned ms, struct stop **ret_stop),
     (proc, tid, ms, ret_stop))

#define REMOTE(name, first)                                                                        \
	struct error *__real_##name(first, long number, const uint64_t args[6],                    \
				    int64_t *ret_result);                                          \
	struct error *__wrap_##name(first, long number, const uint64_t args[6],                    \
				    int64_t *ret_result);                                          \
	struct error *__wrap_##name(first, long number, const uint64_t args[6],                    \
				    int64_t *ret_result)                                           \
	{                                                                                          \
		/* close frees its number whatever it says */                                      \
		if (number == SYS_close || !fails(FAULT_REMOTE, ENOMEM, #name))                    \
			return __real_##name(by, number, args, ret_result);                        \
		*ret_result = -ENOMEM;                                                             \
		return NULL;                                                                       \
	}
REMOTE(remote_call, struct remote *by)
REMOTE(remote_syscall, struct stop *by)

static const struct stop *asked; /* the stop whose threads remote_choose has judged; NULL: none */
static bool are_unfit;

void __real_stop_release(struct stop *stop, uint64_t *ret_us);
void __wrap_stop_release(struct stop *stop, uint64_t *ret_us);
void __wrap_stop_release(struct stop *stop, uint64_t *ret_us)
{
	asked = stop == asked ? NULL : asked;
	__real_stop_release(stop, ret_us);
}

/* Held threads don't move: what is so at the first call of a stop is so at all of them. */
struct error *__real_remote_choose(struct remote *remote, uint64_t *ret_top,
				   struct thread_status *ret_status);
struct error *__wrap_remote_choose(struct remote *remote, uint64_t *ret_top,
				   struct thread_status *ret_status);
struct error *__wrap_remote_choose(struct remote *remote, uint64_t *ret_top,
				   struct thread_status *ret_status)
{
	if (asked != remote->stop)
		are_unfit = fails(FAULT_UNFIT, 0, "remote_choose");
	asked = remote->stop;
	return are_unfit ? error_new(ERROR_UNFIT, "no thread can be borrowed (injected)") :
			   __real_remote_choose(remote, ret_top, ret_status);
}
