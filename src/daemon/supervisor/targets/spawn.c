/*
 * spawn.c - this program again, with other rights.
 *
 * A worker gets the rights of the target's user, and CAP_SYS_NICE to keep stops short. With
 * --all-targets, the worker of a process for which its user's rights aren't enough stays root. A
 * keeper gets the rights of the client's user and nothing else. Both lose the way back
 * (no_new_privs). Between fork and exec only system calls are made that can't wait.
 *
 * Descriptor 3 of both is their socket. Descriptor 4 of a worker is the agent's file, which its
 * user might not be able to reach by name; the program itself is run through a descriptor for the
 * same reason. Descriptor 6 of a worker is for questions about its target's filters (asker.h).
 */
#include "spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/agent/agent_path.h"
#include "control/base/cleanup.h"
#include "control/fence/filters.h"
#include "daemon/asker/asker.h"
#include "daemon/supervisor/requests/permissions.h"
#include "daemon/supervisor/supervisor.h"
#include "target.h"

#define WORKER_MEMORY (4ULL << 30)
#define KEEPER_MEMORY (64ULL << 20)
#define ASKER_MEMORY (64ULL << 20)
#define ASKER_SOCKET "asker.sock" /* beside the daemon's; share/dyntraced-asker.socket.in */
#define FAILED_TO_START 125
/* Supervisors that die while the worker is stopped, or has no processor, leave connections behind.
 * A worker without room for another one would be taken for dead, and replaced while it lives. */
#define WORKER_BACKLOG 4096

enum { SOCKET_FD = 3, AGENT_FD = 4, PROGRAM_FD = 5, ASKER_FD = 6, FIRST_FREE_FD = 7 };

struct start {
	const struct identity *who;
	uint64_t capabilities; /* to keep */
	uint64_t memory;
	int fds[FIRST_FREE_FD]; /* -1: none */
	char *const *words;
};

char *spawn_socket_path(const struct supervisor *supervisor, pid_t pid)
{
	char *path = NULL;

	return asprintf(&path, "%s/workers/%d.sock", supervisor->run_dir, pid) < 0 ? NULL : path;
}

/* ---- the child ------------------------------------------------------------------------------- */

static bool set_capabilities(uint64_t wanted)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		uint32_t bits = (uint32_t)(wanted >> (32 * i));

		data[i] = (struct __user_cap_data_struct){ bits, bits, bits };
	}
	if (syscall(SYS_capset, &header, data))
		return false;
	for (unsigned bit = 0; bit < 64; bit++) {
		if ((wanted >> bit) & 1 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, bit, 0, 0))
			return false;
	}
	return true;
}

/* From root to the user. A daemon that isn't root has only its own user. */
static bool become(const struct start *start)
{
	const struct identity *who = start->who;

	if (geteuid() != 0 || who->uid == 0)
		return true;
	if (prctl(PR_SET_KEEPCAPS, start->capabilities != 0, 0, 0, 0) ||
	    setgroups(who->group_count, who->groups) || setresgid(who->gid, who->gid, who->gid) ||
	    setresuid(who->uid, who->uid, who->uid))
		return false;
	return !start->capabilities || set_capabilities(start->capabilities);
}

static bool arrange_fds(const struct start *start)
{
	int kept[FIRST_FREE_FD];

	/* First above FIRST_FREE_FD, so that none is put over another. */
	for (int i = 0; i < FIRST_FREE_FD; i++)
		kept[i] = start->fds[i] < 0 ? -1 :
					      fcntl(start->fds[i], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
	for (int i = 0; i < FIRST_FREE_FD; i++) {
		if (kept[i] < 0)
			close(i);
		else if (dup2(kept[i], i) < 0)
			return false;
	}
	return syscall(SYS_close_range, FIRST_FREE_FD, ~0U, 0) == 0 &&
	       fcntl(PROGRAM_FD, F_SETFD, FD_CLOEXEC) == 0;
}

__attribute__((noreturn)) static void run_child(const struct start *start)
{
	struct rlimit memory = { start->memory, start->memory }, core = { 0, 0 };
	sigset_t none;
	char *environment[] = { (char *)"DYNTRACE_AGENT=/proc/self/fd/4",
				(char *)"PATH=/usr/bin:/bin", NULL };

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN);
	setsid();
	if (arrange_fds(start) && become(start) && !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	    !setrlimit(RLIMIT_DATA, &memory) && !setrlimit(RLIMIT_CORE, &core))
		syscall(SYS_execveat, PROGRAM_FD, "", start->words, environment, AT_EMPTY_PATH);
	_exit(FAILED_TO_START);
}

/* ---- the parent ------------------------------------------------------------------------------ */

static struct error *spawn(struct start *start, pid_t *ret_pid)
{
	_cleanup_close_ int program = open("/proc/self/exe", O_PATH | O_CLOEXEC);
	_cleanup_close_ int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (program < 0 || nothing < 0)
		return error_errno(errno, "cannot start a helper process");
	/* Not even stderr, the log or root's terminal: a helper belongs to its user (H34). */
	start->fds[STDIN_FILENO] = start->fds[STDOUT_FILENO] = nothing;
	if (start->fds[STDERR_FILENO] <= 0) /* a worker has a pipe */
		start->fds[STDERR_FILENO] = nothing;
	start->fds[PROGRAM_FD] = program;
	assert(start->who && start->words[0] && start->fds[SOCKET_FD] >= 0);
	pid_t pid = fork();
	if (pid == 0)
		run_child(start);
	if (pid < 0)
		return error_errno(errno, "cannot start a helper process");
	*ret_pid = pid;
	return NULL;
}

