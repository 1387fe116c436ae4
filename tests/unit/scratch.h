/*
 * scratch.h - programs made for a test: written, compiled, run and removed.
 *
 * Header only. All files lie in one directory, which is removed at the end.
 * Started programs write a byte to descriptor 3 when they are ready and run until
 * descriptor 4 ends.
 */
#ifndef DYNTRACE_TESTS_SCRATCH_H
#define DYNTRACE_TESTS_SCRATCH_H

#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "place.h"

#define SCRATCH_READY                                                                              \
	"#include <unistd.h>\nstatic void ready(void) { char c = 0; "                              \
	"if (write(3, &c, 1) == 1) while (read(4, &c, 1) > 0) ; }\n"

static char scratch_directory[64];

static inline int scratch_setup(void **state)
{
	(void)state;
	snprintf(scratch_directory, sizeof(scratch_directory), "%s/dyntrace-test-XXXXXX",
		 place_disk());
	return mkdtemp(scratch_directory) && chmod(scratch_directory, 0755) == 0 ? 0 : -1;
}

__attribute__((format(printf, 1, 2))) static inline int scratch_try(const char *format, ...)
{
	char command[2048];
	va_list arguments;
	int n = snprintf(command, sizeof(command), "cd %s && ", scratch_directory);

	va_start(arguments, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, arguments);
	va_end(arguments);
	return system(command);
}

#define scratch_run(...) assert_int_equal(scratch_try(__VA_ARGS__), 0)

static inline int scratch_teardown(void **state)
{
	(void)state;
	return scratch_try("rm -rf %s", scratch_directory);
}

/* What a shell command prints, up to 64 KiB; lives until the next call. */
__attribute__((format(printf, 1, 2))) static inline const char *scratch_output(const char *format,
									       ...)
{
	static char text[65536];
	char command[2048];
	va_list arguments;
	int n = snprintf(command, sizeof(command), "cd %s && ", scratch_directory);

	va_start(arguments, format);
	vsnprintf(command + n, sizeof(command) - (size_t)n, format, arguments);
	va_end(arguments);

	FILE *pipe = popen(command, "r");
	size_t length = pipe ? fread(text, 1, sizeof(text) - 1, pipe) : 0;

	text[length] = '\0';
	if (pipe)
		pclose(pipe);
	return text;
}

static inline const char *scratch_path(const char *name)
{
	static char path[512];

	if (name[0] == '/')
		return name;
	snprintf(path, sizeof(path), "%s/%s", scratch_directory, name);
	return path;
}

static inline void scratch_write(const char *name, const void *bytes, size_t size)
{
	FILE *file = fopen(scratch_path(name), "w");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, size, file), size);
	fclose(file);
}

static inline void scratch_text(const char *name, const char *text)
{
	scratch_write(name, text, strlen(text));
}

struct scratch_process {
	pid_t pid;
	int go; /* closing it lets the program end */
};

/* Starts a program of the directory and waits until it is ready. `before` runs in the child, before
 * exec. */
static inline struct scratch_process scratch_start(const char *name, void (*before)(void))
{
	struct scratch_process process;
	char path[512], byte;
	int ready[2], go[2];

	snprintf(path, sizeof(path), "%s", scratch_path(name));
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	assert_int_equal(pipe2(go, O_CLOEXEC), 0);
	process.pid = fork();
	assert_true(process.pid >= 0);
	if (process.pid == 0) {
		int ready_copy = fcntl(ready[1], F_DUPFD, 10), go_copy = fcntl(go[0], F_DUPFD, 10);

		if (before)
			before();
		dup2(ready_copy, 3);
		dup2(go_copy, 4);
		close(ready_copy);
		close(go_copy);
		execl(path, path, NULL);
		execl(name, name, NULL); /* where `before` changed the root */
		_exit(127);
	}
	close(ready[1]);
	close(go[0]);
	process.go = go[1];
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return process;
}

static inline void scratch_end(struct scratch_process *process)
{
	int status;

	close(process->go);
	assert_int_equal(waitpid(process->pid, &status, 0), process->pid);
	assert_true(WIFEXITED(status));
}

#endif
