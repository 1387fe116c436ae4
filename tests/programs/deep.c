/*
 * deep - stands at the very end of its grown stack, and on a small stack of its own.
 *	deep
 * "ready" in the deepest call of a recursion that made the stack grow; after "go", "ready" again on
 * a stack of 4 KiB that is surrounded by data, and after "go" prints "ok" if no byte of the data
 * has changed.
 */
#include <ucontext.h>

#include "handshake.h"

static int argument_count;
static char **arguments;
static unsigned char field[3][4096] __attribute__((aligned(4096)));
static ucontext_t back, small;

static int __attribute__((noinline)) recurse(int depth)
{
	volatile char frame[4096];

	frame[0] = (char)depth;
	if (depth)
		return recurse(depth - 1) + frame[0];
	handshake(argument_count, arguments);
	return 0;
}

static void on_small_stack(void)
{
	handshake(argument_count, arguments);
}

int main(int argc, char **argv)
{
	int bad = 0;

	argument_count = argc;
	arguments = argv;
	recurse(200);
	memset(field, 0x5a, sizeof(field));
	getcontext(&small);
	small.uc_stack.ss_sp = field[1];
	small.uc_stack.ss_size = sizeof(field[1]);
	small.uc_link = &back;
	makecontext(&small, on_small_stack, 0);
	swapcontext(&back, &small);
	for (size_t i = 0; i < 4096; i++)
		bad |= field[0][i] != 0x5a || field[2][i] != 0x5a;
	printf("%s\n", bad ? "touched" : "ok");
	return 0;
}
