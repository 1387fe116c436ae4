/*
 * command.c - work of the command `dyntrace`, for a program that uses the library.
 *
 * A process of its own (`dyntrace --answer`) reads foreign files and processes, which may crash it;
 * it answers as the daemon would. The program doesn't notice that process: a child without exit
 * signal starts it and waits for it, so no SIGCHLD comes, and a wait for any child finds neither.
 * (Only waitpid with __WALL or __WCLONE sees such children; execve would make one an ordinary
 * child.)
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/wire/channel.h"
#include "api.h"

#define WORDS_MAX 8

/* ---- the program's path ---------------------------------------------------------------------- */

static bool is_program(const char *path)
{
	struct stat status;

	return !access(path, X_OK) && !stat(path, &status) && !S_ISDIR(status.st_mode);
}

/* From the library's folder: built, or installed in lib or lib/MACHINE. */
static const char *const places[] = { "/dyntrace", "/../bin/dyntrace", "/../../bin/dyntrace" };

static struct error *find_program(char **ret_path)
{
	const char *given = secure_getenv("DYNTRACE_COMMAND");
	_cleanup_free_ char *library = NULL, *path = NULL;
	Dl_info info = { 0 };

	if (given && *given) {
		*ret_path = strdup(given);
		return *ret_path ? NULL : error_new(ERROR_FAILED, "out of memory");
	}
	if (dladdr((void *)&dyntrace_api_version, &info) && info.dli_fname)
		library = realpath(info.dli_fname, NULL);
	char *slash = library ? strrchr(library, '/') : NULL;
	if (slash)
		*slash = '\0';
	for (size_t i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		free(path);
		if (asprintf(&path, "%s%s", library, places[i]) < 0) {
			path = NULL;
			return error_new(ERROR_FAILED, "out of memory");
		}
		if (is_program(path)) {
			*ret_path = take_ptr(&path);
			return NULL;
		}
	}
	return error_new(
		ERROR_FAILED,
		"the command dyntrace is neither beside libdyntrace.so nor in a folder bin near it "
		"(set DYNTRACE_COMMAND=FILE)");
}

/* ---- its start ------------------------------------------------------------------------------- */

struct start {
	const char *path;
	char *argv[WORDS_MAX + 3];
	sigset_t mask; /* the caller's */
	int answer; /* becomes its stdout */
	int nothing; /* /dev/null: becomes its stdin and stderr */
};

/* The program's signal handlers must not run in the child. */
static void default_signals(void)
{
	struct sigaction action;

	for (int number = 1; number < NSIG; number++) {
		if (sigaction(number, NULL, &action) || action.sa_handler == SIG_IGN)
			continue;
		action = (struct sigaction){ .sa_handler = SIG_DFL };
		sigaction(number, &action, NULL);
	}
}

/* Runs in the program's child. After vfork a failure of execv comes back in `error`. */
static void begin_program(struct start *start)
{
	volatile int error = 0;

	default_signals();
	if (dup2(start->nothing, STDIN_FILENO) < 0 || dup2(start->nothing, STDERR_FILENO) < 0 ||
	    dup2(start->answer, STDOUT_FILENO) < 0)
		_exit(errno);
	/* Nothing else of the program's is for the helper (H34). */
	if (close_range(STDERR_FILENO + 1, UINT_MAX, CLOSE_RANGE_CLOEXEC))
		_exit(errno);
	sigprocmask(SIG_SETMASK, &start->mask, NULL);
	pid_t pid = vfork();
	if (pid == 0) {
		execv(start->path, start->argv);
		error = errno;
		_exit(1);
	}
	if (pid < 0)
		_exit(errno);
	close_range(0, UINT_MAX, 0);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	_exit(error);
}

/* A fork without exit signal, and without the program's pthread_atfork handlers. */
static struct error *run_start(struct start *start, pid_t *ret_pid)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &start->mask);
	long pid = syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
	int number = errno;
	if (pid == 0)
		begin_program(start);
	pthread_sigmask(SIG_SETMASK, &start->mask, NULL);
	if (pid < 0)
		return error_errno(number, "cannot run %s", start->path);
	*ret_pid = (pid_t)pid;
	return NULL;
}

/* Moves the descriptor above stderr: dup2 must not overwrite it. */
static struct error *lift(int *fd)
{
	int higher = fcntl(*fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	if (higher < 0)
		return error_errno(errno, "cannot run dyntrace");
	close(*fd);
	*fd = higher;
	return NULL;
}

static struct error *start_program(const char *path, const char *const *words, pid_t *ret_pid,
				   int *ret_fd)
{
	_cleanup_close_ int ours = -1, answer = -1, nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
	struct start start = { .path = path, .argv = { "dyntrace", "--answer" } };
	int pair[2];

	if (nothing < 0)
		return error_errno(errno, "cannot open /dev/null");
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return error_errno(errno, "socketpair");
	ours = pair[0];
	answer = pair[1];
	for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
		start.argv[i + 2] = (char *)words[i];
	struct error *error = lift(&answer);
	if (!error)
		error = lift(&nothing);
	start.answer = answer;
	start.nothing = nothing;
	if (!error)
		error = run_start(&start, ret_pid);
	if (!error)
		*ret_fd = take_fd(&ours);
	return error;
}

/* ---- its answer ------------------------------------------------------------------------------ */

static struct error *read_answer(struct dyntrace *dyntrace, struct channel *channel,
				 struct dyntrace_list *list)
{
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };
	struct error *error = NULL;
	struct wire_message message;

	while (!error) {
		if (channel_next(channel, &message)) {
			if (message.kind == WIRE_REPLY)
				return wire_reply_error(&message);
			error = api_take(dyntrace, list, &message);
		} else if (channel->broken) {
			error = error_new(ERROR_FAILED, "cannot understand dyntrace's answer: %s",
					  error_text(channel->broken));
		} else if (channel->ended) {
			error = error_new(ERROR_FAILED, "dyntrace ended without an answer");
		} else {
			poll(&ready, 1, -1);
			channel_fill(channel);
		}
	}
	return error;
}

struct error *command_ask(struct dyntrace *dyntrace, const char *const *words,
			  struct dyntrace_list *list)
{
	_cleanup_free_ char *path = NULL;
	struct channel channel;
	int fd = -1, status = 0;
	pid_t pid = -1;
	struct error *error = find_program(&path);

	if (!error)
		error = start_program(path, words, &pid, &fd);
	if (error)
		return error;
	channel_open(&channel, fd, WIRE_MESSAGE_MAX, 0);
	error = read_answer(dyntrace, &channel, list);
	channel_close(&channel);
	while (waitpid(pid, &status, __WALL) < 0 && errno == EINTR)
		;
	if (error && WIFEXITED(status) && WEXITSTATUS(status)) { /* execv failed */
		error_free(error);
		error = error_errno(WEXITSTATUS(status), "cannot run %s", path);
	}
	return error;
}
