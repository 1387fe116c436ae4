#include "client.h"

#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "control/base/cleanup.h"
#include "control/wire/channel.h"

struct client {
	struct channel channel;
	struct wire_out out;
	char *path;
	uint32_t sequence;
};

/* ---- the socket's path ----------------------------------------------------------------------- */

/* Without XDG_RUNTIME_DIR (su, cron): the folder that it would name; else one in /tmp, which the
 * daemon makes for itself alone. */
static char *user_path(void)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");
	char *path = NULL, usual[64];
	struct stat st;

	if (folder && folder[0] == '/')
		return asprintf(&path, "%s/%s", folder, WIRE_SOCKET_USER) < 0 ? NULL : path;
	snprintf(usual, sizeof(usual), "/run/user/%u", geteuid());
	if (stat(usual, &st) || st.st_uid != geteuid())
		snprintf(usual, sizeof(usual), "/tmp/dyntrace-%u", geteuid());
	return asprintf(&path, "%s/%s", usual, WIRE_SOCKET_USER) < 0 ? NULL : path;
}

/* Is the folder in /tmp this user's own? Another user could have made it, to listen there. */
static struct error *check_folder(const char *path)
{
	char folder[64];
	struct stat st;

	snprintf(folder, sizeof(folder), "/tmp/dyntrace-%u", geteuid());
	if (strncmp(path, folder, strlen(folder)) || lstat(folder, &st))
		return NULL;
	if (S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077))
		return NULL;
	return error_new(ERROR_FAILED,
			 "%s is not a directory of yours alone (remove it, set XDG_RUNTIME_DIR, or "
			 "give --socket PATH)",
			 folder);
}

struct error *client_socket_path(const char *given, char **ret_path)
{
	const char *named = given ? given : getenv(WIRE_SOCKET_ENV);
	char *path;

	if (named && *named)
		path = strdup(named);
	else if (geteuid() == 0)
		path = strdup(WIRE_SOCKET_ROOT);
	else
		path = user_path();
	if (!path)
		return error_new(ERROR_FAILED, "out of memory");
	struct error *error = named && *named ? NULL : check_folder(path);
	if (error)
		free(path);
	else
		*ret_path = path;
	return error;
}

/* ---- connection ------------------------------------------------------------------------------ */

static struct error *no_daemon(const char *path)
{
	return error_new(
		ERROR_FAILED,
		"no daemon answers at %s (start one with 'dyntraced --daemonize'%s, or use 'dyntrace trace', which needs none)",
		path,
		geteuid() == 0 ? "" :
				 ", as root for all users or as yourself for your own processes");
}

/* Names the daemon's group, which owns the socket, or the folder if that is closed to others. */
static struct error *not_permitted(const char *path)
{
	_cleanup_free_ char *folder = strdup(path);
	char *slash = folder ? strrchr(folder, '/') : NULL;
	struct stat st = { 0 };

	if (slash)
		*slash = '\0';
	if (stat(path, &st) && slash && stat(folder, &st))
		st.st_gid = 0;
	if (!st.st_gid)
		return error_new(ERROR_NOT_PERMITTED,
				 "not permitted to use the daemon at %s: only root may", path);
	const struct group *group = getgrgid(st.st_gid);
	char number[16];
	snprintf(number, sizeof(number), "%u", st.st_gid);
	return error_new(ERROR_NOT_PERMITTED,
			 "not permitted to use the daemon at %s: only root and members of its "
			 "group (%s) may",
			 path, group ? group->gr_name : number);
}

static struct error *connect_to(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return error_errno(errno, "socket");
	if (strlen(path) >= sizeof(address.sun_path))
		return error_new(ERROR_FAILED,
				 "the socket's name is too long (at most %zu bytes): %s",
				 sizeof(address.sun_path) - 1, path);
	strcpy(address.sun_path, path);
	if (!connect(fd, (struct sockaddr *)&address, sizeof(address))) {
		*ret_fd = take_fd(&fd);
		return NULL;
	}
	if (errno == ENOENT || errno == ECONNREFUSED || errno == ENOTDIR)
		return no_daemon(path);
	if (errno == EACCES)
		return not_permitted(path);
	return error_errno(errno, "cannot reach the daemon at %s", path);
}

