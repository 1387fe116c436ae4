#include "foo.h"

#include <string.h>

__attribute__((noipa)) long foo(int number, long factor, const char *text)
{
	return number + factor + (long)strlen(text);
}

__attribute__((noipa)) long foo_many(long calls)
{
	long sum = 0;

	for (long i = 0; i < calls; i++)
		sum += foo((int)i, i * 1000, FOO_TEXT);
	return sum;
}
