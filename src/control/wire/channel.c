#include "channel.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/base/cleanup.h"

#define FILL_BYTES (32u << 10)

void channel_open(struct channel *channel, int fd, size_t message_max, size_t queue_max)
{
	assert(fd >= 0);
	*channel = (struct channel){
		.fd = fd, .message_max = message_max, .queue_max = queue_max, .to_send = -1
	};
	for (size_t i = 0; i < CHANNEL_FDS; i++)
		channel->fds[i] = -1;
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void channel_close(struct channel *channel)
{
	for (size_t i = 0; i < CHANNEL_FDS; i++) {
		if (channel->fds[i] >= 0)
			close(channel->fds[i]);
	}
	if (channel->fd >= 0)
		close(channel->fd);
	if (channel->to_send >= 0)
		close(channel->to_send);
	strbuf_free(&channel->in);
	wire_free(&channel->out);
	error_free(channel->broken);
	*channel = (struct channel){ .fd = -1, .to_send = -1, .fds = { -1, -1, -1, -1 } };
}

static void set_broken(struct channel *channel, struct error *error)
{
	if (channel->broken)
		error_free(error);
	else
		channel->broken = error;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void keep_fd(struct channel *channel, int fd)
{
	for (size_t i = 0; i < CHANNEL_FDS; i++) {
		if (channel->takes_fds && channel->fds[i] < 0) {
			channel->fds[i] = fd;
			return;
		}
	}
	close(fd);
}

static void keep_fds(struct channel *channel, struct msghdr *header)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			keep_fd(channel, fd);
		}
	}
}

/* The kernel says who sent the bytes. It gives bytes of one sender at a time. */
static void note_sender(struct channel *channel, struct msghdr *header)
{
	pid_t sender = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
		struct ucred who;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
			continue;
		memcpy(&who, CMSG_DATA(c), sizeof(who));
		sender = who.pid;
	}
	if (!channel->sender)
		channel->sender = sender;
	else if (channel->sender != sender)
		channel->sender = -1;
}

/* Without a control buffer the kernel closes descriptors that a client sends. */
static ssize_t receive(struct channel *channel, char *bytes, size_t size)
{
	char control[CMSG_SPACE(CHANNEL_FDS * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))] = {
		0
	};
	struct iovec part = { bytes, size };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	if (!channel->takes_fds && !channel->asks_sender)
		return recv(channel->fd, bytes, size, MSG_DONTWAIT);
	header.msg_control = control;
	header.msg_controllen = sizeof(control);
	ssize_t n = recvmsg(channel->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n >= 0)
		keep_fds(channel, &header);
	if (n > 0 && channel->asks_sender)
		note_sender(channel, &header);
	return n;
}

static void forget_taken(struct channel *channel)
{
	size_t left = channel->in.length - channel->taken;

	assert(channel->taken <= channel->in.length); /* Q1 */
	if (!channel->taken)
		return;
	memmove(channel->in.text, channel->in.text + channel->taken, left);
	channel->in.length = left;
	channel->taken = 0;
}

void channel_fill(struct channel *channel)
{
	char bytes[FILL_BYTES];

	if (channel->broken || channel->ended)
		return;
	forget_taken(channel);
	/* One message and a little is enough: later bytes wait in the socket. */
	if (channel->in.length > channel->message_max + sizeof(struct wire_header))
		return;
	ssize_t n = receive(channel, bytes, sizeof(bytes));
	if (n > 0)
		strbuf_add(&channel->in, bytes, (size_t)n);
	else if (n == 0)
		channel->ended = true;
	else if (errno != EAGAIN && errno != EINTR)
		channel->ended = true; /* reset: as good as closed */
	if (channel->in.failed)
		set_broken(channel, error_new(ERROR_FAILED, "out of memory"));
}

