#include "view_reader.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_status.h"
#include "options/commands.h"
#include "view_pager.h"
#include "view_rights.h"

#define LOOK_MS 100 /* between two looks at the child */
#define LOOKS_PER_SECOND (1000 / LOOK_MS)
#define ERROR_MAX 8192
#define PROGRESS_LOOKS 10 /* before the bar is shown */
#define BAR 30

/* A whole trace is gone through before its first event comes: its size buys memory and time. */
#define SIZE_PER_BUSY_SECOND (16ULL << 20)
#define SIZE_PER_MEMORY 8
#define MEMORY_PER_METADATA 64

const struct view_reader_limits view_reader_default_limits = {
	.memory = 1ULL << 30,
	.busy_seconds = 10,
	.idle_seconds = 20,
};

/* The shared page. */
struct view_reader {
	const struct view_reader_limits *limits; /* for the child */
	volatile uint64_t messages; /* read so far */
	volatile uint64_t events; /* among them, also those that a filter leaves out */
	volatile uint64_t size; /* of the trace */
	volatile uint64_t done; /* bytes of it that were read; 0: unknown */
	volatile uint64_t whole; /* bytes that `done` grows to */
	_Atomic uint8_t has_bar; /* the parent shows how far it is, on stderr */
	_Atomic uint8_t is_over; /* recording has ended: the parent found that out */
	_Atomic uint8_t wants_line; /* the child has something to print: no bar from now on */
	volatile uint64_t memory; /* limit of the child */
	_Atomic uint8_t is_writing; /* waits for the reader of its output, as long as that takes */
	_Atomic uint8_t is_done; /* `kind` and `error` are filled in */
	uint8_t has_error; /* no bool: any byte may stand here (X2) */
	unsigned kind;
	char error[ERROR_MAX];
	_Atomic size_t kept; /* bytes of `text`: whole lines that aren't written yet */
	char text[VIEW_READER_KEPT_MAX];
};

struct error *view_reader_damaged(const struct view_reader *reader, const char *path,
				  const char *why)
{
	uint64_t events = reader->events;

	return error_new(ERROR_FAILED,
			 "the trace '%s' is damaged: its reader %s after %llu event%s (all that it "
			 "could read is printed; the rest needs another copy of the trace)",
			 path, why, (unsigned long long)events, events == 1 ? "" : "s");
}

/* ---- child ---------------------------------------------------------------------------------- */

struct error *view_reader_begin(struct view_reader *reader, uint64_t size, uint64_t metadata)
{
	uint64_t least = reader->limits->memory,
		 wished = least + size / SIZE_PER_MEMORY + metadata * MEMORY_PER_METADATA,
		 most = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;

	struct rlimit limit;

	reader->size = size;
	reader->memory = wished < most ? wished : most > least ? most : least;
	if (!getrlimit(RLIMIT_DATA, &limit) && limit.rlim_cur < reader->memory)
		reader->memory = limit.rlim_cur; /* the user's own */
	return view_rights_give_up(reader->memory);
}

void view_reader_note(struct view_reader *reader, bool is_event, const struct strbuf *text)
{
	size_t kept = reader->kept;

	/* Only lines that came since are copied: the strbuf grows until it is flushed. */
	if (text->length > kept && text->length <= VIEW_READER_KEPT_MAX && !text->failed) {
		memcpy(reader->text + kept, text->text + kept, text->length - kept);
		atomic_store_explicit(&reader->kept, text->length, memory_order_release);
	}
	reader->messages++;
	reader->events += is_event;
}

void view_reader_count(struct view_reader *reader, uint64_t events)
{
	reader->messages += events;
	reader->events += events;
}

void view_reader_progress(struct view_reader *reader, uint64_t done, uint64_t whole)
{
	reader->done = done;
	reader->whole = whole;
}

bool view_reader_is_over(const struct view_reader *reader)
{
	return reader->is_over;
}

/* Both may write to one terminal: waits until the parent has removed its bar. */
static void wait_for_line(struct view_reader *reader)
{
	struct timespec nap = { .tv_nsec = 5 * 1000 * 1000 };

	if (!view_pager_is_on() && !isatty(STDOUT_FILENO))
		return;
	reader->wants_line = true;
	for (unsigned i = 0; reader->has_bar && i < 1000 / 5; i++)
		clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
}

