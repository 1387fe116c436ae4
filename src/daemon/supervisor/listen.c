/*
 * listen.c - the daemon's sockets, its lock and its folders.
 *
 * The daemon holds a flock on PATH.lock as long as it lives, however it ends. The next daemon that
 * gets the lock replaces the socket. PATH.d is the supervisor's own folder.
 */
#include "listen.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "daemon/base/log.h"
#include "daemon/base/notify.h"
#include "supervisor.h"

#define GROUP_DEFAULT "dyntrace"
#define BACKLOG 4096

static struct error *find_group(struct supervisor *supervisor)
{
	const char *name = supervisor->options.group ? supervisor->options.group : GROUP_DEFAULT;

	if (supervisor->self.uid != 0 && !supervisor->options.group)
		return NULL;
	const struct group *group = getgrnam(name);
	bool is_number = !group && *name && !name[strspn(name, "0123456789")];
	if (!group && !is_number && supervisor->options.group)
		return error_new(ERROR_FAILED, "no group '%s'", name);
	if (!group && !is_number) {
		log_line("no group '%s': only root may connect ('groupadd %s' makes it)", name,
			 name);
		return NULL;
	}
	supervisor->has_group = true;
	supervisor->group = group ? group->gr_gid : (gid_t)strtoul(name, NULL, 10);
	return NULL;
}

/* ---- folders --------------------------------------------------------------------------------- */

static struct error *make_folder(const char *path, mode_t mode)
{
	struct stat stat_of;

	if (mkdir(path, mode) && errno != EEXIST)
		return error_errno(errno, "cannot make the directory %s", path);
	if (stat(path, &stat_of) || !S_ISDIR(stat_of.st_mode))
		return error_new(ERROR_FAILED, "%s isn't a directory", path);
	return NULL;
}

/* No other user can have put anything in there. */
static struct error *make_own_folder(const char *path)
{
	struct stat stat_of;
	struct error *error = make_folder(path, 0700);

	if (error)
		return error;
	if (lstat(path, &stat_of) || !S_ISDIR(stat_of.st_mode) || stat_of.st_uid != geteuid() ||
	    (stat_of.st_mode & 077))
		return error_new(ERROR_FAILED,
				 "%s must be a directory of the daemon's user with mode 700", path);
	return NULL;
}

static struct error *make_run_dir(struct supervisor *supervisor)
{
	static const char *const inner[] = { "", "/workers", "/targets" };
	struct error *error = NULL;

	if (asprintf(&supervisor->run_dir, "%s.d", supervisor->options.socket) < 0) {
		supervisor->run_dir = NULL;
		return error_new(ERROR_FAILED, "out of memory");
	}
	for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]) && !error; i++) {
		_cleanup_free_ char *path = NULL;

		if (asprintf(&path, "%s%s", supervisor->run_dir, inner[i]) < 0)
			return error_new(ERROR_FAILED, "out of memory");
		error = make_own_folder(path);
	}
	return error;
}

/* mkdir -p; the last folder gets the mode. */
static struct error *make_path(const char *path, mode_t mode)
{
	_cleanup_free_ char *copy = strdup(path);

	if (!copy)
		return error_new(ERROR_FAILED, "out of memory");
	for (char *slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(copy, 0755) && errno != EEXIST)
			return error_errno(errno, "cannot make the directory %s", copy);
		*slash = '/';
	}
	return make_folder(path, mode);
}

/*
 * The default folder of traces. Keepers make the traces with their client's rights, so members of
 * the group must be able to make directories there, but not to touch each other's. A folder that
 * exists stays as it is.
 */
static struct error *make_output(struct supervisor *supervisor)
{
	const char *path = supervisor->options.output;

	if (!access(path, F_OK))
		return make_folder(path, 0700);
	struct error *error = make_path(path, 0700);
	if (error || !supervisor->has_group)
		return error;
	if (chown(path, (uid_t)-1, supervisor->group) || chmod(path, 01770))
		return error_errno(errno, "cannot open %s to the daemon's group", path);
	return NULL;
}

/* ---- the socket ------------------------------------------------------------------------------ */

static struct error *take_lock(struct supervisor *supervisor)
{
	_cleanup_free_ char *path = NULL;

