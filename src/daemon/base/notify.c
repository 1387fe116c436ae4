#include "notify.h"

#include <assert.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3

void notify_manager(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	assert(strchr(state, '='));
	if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof(address.sun_path))
		return;
	memcpy(address.sun_path, path, strlen(path));
	if (path[0] == '@')
		address.sun_path[0] = '\0';
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return;
	socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path));
	(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
	close(fd);
}

int notify_inherited_socket(void)
{
	static int found = -2;
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");

	if (found != -2)
		return found;
	found = -1;
	if (pid && count && atoi(pid) == getpid() && atoi(count) >= 1) {
		found = FIRST_FD;
		fcntl(found, F_SETFD, FD_CLOEXEC);
		fcntl(found, F_SETFL, fcntl(found, F_GETFL) | O_NONBLOCK);
	}
	return found;
}