static struct error *make_listener(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		return error_new(ERROR_FAILED, "the socket's name is too long: %s", path);
	strcpy(address.sun_path, path);
	unlink(path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(fd, WORKER_BACKLOG))
		return error_errno(errno, "cannot make the socket %s", path);
	*ret_fd = take_fd(&fd);
	return NULL;
}

struct error *spawn_connect(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (strlen(path) >= sizeof(address.sun_path))
		return error_new(ERROR_FAILED, "the socket's name is too long: %s", path);
	strcpy(address.sun_path, path);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		return error_errno(errno, "cannot reach the worker at %s", path);
	*ret_fd = take_fd(&fd);
	return NULL;
}

static struct error *open_agent(int *ret_fd)
{
	_cleanup_free_ char *path = NULL;
	struct error *error = agent_find(&path);

	if (error)
		return error;
	*ret_fd = open(path, O_RDONLY | O_CLOEXEC);
	return *ret_fd < 0 ? error_errno(errno, "cannot open %s", path) : NULL;
}

/* Makes a pipe for the words of an assert, or of the C library, that ends the worker. Never blocks
 * the worker, and whoever gets hold of its end can only add to that one line. */
static struct error *make_words_pipe(struct target *target, int *ret_fd)
{
	int ends[2];

	cleanup_close(&target->last_words); /* of a start that failed */
	target->last_words = -1;
	if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
		return error_errno(errno, "cannot start a helper process");
	target->last_words = ends[0];
	*ret_fd = ends[1];
	return NULL;
}

/* An asker of our own needs rights that the supervisor has only without systemd's sandbox. In it,
 * systemd starts the asker, with another sandbox. -1: neither works. */
static int find_asker(const struct supervisor *supervisor)
{
	char *words[] = { (char *)"dyntraced", (char *)"--asker", NULL };
	const char *socket = supervisor->options.socket, *slash = strrchr(socket, '/');
	_cleanup_free_ char *path = NULL;
	struct start start = { .who = &supervisor->self, .memory = ASKER_MEMORY, .words = words };
	int ends[2];
	pid_t pid;

	if (supervisor->self.uid != 0 || !slash)
		return -1;
	if (!filters_may_read())
		return asprintf(&path, "%.*s/" ASKER_SOCKET, (int)(slash - socket), socket) < 0 ?
			       -1 :
			       asker_connect(path);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		return -1;
	start.fds[SOCKET_FD] = ends[1];
	start.fds[AGENT_FD] = start.fds[ASKER_FD] = -1;
	_cleanup_error_ struct error *error = spawn(&start, &pid);
	close(ends[1]);
	if (!error)
		return ends[0];
	close(ends[0]);
	return -1;
}

/* A socket for questions about the process; -1: nobody can be asked. */
static int make_question(struct supervisor *supervisor, pid_t pid)
{
	if (supervisor->asker >= 0 && asker_is_gone(supervisor->asker))
		close(take_fd(&supervisor->asker));
	if (supervisor->asker < 0)
		supervisor->asker = find_asker(supervisor);
	return supervisor->asker < 0 ? -1 : asker_hand(supervisor->asker, pid);
}

struct error *spawn_worker(struct supervisor *supervisor, struct target *target, int *ret_fd)
{
	char pid[16];
	char *words[] = { (char *)"dyntraced", (char *)"--worker", pid, NULL };
	_cleanup_free_ char *path = spawn_socket_path(supervisor, target->pid);
	_cleanup_close_ int listener = -1, agent = -1, words_end = -1, question = -1;
	struct identity nobody_else = { .uid = 0 };

	if (!path)
		return error_new(ERROR_FAILED, "out of memory");
	assert(!target->has_worker);
	snprintf(pid, sizeof(pid), "%d", target->pid);
	struct start start = { .who = permissions_needs_root(target, &target->process) ?
					      &nobody_else :
					      &target->process.user,
			       .capabilities = 1ULL << CAP_SYS_NICE,
			       .memory = WORKER_MEMORY,
			       .words = words };
	struct error *error = open_agent(&agent);
	if (!error)
		error = make_listener(path, &listener);
	if (!error)
		error = make_words_pipe(target, &words_end);
	start.fds[SOCKET_FD] = listener;
	start.fds[AGENT_FD] = agent;
	start.fds[STDERR_FILENO] = words_end;
	start.fds[ASKER_FD] = question = make_question(supervisor, target->pid);
	if (!error)
		error = spawn(&start, &target->worker);
	if (error)
		return error;
	assert(target->worker_fd < 0);
	target->worker_fd = pidfd_open(target->worker, 0);
	return spawn_connect(path, ret_fd);
}

struct error *spawn_keeper(const struct identity *who, const char *folder, const char *name,
			   enum keeper_way way, int *ret_fd)
{
	static const char *const ways[] = { [KEEPER_NUMBERED] = "--keeper",
					    [KEEPER_EXACT] = "--keeper-exact",
					    [KEEPER_AGAIN] = "--keeper-again" };
	assert(way < sizeof(ways) / sizeof(ways[0]));
	char *words[] = { (char *)"dyntraced", (char *)ways[way], (char *)folder, (char *)name,
			  NULL };
	struct start start = { .who = who, .memory = KEEPER_MEMORY, .words = words };
	int ends[2];
	pid_t pid;

	assert(folder[0] == '/' && name[0] && !strchr(name, '/'));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		return error_errno(errno, "socketpair");
	start.fds[SOCKET_FD] = ends[1];
	start.fds[AGENT_FD] = start.fds[ASKER_FD] = -1;
	struct error *error = spawn(&start, &pid);
	close(ends[1]);
	if (error)
		close(ends[0]);
	else
		*ret_fd = ends[0];
	return error;
}
