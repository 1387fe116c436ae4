/* A function that exists only in its callers. */
#include <stdio.h>
static volatile int sink;
static inline __attribute__((always_inline)) int twice(int value, const char *why)
{
	sink += value;
	return 2 * value + why[0];
}
__attribute__((noinline)) int user(int n)
{
	int a = twice(n, "one");
	sink++;
	return a + twice(n + 1, "two");
}
int main(void)
{
	for (int i = 0; i < 3; i++)
		sink += user(i);
	return 0;
}
