/*
 * Messages and channels: what is sent arrives, whole and in order, in whatever pieces; bytes that
 * are no message break the channel; neither side grows without bound; descriptors come only where
 * they are wanted.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/wire/channel.h"

struct pair {
	struct channel left, right;
};

static int set_up(void **state)
{
	static struct pair pair;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	channel_open(&pair.left, fds[0], WIRE_MESSAGE_MAX, 1 << 20);
	channel_open(&pair.right, fds[1], WIRE_REQUEST_MAX, 1 << 20);
	*state = &pair;
	return 0;
}

static int tear_down(void **state)
{
	struct pair *pair = *state;

	channel_close(&pair->left);
	channel_close(&pair->right);
	return 0;
}

static void make_add(struct wire_out *out, uint32_t sequence)
{
	wire_begin(out, WIRE_ADD, sequence);
	wire_text(out, WIRE_TARGET, "redis-server");
	wire_text(out, WIRE_FILTER, NULL);
	wire_text(out, WIRE_CONTEXT_TYPE, "tid");
	wire_text(out, WIRE_CONTEXT_TYPE, "");
	wire_number(out, WIRE_WAIT, UINT64_MAX);
	wire_end(out);
}

static void check_add(const struct wire_message *message, uint32_t sequence)
{
	struct wire_value value;
	size_t at = 0;

	assert_int_equal(message->kind, WIRE_ADD);
	assert_int_equal(message->sequence, sequence);
	assert_string_equal(wire_get_text(message, WIRE_TARGET), "redis-server");
	assert_null(wire_get_text(message, WIRE_FILTER));
	assert_true(wire_get_number(message, WIRE_WAIT, 0) == UINT64_MAX);
	assert_true(wire_get_number(message, WIRE_PID, 5) == 5);
	assert_true(wire_next(message, &at, &value) && value.tag == WIRE_TARGET);
	assert_true(wire_next(message, &at, &value));
	assert_string_equal(value.text, "tid");
	assert_true(wire_next(message, &at, &value));
	assert_string_equal(value.text, "");
	assert_true(wire_next(message, &at, &value) && value.tag == WIRE_WAIT);
	assert_false(wire_next(message, &at, &value));
}

static void messages_arrive_whole_and_in_order(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;
	struct wire_out out = { 0 };

	for (uint32_t i = 0; i < 100; i++)
		make_add(&out, i);
	channel_send(&pair->left, &out);
	channel_fill(&pair->right);
	for (uint32_t i = 0; i < 100; i++) {
		assert_true(channel_next(&pair->right, &message));
		check_add(&message, i);
	}
	assert_false(channel_next(&pair->right, &message));
	assert_null(pair->right.broken);
	wire_free(&out);
}

static void a_byte_at_a_time_is_a_message_in_the_end(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;
	struct wire_out out = { 0 };

	make_add(&out, 9);
	for (size_t i = 0; i < out.bytes.length; i++) {
		assert_false(channel_next(&pair->right, &message));
		assert_int_equal(write(pair->left.fd, out.bytes.text + i, 1), 1);
		channel_fill(&pair->right);
	}
	assert_true(channel_next(&pair->right, &message));
	check_add(&message, 9);
	wire_free(&out);
}

static void garbage_breaks_the_channel(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;

	assert_int_equal(write(pair->left.fd, "GET / HTTP/1.1\r\n\r\n", 18), 18);
	channel_fill(&pair->right);
	assert_false(channel_next(&pair->right, &message));
	assert_string_equal(error_text(pair->right.broken),
			    "the other end doesn't speak dyntrace's protocol");
}

static void another_version_is_named(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;
	struct wire_header header = { .magic = WIRE_MAGIC, .version = 77, .kind = WIRE_STATUS };

	assert_int_equal(write(pair->left.fd, &header, sizeof(header)), sizeof(header));
	channel_fill(&pair->right);
	assert_false(channel_next(&pair->right, &message));
	assert_non_null(strstr(error_text(pair->right.broken), "speaks version 77"));
}

static void a_message_that_is_too_long_is_refused_by_its_header(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;
	struct wire_header header = { .magic = WIRE_MAGIC,
				      .version = WIRE_VERSION,
				      .kind = WIRE_STATUS,
				      .length = WIRE_REQUEST_MAX + 1 };

	assert_int_equal(write(pair->left.fd, &header, sizeof(header)), sizeof(header));
	channel_fill(&pair->right);
	assert_false(channel_next(&pair->right, &message));
	assert_non_null(strstr(error_text(pair->right.broken), "too long"));
}

static void who_never_takes_messages_holds_no_more_than_one(void **state)
{
	struct pair *pair = *state;
	struct wire_out out = { 0 };

	for (uint32_t i = 0; i < 5000; i++)
		make_add(&out, i);
	channel_send(&pair->left, &out);
	for (int i = 0; i < 100; i++) {
		channel_fill(&pair->right);
		channel_flush(&pair->left);
	}
	assert_true(pair->right.in.length <= WIRE_REQUEST_MAX + (64 << 10));
	wire_free(&out);
}

static void who_never_reads_is_dropped(void **state)
{
	struct pair *pair = *state;
	struct wire_out out = { 0 };
	int sent = 0;

	while (!pair->left.broken && sent < 1000000) {
		make_add(&out, 1);
		channel_send(&pair->left, &out);
		sent++;
	}
	assert_non_null(pair->left.broken);
	assert_true(pair->left.out.bytes.length <= (2 << 20));
	wire_free(&out);
}

static void the_end_is_seen_after_the_last_message(void **state)
{
	struct pair *pair = *state;
	struct wire_message message;
	struct wire_out out = { 0 };

	make_add(&out, 3);
	channel_send(&pair->left, &out);
	channel_close(&pair->left);
	channel_fill(&pair->right);
	assert_true(channel_next(&pair->right, &message));
	check_add(&message, 3);
	channel_fill(&pair->right);
	assert_true(pair->right.ended);
	wire_free(&out);
}

/* There was no memory for a message: nobody waits for its answer. */
static void a_message_that_is_lost_ends_the_channel(void **state)
{
	struct pair *pair = *state;
	struct wire_out out = { 0 };
	struct pollfd mine = { .fd = pair->left.fd, .events = POLLIN | POLLRDHUP };

	make_add(&out, 5);
	assert_int_equal(poll(&mine, 1, 0), 0);
	out.bytes.failed = true;
	channel_send(&pair->left, &out);
	assert_non_null(pair->left.broken);
	assert_int_equal(poll(&mine, 1, 0), 1);
	channel_fill(&pair->right);
	assert_true(pair->right.ended);
}

