/* Lines of logs: no file makes the writer wait, whatever its reader does, and every line is counted
 * as written or as left out. A wait would be for ever: nobody reads here. */
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/base/cleanup.h"
#include "control/base/interrupt.h"
#include "control/tracers/log/logfile.h"

#define LONG_LINE 9000 /* more than a pipe takes at once */

static const struct clock_estimate estimate = { .frequency = 1000000000 };
static char filler[LONG_LINE];

static struct event_type type = { .name = (char *)"hit", .is_variable = true };
static struct event_types types = { .items = &type, .count = 1 };

/* A line of that length, by a string in the event. */
static void add_line(struct logfile *log, uint64_t clock)
{
	static struct event_field field = { .name = "text", .type = FIELD_STRING };
	uint64_t words[1 + LONG_LINE / 8] = { 0 };

	type.fields = &field;
	type.field_count = 1;
	memcpy(words + 1, filler, sizeof(filler));
	logfile_add(log, &(struct line_event){ .tid = 7,
					       .words = words,
					       .count = sizeof(words) / 8,
					       .clock = clock,
					       .process = "program" });
}

static struct logfile *new_log(int fd)
{
	static struct proc proc = { .comm = "program" };
	struct logfile *log;

	memset(filler, 'x', sizeof(filler) - 1);
	type.left_out = 0;
	assert_null(logfile_open(&proc, &types, "file", fd, &log));
	return log;
}

/* Whole lines that can be read now. */
static size_t take_lines(int fd)
{
	char bytes[65536];
	size_t lines = 0;
	ssize_t n;

	fcntl(fd, F_SETFL, O_NONBLOCK);
	while ((n = read(fd, bytes, sizeof(bytes))) > 0) {
		for (ssize_t i = 0; i < n; i++)
			lines += bytes[i] == '\n';
	}
	return lines;
}

/* Fills the file, takes some, fills it again, and gives up; twice: a line that was partly written
 * when the first was given up must not be missed by the second. */
static void check_unread(struct logfile *log, int reader)
{
	size_t added = 0, taken = 0;

	interrupt_request(); /* as after Ctrl-C: no patience at the end */
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 100; i++, added++)
			add_line(log, added);
		logfile_flush(log, &estimate, UINT64_MAX, false);
		taken += take_lines(reader);
		logfile_flush(log, &estimate, UINT64_MAX, false);
		taken += take_lines(reader);
		logfile_flush(log, &estimate, UINT64_MAX, true);
		assert_int_equal(log->lines.count, 0);
		assert_int_equal(log->events.count, 0);
		assert_int_equal(log->written, 0);
	}
	taken += take_lines(reader);
	assert_true(taken > 0 && log->left_out > 0);
	assert_int_equal(taken + log->left_out, added);
	assert_int_equal(type.left_out, log->left_out); /* for list-tracepoints */
	logfile_free(log);
}

static void test_pipe(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	struct logfile *log = new_log(fds[1]);
	assert_int_equal(log->output.way, OUTPUT_PIPE);
	check_unread(log, fds[0]);
	close(fds[0]);
}

/* As with kernels whose pipes don't know RWF_NOWAIT. */
static void test_relay(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	struct logfile *log = new_log(fds[1]);
	log->output.way = OUTPUT_RELAY;
	check_unread(log, fds[0]);
	close(fds[0]);
}

static void test_socket(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	struct logfile *log = new_log(fds[1]);
	assert_int_equal(log->output.way, OUTPUT_SOCKET);
	check_unread(log, fds[0]);
	close(fds[0]);
}

/* The descriptor's flags stay as they are: others have the same description. */
static void test_terminal(void **state)
{
	int master, slave;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	int same = dup(slave);
	struct logfile *log = new_log(slave);
	assert_int_equal(log->output.way, OUTPUT_PLAIN);
	check_unread(log, master);
	assert_false(fcntl(same, F_GETFL) & O_NONBLOCK);
	close(same);
	close(master);
}

/* A terminal that may not be opened again. */
static void test_foreign_terminal(void **state)
{
	int master, slave;

	(void)state;
	assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
	struct logfile *log = new_log(dup(slave));
	output_close(&log->output);
	log->output = (struct output){ slave, OUTPUT_TERMINAL, { -1, -1 } };
	check_unread(log, master);
	close(master);
}

/* Whatever the lengths of lines are: a terminal that is full just behind a line's text has no room
 * for the line's end, which takes two bytes. A write that blocks ends the test by SIGALRM. */
static void test_terminal_never_blocks(void **state)
{
	char line[300];

	(void)state;
	for (size_t length = 1; length < sizeof(line); length++) {
		int master, slave;
		ssize_t written = 1;

		memset(line, 'x', length - 1);
		line[length - 1] = '\n';
		assert_int_equal(openpty(&master, &slave, NULL, NULL, NULL), 0);
		struct output output = { slave, OUTPUT_TERMINAL, { -1, -1 } };
		alarm(20);
		for (int again = 0; again < 3; again++) { /* the kernel moves bytes on meanwhile */
			for (size_t at = 0; written > 0; at = (at + (size_t)written) % length)
				written = output_write(&output, line + at, length - at);
			assert_int_equal(written, -EAGAIN);
			written = 1;
			usleep(100);
		}
		alarm(0);
		output_close(&output);
		close(master);
	}
}

static void test_no_reader(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	struct logfile *log = new_log(fds[1]);
	add_line(log, 1);
	add_line(log, 2);
	logfile_flush(log, &estimate, UINT64_MAX, false);
	assert_int_equal(log->left_out, 2);
	assert_int_equal(log->failed, 0);
	logfile_free(log);
}

static uint64_t vm_size(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%llu", &pages), 1);
	return pages * 4096;
}

/* Runs out of memory while lines wait, and has memory again. */
static int run_short_of_memory(void)
{
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct logfile *log = new_log(fd);
	uint64_t added = 0, left_out;
	struct rlimit limit, former;

	getrlimit(RLIMIT_AS, &former);
	limit = (struct rlimit){ vm_size() + (2u << 20), former.rlim_max };
	setrlimit(RLIMIT_AS, &limit);
	for (; added < 1000; added++)
		add_line(log, added);
	logfile_flush(log, &estimate, 499, false); /* some stay */
	setrlimit(RLIMIT_AS, &former);
	left_out = log->left_out;
	if (!left_out || left_out >= added)
		return 1;
	add_line(log, added);
	logfile_flush(log, &estimate, UINT64_MAX, true);
	if (log->left_out != left_out || log->closed)
		return 2;
	logfile_free(log);
	return 0;
}

static void test_memory(void **state)
{
	int status;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* a sanitizer has no limit of memory */
#endif
	pid_t child = fork();
	if (!child)
		_exit(run_short_of_memory());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),	 cmocka_unit_test(test_pipe),
		cmocka_unit_test(test_relay),	 cmocka_unit_test(test_socket),
		cmocka_unit_test(test_terminal), cmocka_unit_test(test_foreign_terminal),
		cmocka_unit_test(test_terminal_never_blocks),
		cmocka_unit_test(test_no_reader),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
