/*
 * mapped_file.h - open the file behind a mapping of a target.
 *
 * The path in /proc/PID/maps is of no use in a namespace or a chroot other than the target's: there
 * it names no file, or another one. The caller closes the file.
 */
#ifndef MAPPED_FILE_H
#define MAPPED_FILE_H

#include "proc.h"

/* Opens the file that is mapped there, and no other. -1: not possible. */
int mapped_file_open(const struct proc *proc, const struct mapping *mapping);

#endif