int view_reader_flush(struct view_reader *reader, struct strbuf *text)
{
	size_t written = 0;
	int error = text->failed ? ENOMEM : 0;

	if (text->length)
		wait_for_line(reader);
	reader->kept = 0; /* X1: a line is written by one of the two */
	reader->is_writing = true;
	while (!error && written < text->length) {
		ssize_t n = write(STDOUT_FILENO, text->text + written, text->length - written);

		if (n >= 0)
			written += (size_t)n;
		else if (errno != EINTR)
			error = errno;
	}
	reader->is_writing = false;
	text->length = 0;
	return error;
}

__attribute__((noreturn)) static void run_child(struct view_reader *reader, pid_t parent,
						view_reader_fn read, void *context)
{
	/* The child must not outlive the parent, whatever ends that one. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAILURE);
	if (view_pager_is_on()) /* where the parent doesn't hear it */
		signal(SIGINT, SIG_DFL);
	struct error *error = read(reader, context);

	reader->has_error = error != NULL;
	if (error) {
		reader->kind = error_kind(error);
		snprintf(reader->error, sizeof(reader->error), "%s", error_text(error));
	}
	reader->is_done = true;
	_exit(EXIT_SUCCESS);
}

/* ---- parent --------------------------------------------------------------------------------- */

enum verdict {
	GOES_ON,
	TOO_BUSY, /* took processor time without an event */
	TOO_IDLE, /* waited for something that never came */
};

struct watch {
	struct view_reader *reader;
	const struct view_reader_limits *limits;
	pid_t pid;
	uint64_t messages; /* at the last look */
	uint64_t busy_since; /* processor time in ns, when a message came last */
	unsigned idle_looks;
	unsigned looks;
	bool has_bar; /* the page's copy is for the child (X2) */
};

/* Processor time of the child in ns. */
static uint64_t busy_time(pid_t pid)
{
	struct timespec time = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &time))
		return 0;
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t busy_limit(const struct watch *watch)
{
	return watch->limits->busy_seconds + watch->reader->size / SIZE_PER_BUSY_SECOND;
}

/* Waits for something that isn't a disk, which would be D? */
static bool is_asleep(pid_t pid)
{
	struct thread_stat stat = { 0 };
	_cleanup_error_ struct error *error = proc_status_read_stat(pid, pid, &stat);

	return !error && stat.state == 'S';
}

/* Counts looks instead of time: a machine that sleeps and a stopped job (Ctrl-Z) cost nothing. */
static enum verdict look(struct watch *watch)
{
	uint64_t messages = watch->reader->messages, busy = busy_time(watch->pid);

	if (messages != watch->messages || watch->reader->is_writing) {
		watch->messages = messages;
		watch->busy_since = busy;
		watch->idle_looks = 0;
		return GOES_ON;
	}
	watch->idle_looks = is_asleep(watch->pid) ? watch->idle_looks + 1 : 0;
	if (watch->idle_looks > watch->limits->idle_seconds * LOOKS_PER_SECOND)
		return TOO_IDLE;
	if (busy - watch->busy_since > busy_limit(watch) * 1000000000u)
		return TOO_BUSY;
	return GOES_ON;
}

/* ---- progress ------------------------------------------------------------------------------- */

static void remove_bar(struct watch *watch)
{
	if (watch->has_bar)
		cli_print_error("\r\033[K");
	watch->has_bar = false;
	watch->reader->has_bar = false;
}

/* Shows how far the child is, if that takes longer than a second. The numbers are the child's (X2):
 * whatever they are, a share comes out. */
static void show_progress(struct watch *watch)
{
	static const char full[BAR + 1] = "##############################";
	struct view_reader *reader = watch->reader;
	uint64_t done = reader->done, whole = reader->whole;

	if (reader->wants_line) {
		remove_bar(watch);
		return;
	}
	if (++watch->looks < PROGRESS_LOOKS || !watch->limits->has_progress || !done || !whole ||
	    !cli_has_colour(STDERR_FILENO))
		return;
	double share = done < whole ? (double)done / (double)whole : 1;
	watch->has_bar = true;
	reader->has_bar = true;
	cli_print_error("\rreading |%-*.*s| %3.0f%%", BAR, (int)(share * BAR), full, share * 100);
	fflush(stderr);
}

/* The recorder holds a lock of its directory as long as it records, or lives. */
static void look_at_recorder(struct watch *watch)
{
	int directory = watch->limits->followed;

	if (!directory || flock(directory, LOCK_EX | LOCK_NB))
		return;
	flock(directory, LOCK_UN);
	watch->reader->is_over = true;
}

