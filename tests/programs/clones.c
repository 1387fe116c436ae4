/*
 * clones.c - local functions that compilers change: arguments split, results dropped where no
 * caller uses them. Built by the tests with gcc and clang, at -O2. Prints each call's result as its
 * caller sees it: NAME RESULT.
 */
#include <stdio.h>

#define NOINLINE __attribute__((noinline))

struct pair {
	int a, b;
};

static int counter;

/* Nobody looks at its result; its register is used for something else. */
NOINLINE static int ignored(const struct pair *p, int n)
{
	counter += p->a * n;
	if (counter > 1000)
		counter -= 999;
	return counter + p->b;
}

NOINLINE static int used(const struct pair *p, int n)
{
	counter += p->a * n;
	return counter + p->b;
}

/* Its result is its caller's. */
NOINLINE static int passed(const struct pair *p, int n)
{
	counter -= p->a * n;
	return counter + p->b;
}

NOINLINE int passes(const struct pair *p)
{
	return passed(p, 3);
}

/* A jump to it, whose function has no result. */
NOINLINE static int dropped(const struct pair *p, int n)
{
	counter ^= p->b * n;
	return counter + p->a;
}

NOINLINE void drops(const struct pair *p)
{
	dropped(p, 5);
}

NOINLINE static double real(const struct pair *p, int n)
{
	counter += p->b * n;
	return p->a * 0.5 + n;
}

int main(int argc, char **argv)
{
	struct pair p = { argc, 2 };

	(void)argv;
	for (int i = 0; i < 3; i++) {
		p.a = i;
		ignored(&p, 7 + i);
		drops(&p);
		printf("used %d\n", used(&p, i));
		printf("passed %d\n", passes(&p));
		printf("real %d\n", (int)(real(&p, i) * 2.0));
	}
	return 0;
}