bool channel_next(struct channel *channel, struct wire_message *ret_message)
{
	size_t used = 0;

	if (channel->broken)
		return false;
	assert(channel->taken <= channel->in.length); /* Q1 */
	struct error *error =
		wire_take(channel->in.text + channel->taken, channel->in.length - channel->taken,
			  channel->message_max, ret_message, &used);
	if (error)
		set_broken(channel, error);
	channel->taken += used;
	return used > 0;
}

int channel_take_fd(struct channel *channel)
{
	for (size_t i = 0; i < CHANNEL_FDS; i++) {
		if (channel->fds[i] >= 0)
			return take_fd(&channel->fds[i]);
	}
	return -1;
}

/* ---- sending --------------------------------------------------------------------------------- */

bool channel_is_idle(const struct channel *channel)
{
	return channel->sent == channel->out.bytes.length;
}

/* A descriptor goes with one byte, so that it arrives with the message that it belongs to. */
static ssize_t send_with_fd(struct channel *channel)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec part = { channel->out.bytes.text + channel->sent, 1 };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&header);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &channel->to_send, sizeof(int));
	ssize_t n = sendmsg(channel->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n == 1)
		close(take_fd(&channel->to_send));
	return n;
}

static ssize_t send_some(struct channel *channel)
{
	size_t end = channel->out.bytes.length;

	if (channel->to_send >= 0 && channel->sent == channel->to_send_at)
		return send_with_fd(channel);
	if (channel->to_send >= 0)
		end = channel->to_send_at;
	return send(channel->fd, channel->out.bytes.text + channel->sent, end - channel->sent,
		    MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool channel_flush(struct channel *channel)
{
	while (!channel->broken && !channel->ended && !channel_is_idle(channel)) {
		ssize_t n = send_some(channel);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return false;
		/* On an error drop the queue: nobody reads it. channel_fill notices the other end's
		 * absence after its last message. */
		channel->sent = n < 0 ? channel->out.bytes.length : channel->sent + (size_t)n;
	}
	if (channel_is_idle(channel)) {
		channel->out.bytes.length = 0;
		channel->sent = 0;
	}
	return channel_is_idle(channel);
}

static void forget_sent(struct channel *channel)
{
	struct strbuf *out = &channel->out.bytes;

	if (channel->sent < out->length / 2 || !channel->sent)
		return;
	assert(channel->sent <= out->length);
	assert(channel->to_send < 0 || channel->sent <= channel->to_send_at);
	memmove(out->text, out->text + channel->sent, out->length - channel->sent);
	out->length -= channel->sent;
	channel->to_send_at -= channel->sent;
	channel->sent = 0;
}

/* Whoever waits for the other end hears of it: no answer comes to what wasn't sent. */
static void lose_message(struct channel *channel)
{
	set_broken(channel, error_new(ERROR_FAILED, "out of memory"));
	shutdown(channel->fd, SHUT_RDWR);
}

void channel_send(struct channel *channel, struct wire_out *out)
{
	if (out->bytes.failed)
		lose_message(channel);
	if (channel->broken || channel->ended || out->bytes.failed) {
		wire_free(out);
		return;
	}
	forget_sent(channel);
	strbuf_add(&channel->out.bytes, out->bytes.text, out->bytes.length);
	out->bytes.length = 0;
	channel_flush(channel);
	if (channel->out.bytes.failed)
		lose_message(channel);
	else if (channel->out.bytes.length - channel->sent > channel->queue_max)
		set_broken(channel,
			   error_new(ERROR_FAILED, "the other end doesn't read what it asked for"));
}

void channel_send_fd(struct channel *channel, struct wire_out *out, int fd)
{
	if (channel->to_send >= 0) {
		close(fd);
		set_broken(channel,
			   error_new(ERROR_FAILED, "cannot send two descriptors at once"));
		return;
	}
	forget_sent(channel);
	channel->to_send = fd;
	channel->to_send_at = channel->out.bytes.length;
	channel_send(channel, out);
}
