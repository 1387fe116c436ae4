# 1 "x.h"
extern "C" { __extension__ static __inline int f (int __x) __attribute__ ((nothrow)) { return "}"[__x]; } int (g)(va_list, _Bool); }
_Static_assert(1, "a");
int x = 3, y[2];