/* Where a user named no daemon and has none, root's is meant. */
static bool may_mean_root(const char *given)
{
	const char *named = getenv(WIRE_SOCKET_ENV);

	return !given && !(named && *named) && geteuid() != 0;
}

struct error *client_adopt(int fd, const char *name, struct client **ret_client)
{
	struct client *client = calloc(1, sizeof(*client));
	char *path = client ? strdup(name) : NULL;

	if (!path) {
		free(client);
		close(fd);
		return error_new(ERROR_FAILED, "out of memory");
	}
	channel_open(&client->channel, fd, WIRE_MESSAGE_MAX, SIZE_MAX);
	client->path = path;
	*ret_client = client;
	return NULL;
}

struct error *client_connect(const char *given, struct client **ret_client)
{
	_cleanup_free_ char *path = NULL;
	struct error *error = client_socket_path(given, &path);
	int fd = -1;

	if (!error)
		error = connect_to(path, &fd);
	if (error && may_mean_root(given) && !access(WIRE_SOCKET_ROOT, F_OK)) {
		error_free(error);
		free(path);
		path = strdup(WIRE_SOCKET_ROOT);
		error = path ? connect_to(path, &fd) : error_new(ERROR_FAILED, "out of memory");
	}
	return error ? error : client_adopt(fd, path, ret_client);
}

void client_close(struct client *client)
{
	if (!client)
		return;
	channel_close(&client->channel);
	wire_free(&client->out);
	free(client->path);
	free(client);
}

const char *client_path(const struct client *client)
{
	return client->path;
}

struct wire_out *client_out(struct client *client)
{
	return &client->out;
}

int client_fd(const struct client *client)
{
	return client->channel.fd;
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* False in *ret_ready: the time is up, or a signal came. */
static struct error *wait_for(struct client *client, int timeout_ms, bool *ret_ready)
{
	struct channel *channel = &client->channel;
	struct pollfd ready = { .fd = channel->fd, .events = POLLIN };

	if (channel->broken)
		return error_new(ERROR_FAILED, "%s", error_text(channel->broken));
	if (channel->ended)
		return error_new(ERROR_FAILED, "the daemon at %s closed the connection",
				 client->path);
	if (!channel_is_idle(channel))
		ready.events |= POLLOUT;
	int count = poll(&ready, 1, timeout_ms);
	if (count < 0 && errno != EINTR)
		return error_errno(errno, "poll");
	*ret_ready = count > 0;
	if (count > 0) {
		channel_flush(channel);
		channel_fill(channel);
	}
	return NULL;
}

struct error *client_call(struct client *client, client_answer_fn answer, void *context)
{
	struct wire_message message;
	struct wire_header header;
	struct error *error = NULL;
	bool ready;

	if (client->out.bytes.failed)
		return error_new(ERROR_FAILED, "out of memory");
	memcpy(&header, client->out.bytes.text, sizeof(header));
	header.sequence = ++client->sequence;
	memcpy(client->out.bytes.text, &header, sizeof(header));
	channel_send(&client->channel, &client->out);
	while (!error) {
		if (!channel_next(&client->channel, &message)) {
			error = wait_for(client, -1, &ready);
			continue;
		}
		bool ours = message.kind != WIRE_EVENT && message.sequence == client->sequence;
		if (!ours && message.kind != WIRE_EVENT)
			continue; /* the rest of an earlier answer */
		if (ours && message.kind == WIRE_REPLY)
			error = wire_reply_error(&message);
		if (!error && answer)
			error = answer(context, &message);
		if (ours && message.kind == WIRE_REPLY)
			return error;
	}
	return error;
}

struct error *client_next(struct client *client, int timeout_ms, struct wire_message *ret_message,
			  bool *ret_some)
{
	bool ready = true, some;

	while (!(some = channel_next(&client->channel, ret_message)) && ready) {
		struct error *error = wait_for(client, timeout_ms, &ready);

		if (error)
			return error;
	}
	*ret_some = some;
	return NULL;
}

struct error *client_listen(struct client *client, client_answer_fn answer, void *context)
{
	struct wire_message message;
	struct error *error = NULL;
	bool some;

	while (!error) {
		error = client_next(client, -1, &message, &some);
		if (!error && some)
			error = answer(context, &message);
	}
	return error;
}