static void descriptors_come_only_where_they_are_wanted(void **state)
{
	struct pair *pair = *state;
	struct wire_out out = { 0 };
	struct wire_message message;
	int pipes[2];

	for (int wanted = 0; wanted < 2; wanted++) {
		assert_int_equal(pipe(pipes), 0);
		pair->right.takes_fds = wanted;
		make_add(&out, 4);
		channel_send_fd(&pair->left, &out, pipes[1]);
		channel_fill(&pair->right); /* up to the descriptor's byte */
		channel_fill(&pair->right);
		assert_true(channel_next(&pair->right, &message));
		int fd = channel_take_fd(&pair->right);
		assert_int_equal(fd >= 0, wanted);
		char byte;
		if (wanted)
			assert_int_equal(write(fd, "x", 1), 1);
		if (fd >= 0)
			close(fd);
		/* All write ends are closed, ours too: the reader sees what came, and the end. */
		assert_int_equal(read(pipes[0], &byte, 1), wanted);
		assert_int_equal(read(pipes[0], &byte, 1), 0);
		close(pipes[0]);
	}
	wire_free(&out);
}

static void errors_travel(void **state)
{
	struct wire_out out = { 0 };
	struct wire_message message;
	size_t used;
	struct error *error = error_new(ERROR_NOT_PERMITTED, "not for you");

	(void)state;
	wire_begin_reply(&out, 1, error);
	wire_end(&out);
	error_free(error);
	assert_null(wire_take(out.bytes.text, out.bytes.length, WIRE_MESSAGE_MAX, &message, &used));
	error = wire_reply_error(&message);
	assert_int_equal(error_kind(error), ERROR_NOT_PERMITTED);
	assert_string_equal(error_text(error), "not for you");
	error_free(error);
	wire_free(&out);
	wire_begin_reply(&out, 1, NULL);
	wire_end(&out);
	assert_null(wire_take(out.bytes.text, out.bytes.length, WIRE_MESSAGE_MAX, &message, &used));
	assert_null(wire_reply_error(&message));
	wire_free(&out);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(messages_arrive_whole_and_in_order),
		TEST(a_byte_at_a_time_is_a_message_in_the_end),
		TEST(garbage_breaks_the_channel),
		TEST(another_version_is_named),
		TEST(a_message_that_is_too_long_is_refused_by_its_header),
		TEST(who_never_takes_messages_holds_no_more_than_one),
		TEST(who_never_reads_is_dropped),
		TEST(the_end_is_seen_after_the_last_message),
		TEST(a_message_that_is_lost_ends_the_channel),
		TEST(descriptors_come_only_where_they_are_wanted),
		TEST(errors_travel),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
