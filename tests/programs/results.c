/* One function per kind of result. */
#include <complex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define KEEP __attribute__((noinline))

enum colour { RED, GREEN, BLUE };
struct pair { long a; long b; };
struct point { float x, y; };
struct mixed { double d; int i; };
struct both { long l; double d; };
struct large { long numbers[4]; const char *name; };
struct flags { unsigned low : 3; int high : 5; char c; };
struct extended { long double x; };

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

KEEP float single(int n)
{
	sink += n;
	return n / 4.0f;
}

KEEP long double extended(int n)
{
	sink += n;
	return n / 8.0l;
}

KEEP struct extended in_struct(int n)
{
	sink += n;
	return (struct extended){ n * 1.5l };
}

KEEP struct pair pair(int n)
{
	sink += n;
	return (struct pair){ n, -n };
}

KEEP struct point point(int n)
{
	sink += n;
	return (struct point){ n * .5f, n * -1.5f };
}

KEEP struct mixed mixed(int n)
{
	sink += n;
	return (struct mixed){ n * .25, n + 6 };
}

KEEP struct both both(int n)
{
	sink += n;
	return (struct both){ n + 100, n * 2.5 };
}

KEEP struct large large_struct(int n)
{
	sink += n;
	return (struct large){ { n, 2 * n, 3 * n, 4 * n }, "a large one" };
}

KEEP struct flags flags(int n)
{
	sink += n;
	return (struct flags){ n + 4, -n - 1, 'x' };
}

KEEP _Complex double complex_result(int n)
{
	sink += n;
	return n + 2.0 * n * I;
}

KEEP __int128 wide(int n)
{
	sink += n;
	return ((__int128)n << 64) + 5;
}

KEEP const char *text(int n)
{
	sink += n;
	return n ? "a result" : NULL;
}

KEEP int chosen(int size, const char *name, double factor, int a, int b, int c, int d,
		long on_stack)
{
	sink += size + a + b + c + d + on_stack;
	return size % 3 == 0 ? -1 : (int)(size * factor);
}

static void choose(void)
{
	static const char *const names[] = { "zero", "one", "two", "three", "four", "five" };

	for (int i = 0; i < 6; i++)
		sink += chosen(i * 10, names[i], 1.5, 1, 2, 3, 4, 1000 + i);
}

int main(void)
{
	sink += small(1) + large(1) + truth(1) + colour(1) + (long)pointer(1);
	nothing(1);
	sink += (long)single(1) + (long)extended(1) + (long)in_struct(1).x + pair(1).a +
		(long)point(1).x;
	sink += (long)mixed(1).d + both(1).l + large_struct(1).numbers[0] + flags(1).c;
	sink += (long)creal(complex_result(1)) + (long)wide(1) + (text(1) != text(0));
	choose();
	printf("%ld\n", sink);
	return real(1) < 0;
}
