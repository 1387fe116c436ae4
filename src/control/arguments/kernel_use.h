/*
 * kernel_use.h - which argument registers a system call takes, by its number.
 *
 * The kernel takes the fourth argument in r10, and always overwrites rcx. Pure.
 */
#ifndef DYNTRACE_KERNEL_USE_H
#define DYNTRACE_KERNEL_USE_H

#include <stdint.h>

/* All that any call takes, if the number isn't known. */
uint8_t kernel_use(uint64_t number);

#endif
