/*
 * debug_file.h - may this file be read for debug information?
 *
 * A program names the file (a debug link), and a target's user may have made it: a device, a pipe,
 * a file of 500 GB without contents, packed sections that unfold to more than the memory. Libraries
 * read on trust; so files are judged first.
 */
#ifndef DYNTRACE_DEBUG_FILE_H
#define DYNTRACE_DEBUG_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* Opens a regular file, and nothing else even for a moment: to open a device can act on it.
 * -1: none, or not judged sound. */
int debug_file_open(const char *path);
/* Takes over the descriptor; -1: not sound. */
int debug_file_judge(int fd);
bool debug_file_is_sound(int fd);

/* Does the CRC of a debug link fit? False also for files beyond a limit, and after Ctrl-C. */
bool debug_file_has_crc(int fd, uint32_t crc);

#endif