/* Waits until the child has ended, or ends it. */
static enum verdict wait_for_child(struct watch *watch, struct rusage *ret_usage, int *ret_status)
{
	_cleanup_close_ int pidfd = pidfd_open(watch->pid, 0);
	struct pollfd poller = { .fd = pidfd, .events = POLLIN };
	enum verdict verdict = GOES_ON;

	while (pidfd >= 0 && verdict == GOES_ON && poll(&poller, 1, LOOK_MS) <= 0) {
		verdict = look(watch);
		show_progress(watch);
		look_at_recorder(watch);
	}
	remove_bar(watch);
	if (verdict != GOES_ON)
		kill(watch->pid, SIGKILL);
	while (wait4(watch->pid, ret_status, 0, ret_usage) < 0 && errno == EINTR)
		;
	return verdict;
}

/* (X1) Writes the lines that the dead child had ready. */
static void write_kept(const struct view_reader *reader)
{
	size_t kept = reader->kept, written = 0;

	while (kept <= VIEW_READER_KEPT_MAX && written < kept) { /* X2 */
		ssize_t n = write(STDOUT_FILENO, reader->text + written, kept - written);

		if (n < 0 && errno != EINTR)
			return;
		written += n > 0 ? (size_t)n : 0;
	}
}

/* Dies of the signal that ended the child, if the user or the reader of the output sent it. */
static void die_alike(int number)
{
	static const int asked[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };

	for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
		if (number == asked[i]) {
			view_pager_end();
			signal(number, SIG_DFL);
			raise(number);
		}
}

static struct error *judge(const char *path, const struct watch *watch, enum verdict verdict,
			   int status, const struct rusage *usage)
{
	const struct view_reader *reader = watch->reader;
	uint64_t memory = (uint64_t)usage->ru_maxrss * 1024;
	char why[128];

	if (verdict == TOO_BUSY)
		snprintf(why, sizeof(why), "found no event for %llu s of work",
			 (unsigned long long)busy_limit(watch));
	else if (verdict == TOO_IDLE)
		snprintf(why, sizeof(why), "waited for %u s in vain", watch->limits->idle_seconds);
	else if (!WIFSIGNALED(status))
		snprintf(why, sizeof(why), "gave up (status %d)", WEXITSTATUS(status));
	else if (WTERMSIG(status) == SIGTRAP || memory > reader->memory / 4 * 3)
		/* SIGTRAP: how GLib ends a program that gets no memory */
		snprintf(why, sizeof(why), "needed more than %llu MiB of memory",
			 (unsigned long long)(reader->memory >> 20));
	else
		snprintf(why, sizeof(why), "was ended by SIG%s",
			 sigabbrev_np(WTERMSIG(status)) ?: "?");
	return view_reader_damaged(reader, path, why);
}

static struct error *result_of(const char *path, const struct watch *watch, enum verdict verdict,
			       int status, const struct rusage *usage)
{
	struct view_reader *reader = watch->reader;

	if (!reader->is_done || status) {
		if (verdict == GOES_ON && WIFSIGNALED(status))
			die_alike(WTERMSIG(status));
		write_kept(reader);
		return judge(path, watch, verdict, status, usage);
	}
	if (!reader->has_error)
		return NULL;
	reader->error[sizeof(reader->error) - 1] = '\0'; /* X2 */
	return error_repeat(reader->kind <= ERROR_REFUSED ? (enum error_kind)reader->kind :
							    ERROR_FAILED,
			    reader->error);
}

struct error *view_reader_run(const char *path, const struct view_reader_limits *limits,
			      view_reader_fn read, void *context)
{
	struct view_reader *reader = mmap(NULL, sizeof(*reader), PROT_READ | PROT_WRITE,
					  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct watch watch = { .reader = reader, .limits = limits };
	struct rusage usage = { 0 };
	pid_t parent = getpid();
	int status = 0;

	if (reader == MAP_FAILED)
		return error_errno(errno, "cannot share memory with the trace's reader");
	reader->limits = limits;
	fflush(stdout);
	watch.pid = fork();
	if (watch.pid == 0)
		run_child(reader, parent, read, context);
	if (watch.pid < 0) {
		munmap(reader, sizeof(*reader));
		return error_errno(errno, "cannot start the trace's reader");
	}
	enum verdict verdict = wait_for_child(&watch, &usage, &status);
	struct error *error = result_of(path, &watch, verdict, status, &usage);
	munmap(reader, sizeof(*reader));
	return error;
}