	if (asprintf(&path, "%s.lock", supervisor->options.socket) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_errno(errno, "cannot make %s", path);
	supervisor->lock_fd = fd;
	if (!flock(fd, LOCK_EX | LOCK_NB))
		return NULL;
	if (errno != EWOULDBLOCK)
		return error_errno(errno, "cannot lock %s", path);
	return error_new(ERROR_FAILED, "a daemon runs already at %s ('dyntrace status' asks it)",
			 supervisor->options.socket);
}

/* Nobody can connect before `hear`: the mode is set between the two. */
static struct error *bind_socket(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_errno(errno, "socket");
	if (strlen(path) + strlen(".d/workers/4194304.sock") >= sizeof(address.sun_path))
		return error_new(ERROR_FAILED, "the socket's name is too long: %s", path);
	strcpy(address.sun_path, path);
	unlink(path);
	mode_t mask = umask(0177);
	int failed = bind(fd, (struct sockaddr *)&address, sizeof(address)) ? errno : 0;
	umask(mask);
	if (failed)
		return error_errno(failed, "cannot make the socket %s", path);
	*ret_fd = take_fd(&fd);
	return NULL;
}

static struct error *hear(int fd, const char *path)
{
	return listen(fd, BACKLOG) ? error_errno(errno, "cannot make the socket %s", path) : NULL;
}

static struct error *make_socket(struct supervisor *supervisor)
{
	const char *path = supervisor->options.socket;
	struct error *error = bind_socket(path, &supervisor->listener.fd);

	if (error)
		return error;
	if (supervisor->has_group &&
	    (chown(path, (uid_t)-1, supervisor->group) || chmod(path, 0660)))
		return error_errno(errno, "cannot open %s to the daemon's group", path);
	return hear(supervisor->listener.fd, path);
}

static char *agents_path(const struct supervisor *supervisor)
{
	char *path = NULL;

	return asprintf(&path, "%s" WIRE_SOCKET_AGENTS, supervisor->options.socket) < 0 ? NULL :
											  path;
}

/* Linked and preloaded agents of all users register there, and can do nothing else. A user's own
 * daemon has one user, and needs none. */
static struct error *make_agents_socket(struct supervisor *supervisor)
{
	_cleanup_free_ char *path = agents_path(supervisor);

	if (supervisor->self.uid != 0)
		return NULL;
	struct error *error = path ? bind_socket(path, &supervisor->agents.fd) :
				     error_new(ERROR_FAILED, "out of memory");
	if (!error && chmod(path, 0666))
		error = error_errno(errno, "cannot open %s to all", path);
	/* accepted sockets have it too: the sender of each message is known, not who connected */
	if (!error &&
	    setsockopt(supervisor->agents.fd, SOL_SOCKET, SO_PASSCRED, &(int){ 1 }, sizeof(int)))
		error = error_errno(errno, "SO_PASSCRED");
	return error ? error : hear(supervisor->agents.fd, path);
}

/* The log of a daemon in the background is beside the socket, unless it is named. */
static struct error *open_log(const struct supervisor_options *options)
{
	_cleanup_free_ char *path = NULL;

	if (options->log || !options->daemonized)
		return log_open(options->log);
	if (asprintf(&path, "%s.log", options->socket) < 0)
		return error_new(ERROR_FAILED, "out of memory");
	return log_open(path);
}

struct error *listen_open(struct supervisor *supervisor)
{
	assert(supervisor->options.socket[0] == '/' && supervisor->options.output[0] == '/');
	_cleanup_free_ char *copy = strdup(supervisor->options.socket);
	int inherited = notify_inherited_socket();

	struct error *error =
		copy ? make_path(dirname(copy), 0755) : error_new(ERROR_FAILED, "out of memory");
	if (!error)
		error = take_lock(supervisor);
	if (!error)
		error = open_log(&supervisor->options);
	if (!error)
		error = find_group(supervisor);
	if (!error)
		error = make_run_dir(supervisor);
	if (!error)
		error = make_output(supervisor);
	if (!error)
		/* before the daemon's own: a client that can connect finds both */
		error = make_agents_socket(supervisor);
	if (!error && inherited >= 0)
		supervisor->listener.fd = inherited;
	else if (!error)
		error = make_socket(supervisor);
	return error;
}

/* The lock's file stays: removing it would let two daemons have a lock each. */
void listen_close(struct supervisor *supervisor)
{
	_cleanup_free_ char *waiting = NULL, *agents = agents_path(supervisor);

	if (supervisor->listener.fd >= 0)
		close(take_fd(&supervisor->listener.fd));
	if (supervisor->agents.fd >= 0)
		close(take_fd(&supervisor->agents.fd));
	if (agents)
		unlink(agents);
	if (notify_inherited_socket() < 0)
		unlink(supervisor->options.socket);
	if (asprintf(&waiting, "%s/waiting", supervisor->run_dir) >= 0)
		unlink(waiting);
	close(take_fd(&supervisor->lock_fd));
}
