/*
 * pieces.c - functions with the names that compilers give to clones and pieces. Each is called
 * as often as its letter's place in the list says; main.cold is never called.
 */
#include <stdio.h>

#define CALLED(function, label)                                                                    \
	int function(int n) __asm__(label);                                                        \
	__attribute__((noinline)) int function(int n)                                              \
	{                                                                                          \
		__asm__ volatile("");                                                              \
		return n + 1;                                                                      \
	}

CALLED(add, "add")
CALLED(add_isra, "add.isra.0")
CALLED(add_constprop, "add.constprop.1")
CALLED(add_part, "add.part.0")
CALLED(add_cold, "add.cold")
CALLED(add_isra_cold, "add.isra.0.cold")
CALLED(lone_constprop, "lone.constprop.0")
CALLED(lone_cold, "lone.cold")
CALLED(split_part, "split.part.0")
CALLED(private_first, "private.lto_priv.0")
CALLED(private_second, "private.lto_priv.1")
CALLED(rare_cold, "rare.cold")
CALLED(dotted, "dotted.name")

static int (*const functions[])(int n) = { add,	      add_isra,	     add_constprop, add_part,
					   add_cold,  add_isra_cold, lone_constprop, lone_cold,
					   split_part, private_first, private_second, rare_cold,
					   dotted };

int main(void)
{
	int sum = 0;

	for (unsigned i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		for (unsigned n = 0; n <= i; n++)
			sum = functions[i](sum);
	}
	printf("%d\n", sum);
	return 0;
}
