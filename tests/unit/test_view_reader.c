/*
 * The reader of traces as a child that misbehaves: it dies alone, its lines are printed, and the
 * parent's sentence says why. Includes the source, for the child here writes lies into the shared
 * page.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "../../src/cli/view/view_reader.c"

/* No terminal here: no bar is shown. */
bool cli_has_colour(int fd)
{
	(void)fd;
	return false;
}

void cli_print_error(const char *format, ...)
{
	(void)format;
	fail();
}

static const struct view_reader_limits tight = { .memory = 64 << 20,
						 .busy_seconds = 1,
						 .idle_seconds = 1 };

/* ---- running it ------------------------------------------------------------------------------ */

/* Runs the function with stdout in a pipe; gives the error's text ("": none), and what was printed
 * in `ret_printed`, if given, of 4096 bytes. */
static const char *run(view_reader_fn read_fn, void *context, char *ret_printed)
{
	static char text[ERROR_MAX];
	_cleanup_close_ int own = dup(STDOUT_FILENO);
	int ends[2];

	fflush(stdout);
	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDOUT_FILENO);
	close(ends[1]);
	struct error *error = view_reader_run("T", &tight, read_fn, context);
	dup2(own, STDOUT_FILENO);
	if (ret_printed) {
		ssize_t n = read(ends[0], ret_printed, 4095);

		ret_printed[n > 0 ? n : 0] = '\0';
	}
	close(ends[0]);
	snprintf(text, sizeof(text), "%s", error ? error_text(error) : "");
	error_free(error);
	return text;
}

static void assert_damaged(const char *text, const char *why, int events)
{
	char expected[512];

	snprintf(
		expected, sizeof(expected),
		"the trace 'T' is damaged: its reader %s after %d event%s (all that it could read is "
		"printed; the rest needs another copy of the trace)",
		why, events, events == 1 ? "" : "s");
	assert_string_equal(text, expected);
}

static void note_line(struct view_reader *reader, struct strbuf *text, const char *line)
{
	strbuf_printf(text, "%s\n", line);
	view_reader_note(reader, true, text);
}

static struct error *begin(struct view_reader *reader)
{
	/* a sanitizer's handlers would hide how it ended */
	signal(SIGSEGV, SIG_DFL);
	signal(SIGABRT, SIG_DFL);
	return view_reader_begin(reader, 0, 0);
}

/* ---- ends of a child ------------------------------------------------------------------------- */

static struct error *succeeds(struct view_reader *reader, void *context)
{
	_cleanup_(strbuf_free) struct strbuf text = { 0 };
	struct error *error = begin(reader);

	note_line(reader, &text, "one");
	note_line(reader, &text, "two");
	assert_int_equal(view_reader_flush(reader, &text), 0);
	return error;
}

static void test_success(void **state)
{
	char printed[4096];

	assert_string_equal(run(succeeds, NULL, printed), "");
	assert_string_equal(printed, "one\ntwo\n");
}

static struct error *fails(struct view_reader *reader, void *context)
{
	return error_new(ERROR_USAGE, "the sentence of the child");
}

static void test_error(void **state)
{
	struct error *error = view_reader_run("T", &tight, fails, NULL);

	assert_non_null(error);
	assert_string_equal(error_text(error), "the sentence of the child");
	assert_int_equal(error_kind(error), ERROR_USAGE);
	error_free(error);
}

/* X1: of three lines one was written, one waits, and one is only begun. */
static struct error *dies(struct view_reader *reader, void *context)
{
	struct strbuf text = { 0 };
	struct error *error = begin(reader);

	note_line(reader, &text, "written");
	view_reader_flush(reader, &text);
	note_line(reader, &text, "kept");
	strbuf_printf(&text, "half a li");
	raise(*(int *)context);
	return error;
}

static void test_crash(void **state)
{
	static const struct {
		int number;
		const char *why;
	} ends[] = { { SIGSEGV, "was ended by SIGSEGV" },
		     { SIGABRT, "was ended by SIGABRT" },
		     { SIGKILL, "was ended by SIGKILL" },
		     { SIGTRAP, "needed more than 64 MiB of memory" } };
	char printed[4096];

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		int number = ends[i].number;

		assert_damaged(run(dies, &number, printed), ends[i].why, 2);
		assert_string_equal(printed, "written\nkept\n");
	}
}

