/*
 * markers - static markers of <sys/sdt.h>.
 *	markers [--calls N] [--rounds R] [--children C]
 * In each round, hits each marker with values that it prints ("NAME VALUE..."), N times.
 * demo:guarded has a semaphore: it is passed only while somebody traces it, and then printed.
 * Rounds begin with the handshake. With --children, that many forked children do the rounds' work
 * instead, one after the other, and print too. Prints "semaphore VALUE" at the end of a round.
 */
#include <sys/wait.h>

#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include "handshake.h"

/* What dtrace -h makes. */
extern unsigned short demo_guarded_semaphore;
unsigned short demo_guarded_semaphore __attribute__((section(".probes")));
#define DEMO_GUARDED_ENABLED()                                                                     \
	__builtin_expect(*(volatile unsigned short *)&demo_guarded_semaphore, 0)

/* Markers without one: sys/sdt.h takes the name all the same. */
unsigned short demo_numbers_semaphore __attribute__((section(".probes")));
unsigned short demo_text_semaphore __attribute__((section(".probes")));
unsigned short demo_twice_semaphore __attribute__((section(".probes")));

struct record {
	short low;
	unsigned char byte;
	long wide;
	double real;
};

void marker_forms(void);

__attribute__((noinline)) static void numbers(struct record *record, int i)
{
	DTRACE_PROBE5(demo, numbers, i, record->low, record->byte, record->wide, record->wide + i);
	printf("numbers %d %d %u %ld %lu\n", i, record->low, record->byte, record->wide,
	       (unsigned long)(record->wide + i));
}

__attribute__((noinline)) static void text(const char *word, double real)
{
	DTRACE_PROBE2(demo, text, word, real);
	printf("text %s %g\n", word, real);
}

__attribute__((noinline)) static void twice(int i)
{
	if (i & 1)
		DTRACE_PROBE1(demo, twice, i);
	else
		DTRACE_PROBE2(demo, twice, -i, 7);
	printf("twice %d\n", i);
}

__attribute__((noinline)) static void guarded(int i)
{
	if (DEMO_GUARDED_ENABLED()) {
		DTRACE_PROBE1(demo, guarded, i * 3);
		printf("guarded %d\n", i * 3);
	}
}

static void work(long calls)
{
	struct record record = { -3, 200, -1234567890123L, 0.5 };

	for (int i = 0; i < calls; i++) {
		numbers(&record, i);
		record.low--;
		record.wide += 1000;
		text(i & 1 ? "odd" : "even", i / 4.0);
		twice(i);
		guarded(i);
	}
	marker_forms();
	printf("semaphore %u\n", demo_guarded_semaphore);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	long calls = handshake_option(argc, argv, "calls", 10);
	long children = handshake_option(argc, argv, "children", 0);

	for (long round = handshake_option(argc, argv, "rounds", 1); round > 0; round--) {
		handshake(argc, argv);
		for (long i = 0; i < children; i++) {
			pid_t child = fork();

			if (child == 0) {
				work(calls);
				handshake(argc, argv);
				printf("semaphore %u\n", demo_guarded_semaphore);
				fflush(stdout);
				_exit(0);
			}
			waitpid(child, NULL, 0);
		}
		if (!children)
			work(calls);
	}
	handshake(argc, argv);
	printf("semaphore %u\n", demo_guarded_semaphore);
	return 0;
}
