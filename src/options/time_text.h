/*
 * time_text.h - a length of time for people: "12 ns", "1.23 us", "45.6 ms", "789 s".
 *
 * Pure.
 */
#ifndef DYNTRACE_TIME_TEXT_H
#define DYNTRACE_TIME_TEXT_H

#include <stdint.h>

#define TIME_TEXT 16 /* bytes of room */

void time_text(uint64_t ns, char text[TIME_TEXT]);

#endif
