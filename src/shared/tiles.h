/*
 * tiles.h - the kernel's names for a processor's tiles (AMX). A process asks for them, and its
 * signal frames are 8 KiB larger from then on. The C library of Debian 12 has none of these names.
 */
#ifndef DYNTRACE_TILES_H
#define DYNTRACE_TILES_H

#ifndef ARCH_GET_XCOMP_PERM
#define ARCH_GET_XCOMP_PERM 0x1022
#endif
#ifndef ARCH_REQ_XCOMP_PERM
#define ARCH_REQ_XCOMP_PERM 0x1023
#endif
/* Of the components of a thread's registers: the only one that a thread may have no room for. */
#define DT_TILE_DATA 18u

#endif
