/*
 * acceptance - the subjects of the founding documents: functions with arguments of all kinds,
 * nested and recursive calls, variables.
 *	acceptance [--rounds R]
 * After each "go" one round: foo 10 times, do_stuff 5 times, interestingFunction(7, 'x') 4 times,
 * scale(1.5, 0.25f) 3 times, outer(3) twice (which calls itself 4 times each, and inner in the
 * middle of each).
 */
#include "handshake.h"

#define TRACED __attribute__((noinline, noclone, noipa))

long foo(long number);
void do_stuff(void);
int interestingFunction(int a, char b);
double scale(double x, float y);
int outer(int depth);
int inner(int depth);

int counter = 42;
char message[] = "hello";
volatile long sink;

TRACED long foo(long number)
{
	sink += number;
	return number * 2;
}

TRACED void do_stuff(void)
{
	sink = sink * 3 + 1;
	sink ^= 5;
}

TRACED int interestingFunction(int a, char b)
{
	sink += a + b;
	return a + b;
}

TRACED double scale(double x, float y)
{
	sink += (long)(x * y);
	return x * (double)y;
}

TRACED int inner(int depth)
{
	sink += depth;
	return depth;
}

TRACED int outer(int depth)
{
	int result = inner(depth);

	if (depth > 0)
		result += outer(depth - 1);
	sink += result;
	return result;
}

static void one_round(void)
{
	for (long i = 0; i < 10; i++)
		foo(i);
	for (int i = 0; i < 5; i++)
		do_stuff();
	for (int i = 0; i < 4; i++)
		interestingFunction(7, 'x');
	for (int i = 0; i < 3; i++)
		scale(1.5, 0.25f);
	for (int i = 0; i < 2; i++)
		outer(3);
}

int main(int argc, char **argv)
{
	long rounds = handshake_option(argc, argv, "rounds", 1);

	for (long i = 0; i < rounds; i++) {
		handshake(argc, argv);
		one_round();
	}
	handshake(argc, argv);
	printf("done %ld\n", sink);
	return 0;
}
