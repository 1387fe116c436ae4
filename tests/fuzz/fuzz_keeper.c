/*
 * A keeper's answers. The keeper has the rights of the client's user, who can make it say anything:
 * any result, any path, messages of any length, with any number of descriptors. The worker must get
 * a file or an error, wait for nobody, and keep no descriptor that it doesn't use.
 *
 * The input: per answer a byte of flags, four bytes of result, a byte of length, and the path.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

#include "control/base/cleanup.h"
#include "daemon/keeper/keeper.h"
#include "daemon/keeper/keeper_messages.h"

#define ANSWERS_MAX 12
#define FDS_MAX 3u

/* Kinds of descriptors: a file, a directory, a pipe that nobody reads, a socket. */
static int make_descriptor(unsigned kind, int *ret_other)
{
	int pair[2];

	*ret_other = -1;
	switch (kind % 4) {
	case 0:
		return memfd_create("file", MFD_CLOEXEC);
	case 1:
		return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	case 2:
		REQUIRE(!pipe2(pair, O_CLOEXEC));
		break;
	default:
		REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	}
	*ret_other = pair[0];
	return pair[1];
}

static void send_answer(int socket, struct fuzz_input *input)
{
	uint8_t flags = fuzz_byte(input);
	unsigned count = flags % (FDS_MAX + 1);
	int fds[FDS_MAX], others[FDS_MAX];
	struct keeper_answer answer = { 0 };
	char control[CMSG_SPACE(sizeof(fds))] = { 0 };
	struct iovec part = { &answer, sizeof(answer) };
	struct msghdr header = { .msg_iov = &part, .msg_iovlen = 1 };

	fuzz_take(input, &answer.result, sizeof(answer.result));
	fuzz_take(input, answer.path, fuzz_byte(input));
	if (flags & 0x40)
		memset(answer.path, 'x', sizeof(answer.path)); /* without an end */
	if (flags & 0x80)
		part.iov_len = flags; /* a short one */
	for (unsigned i = 0; i < count; i++)
		fds[i] = make_descriptor((flags >> 2) + i, &others[i]);
	if (count) {
		header.msg_control = control;
		header.msg_controllen = CMSG_SPACE(count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);
		*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(count * sizeof(int)),
				       .cmsg_level = SOL_SOCKET,
				       .cmsg_type = SCM_RIGHTS };
		memcpy(CMSG_DATA(c), fds, count * sizeof(int));
	}
	sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL);
	for (unsigned i = 0; i < count; i++) {
		close(fds[i]);
		if (others[i] >= 0)
			close(others[i]);
	}
}

static int count_descriptors(void)
{
	int count = 0;

	for (int fd = 0; fd < 128; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void check_file(int fd)
{
	struct stat st;

	REQUIRE(fd < 0 ? fd >= -4095 : !fstat(fd, &st) && S_ISREG(st.st_mode));
	if (fd >= 0)
		close(fd);
}

static void use(int socket)
{
	struct trace_dir *dir = NULL, *beside = NULL;
	struct error *error = keeper_dir(socket, &dir);

	REQUIRE(!error);
	REQUIRE(dir->make(dir) <= 0);
	REQUIRE(strlen(dir->path) < PATH_MAX);
	check_file(dir->open(dir, "metadata", true));
	check_file(dir->open(dir, "stream_0", false));
	REQUIRE(dir->rename(dir, "a", "b") <= 0);
	error_free(keeper_open_again(dir));
	error_free(keeper_beside(dir, "-snapshot-1", &beside));
	if (beside) {
		REQUIRE(beside->make(beside) <= 0);
		check_file(beside->open(beside, "metadata", true));
		trace_dir_free(beside);
	}
	REQUIRE(dir->remove(dir, "b") <= 0);
	REQUIRE(dir->remove(dir, NULL) <= 0);
	trace_dir_free(dir);
}

static void append(int socket)
{
	int fd = -1;
	struct error *error = keeper_append(socket, &fd);

	REQUIRE(error || fd >= 0);
	error_free(error);
	if (fd >= 0)
		close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };
	bool appends = fuzz_byte(&input) % 8 == 7;
	int ends[2], before = count_descriptors();

	REQUIRE(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
	for (int i = 0; i < ANSWERS_MAX && input.size; i++)
		send_answer(ends[1], &input);
	shutdown(ends[1], SHUT_WR); /* no answer comes after these */
	(appends ? append : use)(ends[0]);
	close(ends[1]);
	REQUIRE(count_descriptors() == before);
	return 0;
}
