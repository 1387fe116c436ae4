#ifndef PHASE_H
#define PHASE_H
#include <stdint.h>
#include <x86intrin.h>
void phase_mark(const char *name);
void phase_print(void);
#endif
