/* One function per passing class; test_values.py knows their arguments. */
#include <complex.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define KEEP __attribute__((noinline))
/* By a pointer that the compiler can't see through: what a function doesn't use is passed all the
 * same. */
#define CALL(f) (*(__typeof__(f) *volatile *)&(__typeof__(f) *){ f })

enum colour { RED, GREEN = 5, BLUE = -1 };
struct point {
	int x, y;
};
struct big {
	long numbers[4];
	char name[16];
	double d;
};
struct mixed {
	float f;
	int i;
	double d;
};
struct bits {
	unsigned a : 3;
	int b : 5;
	unsigned long c : 40;
};
union either {
	int i;
	float f;
};
typedef unsigned char byte;
typedef const char *text;

static volatile int sink;

KEEP void integers(char c, signed char sc, byte uc, short s, unsigned short us, int i, unsigned u,
		   long l, unsigned long ul, bool b, enum colour e, void *p)
{
	sink += c + sc + uc + s;
}

KEEP void floats(float f, double d, long double ld, float complex fc, double complex dc)
{
	sink += (int)f;
}

KEEP void structs(struct point p, struct big b, struct mixed m, struct bits bi, union either u)
{
	sink += p.x;
}

KEEP void strings(text s, char *none, const char *bad, const char *cut, const char *edge,
		  const char *bytes)
{
	sink += s[0];
}

KEEP void wide(__int128 w, int after)
{
	sink += after;
}

KEEP void many(int a, int b, int c, int d, int e, int f, int g, short h, char i, double x1,
	       double x2, double x3, double x4, double x5, double x6, double x7, double x8,
	       double x9, float x10)
{
	sink += a;
}

int main(void)
{
	struct big b = { { 1, 2, 3, 4 }, "a name", 2.5 };
	char long_text[5000];
	char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	memset(long_text, 'x', sizeof(long_text));
	long_text[sizeof(long_text) - 1] = '\0';
	munmap(page + 4096, 4096);
	memcpy(page + 4093, "abc", 3); /* its end would be on the page that is gone */
	CALL(integers)('a', -3, 200, -4, 5, -6, 7, -8, 9, true, GREEN, (void *)0x1234);
	CALL(integers)(
		-1, 127, 0, -32768, 65535, -2147483647, 4294967295u, -1, ~0ul, false, BLUE, NULL);
	CALL(floats)(1.5f, 2.25, 3.125L, 1 + 2 * I, 3 + 4 * I);
	CALL(floats)(-0.1f, 1e300, 1e4000L, 0, 0);
	CALL(structs)(
		(struct point){ 3, -4 }, b, (struct mixed){ 1.25f, 7, 8.5 },
		(struct bits){ 5, -3, 123456789 }, (union either){ .f = 1.0f });
	CALL(strings)("h\xc3\xa4llo", NULL, (char *)0x10, long_text, page + 4093, "\xff\x01");
	CALL(wide)((__int128)1 << 100 | 5, 6);
	CALL(many)(1, 2, 3, 4, 5, 6, 7, 8, 9, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1.0f);
	return 0;
}
