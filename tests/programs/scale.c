/*
 * scale.c - arguments of all kinds, for programs without debug information: scale() and twice() are
 * called ten times each, with i from 0 to 9. ret() has a parameter with the name of a result.
 */
#include <stdio.h>
#include <string.h>

__attribute__((noinline)) double scale(double x, float y, const char *name, int n)
{
	__asm__ volatile("" ::: "memory");
	return x * y + n + (double)strlen(name);
}

__attribute__((noinline)) int twice(int n)
{
	__asm__ volatile("");
	return n * 2;
}

__attribute__((noinline)) int named(int ret, int duration)
{
	__asm__ volatile("");
	return ret - duration;
}

int main(void)
{
	double sum = 0;

	for (int i = 0; i < 10; i++) {
		sum += scale(i * 1.5, (float)i / 2, i % 2 ? "odd" : "even", i);
		sum += twice(i) + named(i, 3);
	}
	printf("%g\n", sum);
	return 0;
}
