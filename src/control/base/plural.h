/* plural.h - "1 call", "2 calls": the end of a word behind a number, for a %s. */
#ifndef DYNTRACE_PLURAL_H
#define DYNTRACE_PLURAL_H

#define PLURAL(count) ((count) == 1 ? "" : "s")

#endif
