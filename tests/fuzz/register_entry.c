/*
 * The agent's reading of replies, as a function that a fuzzer can call: the source of the agent
 * forbids the names of libc, which fuzz_register.c needs.
 */
#include "target/register.c"

void register_entry_await(int fd);
int register_entry_text(int fd, char end, char *text, uint32_t room);

void register_entry_await(int fd)
{
	register_await(fd);
}

int register_entry_text(int fd, char end, char *text, uint32_t room)
{
	struct register_reader reader = { .fd = fd };
	int count = 0;

	while (register_text(&reader, end, text, room))
		count++;
	return count;
}
