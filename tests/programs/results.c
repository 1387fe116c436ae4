/* One function a kind of result. */
#include <stdbool.h>

#define KEEP __attribute__((noinline))

enum colour { RED, GREEN, BLUE };

static volatile long sink;

KEEP signed char small(int n)
{
	sink += n;
	return (signed char)(n - 3);
}

KEEP long large(int n)
{
	sink += n;
	return n * -3000000000l;
}

KEEP bool truth(int n)
{
	sink += n;
	return n > 0;
}

KEEP enum colour colour(int n)
{
	sink += n;
	return (enum colour)(n + 1);
}

KEEP void *pointer(int n)
{
	sink += n;
	return (void *)(n * 16l);
}

KEEP void nothing(int n)
{
	sink += n;
	sink += 2 * n;
}

KEEP double real(int n)
{
	sink += n;
	return n / 2.0;
}

int main(void)
{
	sink += small(1) + large(1) + truth(1) + colour(1) + (long)pointer(1);
	nothing(1);
	return real(1) < 0;
}
