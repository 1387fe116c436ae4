/*
 * zoo.c - types that are rare, or that compilers and debug information treat in ways of their own;
 * tests/e2e/test_zoo.py knows each function's arguments.
 */
#include <complex.h>
#include <stdbool.h>
#include <stdint.h>
#include <uchar.h>
#include <wchar.h>
#include <immintrin.h>

#ifdef __clang__
#define APART __attribute__((noinline, optnone))
#else
#define APART __attribute__((noipa))
#endif

volatile int sink;

enum big {
	B_LOW = 1,
	B_200 = 200,
	B_40000 = 40000,
	B_3G = 3000000000u,
	B_HUGE = 0x123456789abcdefLL
};
enum dup { D_A = 3, D_B = 3, D_C = 128, D_D = 255 };
enum flags { F_READ = 1, F_WRITE = 2, F_EXEC = 4 };
enum neg { N_MIN = -2147483647 - 1, N_M200 = -200, N_0 = 0 };
enum uc { U_128 = 128, U_255 = 255 } __attribute__((packed));
APART void enums(enum big a, enum dup b, enum flags c, enum neg d, enum uc e) { sink++; }

struct __attribute__((packed)) packed { char a; int b; short c; long d; char e; };
APART void packed(struct packed p) { sink++; }

struct bits {
	unsigned a : 3;
	int b : 13;
	unsigned long c : 40;
	bool d : 1;
	unsigned e : 7;
	int : 0;
	signed f : 5;
};
APART void bits(struct bits b) { sink++; }

struct __attribute__((packed)) packed_bits {
	unsigned a : 3;
	unsigned b : 30;
	unsigned long c : 50;
};
APART void packed_bits(struct packed_bits b) { sink++; }

struct empty {};
APART void empty(struct empty e, int after) { sink++; }

struct unnamed { int k; union { int i; float f; }; struct { short s1, s2; }; };
APART void unnamed(struct unnamed a) { sink++; }

APART void wide(__int128 a, unsigned __int128 b, int c) { sink++; }
APART __int128 wide_result(void) { sink++; return ((__int128)1 << 64) | 5; }
APART void vectors(__m128 a, __m128i b, __m128d c) { sink++; }

typedef int (*handler)(int, char **);
APART void pointers(handler h, char *const *volatile pp, const volatile int *p, char **argv)
{
	sink++;
}
APART void variable_length(int n, int m, int a[n][m]) { sink++; }
APART int old_style(a, b, c, d) char a; short b; float c; char *d; { sink++; return a; }
APART int variadic(const char *format, ...) { sink++; return 0; }

struct point { int x, y; };
struct polygon { struct point p[3]; int n; };
APART void polygons(struct polygon p) { sink++; }
APART struct polygon polygon_result(int n)
{
	struct polygon p = { { { 1, 2 }, { 3, 4 }, { 5, n } }, 7 };
	sink++;
	return p;
}

APART void texts(const wchar_t *w, const char16_t *c16, const char32_t *c32, const wchar_t *none,
		 const char16_t *bad, const char16_t *odd)
{
	sink++;
}

APART void complexes(long double _Complex z, long double l, float _Complex f, double _Complex d)
{
	sink++;
}
APART long double _Complex complex_result(void) { sink++; return 1.5L + 2.5L * I; }
APART long double long_result(void) { sink++; return 3.25L; }

struct mixed { float f; double d; };
struct number { float f; int i; };
struct longer { long double l; };
struct three { char c[3]; };
union any { long l; double d; };
APART void classes(struct mixed m, struct number n, struct longer l, union any u, struct three t,
		   void *list[2])
{
	sink++;
}

int main(void)
{
	static const char16_t odd[] = { 'a', 0xd83d, 'b', 0xde00, 0 };

	enums(B_HUGE, D_C, F_READ | F_EXEC, N_M200, U_255);
	enums(B_200, D_D, F_WRITE, N_MIN, U_128);
	enums(B_3G, D_A, 0, N_0, 3);
	packed((struct packed){ 'a', -5, 300, 1L << 40, 'z' });
	bits((struct bits){ 5, -1000, 0xabcdef0123UL, true, 99, -3 });
	packed_bits((struct packed_bits){ 5, 0x2bcdef01, 0x2abcdef012345UL });
	empty((struct empty){}, 42);
	unnamed((struct unnamed){ 1, { .f = 1.5f }, { -2, 3 } });
	wide(-2, ((__int128)7 << 64) | 9, 11);
	wide_result();
	vectors(_mm_set_ps(4, 3, 2, 1), _mm_set_epi32(4, 3, 2, 1), _mm_set_pd(2, 1));
	pointers((handler)0x1234, (char *const *)0x5678, (int *)0x9abc, (char **)0xdef0);
	variable_length(2, 3, (int(*)[3])0x1234);
	old_style('x', -3, 1.5f, "old");
	variadic("%d %s", 5, "x");
	polygons((struct polygon){ { { 1, 2 }, { 3, 4 }, { 5, 6 } }, 7 });
	polygon_result(9);
	texts(L"wide \u00e4\U0001f600", u"sixteen \u00e4\U0001f600", U"thirty-two \u00e4",
	      (wchar_t *)0, (char16_t *)16, odd);
	complexes(1.5L + 2.5L * I, 3.25L, 1.5f + 2.5f * I, 3.5 + 4.5 * I);
	complex_result();
	long_result();
	classes((struct mixed){ 1.5f, 2.5 }, (struct number){ 3.5f, 7 }, (struct longer){ 4.5L },
		(union any){ .d = 5.5 }, (struct three){ "ab" }, (void *[2]){ 0, 0 });
	return 0;
}