/* (X2) Its shared memory says that more waits than there is room for. */
static struct error *keeps_too_much(struct view_reader *reader, void *context)
{
	struct strbuf text = { 0 };
	struct error *error = begin(reader);

	note_line(reader, &text, "written");
	view_reader_flush(reader, &text);
	note_line(reader, &text, "kept");
	atomic_store(&reader->kept, VIEW_READER_KEPT_MAX + 1);
	raise(SIGSEGV);
	return error;
}

static void test_more_than_there_is_room(void **state)
{
	char printed[4096];

	assert_damaged(run(keeps_too_much, NULL, printed), "was ended by SIGSEGV", 2);
	assert_string_equal(printed, "written\n");
}

static struct error *exits(struct view_reader *reader, void *context)
{
	struct error *error = begin(reader);

	if (!error)
		_exit(3);
	return error;
}

static void test_exit(void **state)
{
	assert_damaged(run(exits, NULL, NULL), "gave up (status 3)", 0);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static struct error *takes_memory(struct view_reader *reader, void *context)
{
	struct error *error = begin(reader);
	volatile char *block;

	while (!error && (block = malloc(1 << 20)))
		memset((char *)block, 1, 1 << 20);
	abort();
}

static void test_memory(void **state)
{
#ifdef __SANITIZE_ADDRESS__
	skip(); /* no limits: see view_rights.c */
#endif
	assert_damaged(run(takes_memory, NULL, NULL), "needed more than 64 MiB of memory", 0);
}

static struct error *spins(struct view_reader *reader, void *context)
{
	struct strbuf text = { 0 };
	struct error *error = begin(reader);

	note_line(reader, &text, "before");
	while (!error)
		*(volatile int *)context = 1;
	return error;
}

static void test_busy(void **state)
{
	char printed[4096];
	int any = 0;

	assert_damaged(run(spins, &any, printed), "found no event for 1 s of work", 1);
	assert_string_equal(printed, "before\n");
}

/* Works for twice the limit, but goes on. */
static struct error *works(struct view_reader *reader, void *context)
{
	struct strbuf text = { 0 };
	struct error *error = begin(reader);
	struct timespec used;

	do {
		view_reader_note(reader, false, &text);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
	} while (used.tv_sec < 2);
	return error;
}

static void test_progress(void **state)
{
	assert_string_equal(run(works, NULL, NULL), "");
}

static struct error *waits(struct view_reader *reader, void *context)
{
	char byte;

	error_free(begin(reader));
	return read(*(int *)context, &byte, 1) == 1 ? NULL : error_new(ERROR_FAILED, "no byte");
}

static void test_idle(void **state)
{
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	assert_damaged(run(waits, &ends[0], NULL), "waited for 1 s in vain", 0);
	close(ends[0]);
	close(ends[1]);
}

static struct error *prints_much(struct view_reader *reader, void *context)
{
	struct strbuf text = { 0 };
	struct error *error = begin(reader);

	for (int i = 0; i < 100000; i++)
		strbuf_add(&text, "a line\n", 7);
	assert_int_equal(view_reader_flush(reader, &text), 0);
	return error;
}

/* Nobody reads the output for longer than the limit, as with a pager. */
static void test_pager(void **state)
{
	size_t seen = 0;
	char bytes[4096];
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDOUT_FILENO);
		close(ends[0]);
		close(ends[1]);
		_exit(view_reader_run("T", &tight, prints_much, NULL) ? 1 : 0);
	}
	close(ends[1]);
	usleep(2500000);
	for (ssize_t n; (n = read(ends[0], bytes, sizeof(bytes))) > 0;)
		seen += (size_t)n;
	assert_int_equal(seen, 700000);
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(ends[0]);
}

/* ---- rights ---------------------------------------------------------------------------------- */

