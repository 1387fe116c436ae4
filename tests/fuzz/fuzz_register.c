/*
 * What the linked or preloaded agent reads: replies of a daemon, or of someone in its place, which
 * come in pieces of any length and end at any byte; and the files of /proc/self that it looks into,
 * as pieces of text. The first byte chooses which, the second the length of pieces.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz.h"

#define ROOM 32u
#define GUARD 16u

void register_entry_await(int fd);
int register_entry_text(int fd, char end, char *text, uint32_t room);

static void await(struct fuzz_input *input)
{
	size_t step = fuzz_byte(input) + 1u;
	int ends[2];

	REQUIRE(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	/* all at once if it fits: the agent reads by its own lengths */
	for (size_t at = 0; at < input->size; at += step) {
		size_t part = input->size - at < step ? input->size - at : step;

		if (send(ends[1], input->bytes + at, part, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
	}
	close(ends[1]);
	register_entry_await(ends[0]);
	close(ends[0]);
}

static void read_text(struct fuzz_input *input)
{
	char text[ROOM + GUARD], end = (char)fuzz_byte(input);
	int fd = memfd_create("input", 0);

	memset(text, 0x5a, sizeof(text));
	REQUIRE(fd >= 0 && write(fd, input->bytes, input->size) == (ssize_t)input->size &&
		!lseek(fd, 0, SEEK_SET));
	REQUIRE(register_entry_text(fd, end, text, ROOM) <= (int)input->size);
	REQUIRE(!input->size || memchr(text, 0, ROOM));
	for (size_t i = ROOM; i < ROOM + GUARD; i++)
		REQUIRE(text[i] == 0x5a);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct fuzz_input input = { bytes, size };

	if (fuzz_byte(&input) % 2)
		read_text(&input);
	else
		await(&input);
	return 0;
}
