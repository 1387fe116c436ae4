#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
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

static char *user_path(void)
{
	const char *folder = getenv("XDG_RUNTIME_DIR");
	char *path = NULL;

	if (!folder || folder[0] != '/' || asprintf(&path, "%s/%s", folder, WIRE_SOCKET_USER) < 0)
		return NULL;
	return path;
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
	if (!path && named)
		return error_new(ERROR_FAILED, "out of memory");
	if (!path)
		return error_new(
			ERROR_FAILED,
			"the daemon's socket is unknown (set XDG_RUNTIME_DIR, or give --socket PATH)");
	*ret_path = path;
	return NULL;
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
		return error_new(
			ERROR_NOT_PERMITTED,
			"not permitted to use the daemon at %s: only root and members of its group (dyntrace) may",
			path);
	return error_errno(errno, "cannot reach the daemon at %s", path);
}

/* Where a user named no daemon and has none, root's is meant. */
static bool may_mean_root(const char *given)
{
	const char *named = getenv(WIRE_SOCKET_ENV);

	return !given && !(named && *named) && geteuid() != 0;
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
	if (error)
		return error;
	struct client *client = calloc(1, sizeof(*client));
	if (!client) {
		close(fd);
		return error_new(ERROR_FAILED, "out of memory");
	}
	channel_open(&client->channel, fd, WIRE_MESSAGE_MAX, SIZE_MAX);
	client->path = take_ptr(&path);
	*ret_client = client;
	return NULL;
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