static struct error *refused(const char *what, long result)
{
	return result == -1 && errno == EPERM ?
		       NULL :
		       error_new(ERROR_FAILED, "%s: %ld, %s", what, result, strerror(errno));
}

static struct error *tries(struct view_reader *reader, void *context)
{
	char *words[] = { "/bin/true", NULL };
	struct error *error = begin(reader);

#define TRY(call)                                                                                  \
	do {                                                                                       \
		if (!error)                                                                        \
			error = refused(#call, (long)(call));                                      \
	} while (0)
	TRY(socket(AF_INET, SOCK_STREAM, 0));
	TRY(socket(AF_UNIX, SOCK_STREAM, 0));
	TRY(syscall(SYS_fork));
	TRY(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
	TRY(syscall(SYS_clone3, NULL, 0));
	TRY(execve(words[0], words, words + 1));
	TRY(open("/dev/null", O_WRONLY));
	TRY(open("/dev/null", O_RDWR));
	TRY(open((char *)context, O_RDONLY | O_CREAT, 0600));
	TRY(open("/tmp", O_TMPFILE | O_RDONLY, 0600));
	TRY(syscall(SYS_openat2, AT_FDCWD, "/dev/null", NULL, 0));
	TRY(unlink((char *)context));
	TRY(mkdir((char *)context, 0700));
	TRY(write(STDERR_FILENO, "x", 1));
	TRY(kill(getppid(), 0));
	TRY(syscall(SYS_tgkill, getppid(), getppid(), 0));
	TRY(syscall(SYS_ptrace, PTRACE_ATTACH, getppid(), 0, 0));
	TRY(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
	TRY(syscall(SYS_pidfd_open, getppid(), 0));
	TRY(setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 0 }));
	TRY(syscall(SYS_io_uring_setup, 1, NULL));
	TRY(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	TRY(mprotect((void *)((uintptr_t)&words & ~4095UL), 4096, PROT_READ | PROT_EXEC));
	TRY(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0));
	return error;
}

static void test_refused(void **state)
{
	char name[] = "/tmp/dt-reader-XXXXXX";
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(run(tries, name, NULL), "");
	assert_int_equal(unlink(name), 0);
}

static struct error *shows_itself(struct view_reader *reader, void *context)
{
	struct error *error = begin(reader);
	_cleanup_close_ int fd = open("/proc/self/status", O_RDONLY);
	_cleanup_free_ char *text = fd >= 0 ? proc_status_slurp(fd, NULL) : NULL;

	if (!error && text && strstr(text, "\nNoNewPrivs:\t1\n") &&
	    strstr(text, "\nSeccomp:\t2\n") &&
	    (strstr(text, "\nCapEff:\t0000000000000000\n") ||
	     strstr(text, "\nCapEff:\t0000000000000004\n")))
		return NULL;
	return error ? error : error_new(ERROR_FAILED, "%s", text ? text : "no text");
}

static void test_no_rights(void **state)
{
	assert_string_equal(run(shows_itself, NULL, NULL), "");
}

/* ---- lies ------------------------------------------------------------------------------------ */

/* X2: every byte of the page. */
static struct error *lies(struct view_reader *reader, void *context)
{
	memset(reader, *(int *)context, sizeof(*reader));
	raise(SIGKILL);
	return NULL;
}

static struct error *lies_and_succeeds(struct view_reader *reader, void *context)
{
	memset(reader, *(int *)context, sizeof(*reader));
	reader->is_done = true;
	_exit(0);
}

static void test_lies(void **state)
{
	char printed[4096];

	for (int byte = 0; byte < 256; byte += 51) {
		assert_non_null(strstr(run(lies, &byte, printed), "the trace 'T' is damaged: "));
		run(lies_and_succeeds, &byte, NULL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_success),	  cmocka_unit_test(test_error),
		cmocka_unit_test(test_crash),	  cmocka_unit_test(test_exit),
		cmocka_unit_test(test_memory),	  cmocka_unit_test(test_busy),
		cmocka_unit_test(test_progress),  cmocka_unit_test(test_idle),
		cmocka_unit_test(test_pager),	  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_rights), cmocka_unit_test(test_lies),
		cmocka_unit_test(test_more_than_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
