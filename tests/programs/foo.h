/*
 * foo.h - the function that tests trace: its arguments, exactly as many calls as were asked for.
 */
#ifndef DYNTRACE_TESTS_FOO_H
#define DYNTRACE_TESTS_FOO_H

/* Kept whole: not inlined, not cloned. Returns number + factor + length of text. */
__attribute__((noipa)) long foo(int number, long factor, const char *text);

#define FOO_TEXT "dyntrace"

/* Calls foo(i, i * 1000, FOO_TEXT) for i = 0 .. calls - 1. */
__attribute__((noipa)) long foo_many(long calls);

#endif
