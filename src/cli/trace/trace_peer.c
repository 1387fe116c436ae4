#include "trace_peer.h"

#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/proc/proc_guise.h"

/* Gives the address's length. */
static socklen_t address_of(pid_t pid, struct sockaddr_un *ret_address)
{
	*ret_address = (struct sockaddr_un){ .sun_family = AF_UNIX };
	/* behind a NUL: an abstract name, which is gone with its process */
	int length = snprintf(ret_address->sun_path + 1, sizeof(ret_address->sun_path) - 1,
			      "dyntrace-trace-%d", pid);

	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool is_same_namespace(pid_t pid)
{
	struct stat ours, theirs;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/user", pid);
	return !stat("/proc/self/ns/user", &ours) && !stat(path, &theirs) &&
	       ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

/* Has the process our rights, and does it run our program? `pidfd` is one of the process. */
static bool is_like_us(pid_t pid, int pidfd)
{
	char ours[PROC_GUISE_SIZE], theirs[PROC_GUISE_SIZE];
	struct pollfd ended = { .fd = pidfd, .events = POLLIN };
	_cleanup_error_ struct error *error = proc_guise_read(getpid(), ours);

	if (!error)
		error = proc_guise_read(pid, theirs);
	if (error || strcmp(ours, theirs) || !is_same_namespace(pid))
		return false;
	return poll(&ended, 1, 0) == 0; /* else another one may have the pid by now */
}

/* The process at the other end, if it is one like us; -1: it isn't. */
static int check(int fd, pid_t wanted)
{
	struct ucred who = { 0 };
	socklen_t size = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || who.pid <= 0 ||
	    who.uid != geteuid() || (wanted && who.pid != wanted))
		return -1;
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, who.pid, 0);
	return pidfd >= 0 && is_like_us(who.pid, pidfd) ? take_fd(&pidfd) : -1;
}

int trace_peer_listen(void)
{
	struct sockaddr_un address;
	socklen_t length = address_of(getpid(), &address);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) || listen(fd, 8))
		return -1;
	return take_fd(&fd);
}

int trace_peer_accept(int listener, int *ret_pidfd)
{
	_cleanup_close_ int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	int pidfd = fd < 0 ? -1 : check(fd, 0);

	if (pidfd < 0)
		return -1;
	*ret_pidfd = pidfd;
	return take_fd(&fd);
}

int trace_peer_connect(pid_t controller, int *ret_pidfd)
{
	struct sockaddr_un address;
	socklen_t length = address_of(controller, &address);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, length))
		return -1;
	int pidfd = check(fd, controller);
	if (pidfd < 0)
		return -1;
	*ret_pidfd = pidfd;
	return take_fd(&fd);
}
