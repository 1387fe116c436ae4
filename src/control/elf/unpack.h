/*
 * unpack.h - compressed sections of ELF files (ELFCOMPRESS_*). Pure.
 */
#ifndef DYNTRACE_UNPACK_H
#define DYNTRACE_UNPACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool unpack_knows(uint32_t type);
/* False: damaged, or not exactly `to_size` long; `to` may hold anything then. */
bool unpack(uint32_t type, const void *from, size_t from_size, void *to, size_t to_size);

#endif
