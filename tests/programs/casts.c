/* Values passed as another type: addresses as void * and as numbers. */
#include <stdint.h>
#include <stdio.h>

struct node {
	int id;
	unsigned flags : 5;
	int low : 7;
	float weight;
	struct node *next;
	char name[16];
};
typedef struct {
	long magic;
	struct node inner;
} box_t;
union both {
	int i;
	float f;
};
enum mood { SAD = -1, FINE, GLAD = 7 };

#if defined(__clang__) || !defined(__FLT16_MAX__)
typedef float half_t;
#else
typedef _Float16 half_t;
#endif

#ifdef __clang__
#define KEPT __attribute__((noinline))
#else
#define KEPT __attribute__((noipa))
#endif

KEPT long take(void *p, uint64_t raw, unsigned u, int i, double d, float f, long double ld,
				    const unsigned char *bytes)
{
	/* Without this clang passes anything. */
	__asm__ volatile("" ::"r"(p), "r"(bytes), "r"(u), "x"(d), "x"(f), "t"(ld) : "memory");
	return (long)raw + i;
}

KEPT half_t halves(half_t h, const half_t *array, half_t last)
{
	__asm__ volatile("" ::"r"(array) : "memory");
	return h + last;
}

int main(void)
{
	struct node second = { 2, 3, -4, 2.5f, NULL, "second" },
		    first = { 1, 17, -9, 1.5f, &second, "first" };
	box_t box = { 77, first };
	union both both = { .f = 1.0f };
	volatile enum mood mood = FINE;
	half_t array[3] = { 1, 2, 3 };

	take(&box, (uint64_t)"raw text", 4000000000u, -5, 2.5, 0.25f, 1e30L,
	     (const unsigned char *)"bytes!");
	take(&first, (uint64_t)&both, 3, 7, -1e10, 3.0f, 0.5L, (const unsigned char *)"other");
	take(&second, 0x1ff, 0xffffffff, -1, 0, 0, 0x1p-1074L, NULL);
	halves((half_t)-0.099975586, array, (half_t)65504);
	return mood != FINE;
}
