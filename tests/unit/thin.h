/*
 * thin.h - fewer repetitions with sanitizers, which look for errors of memory: these show in the
 * first rounds too. The build without sanitizers runs all rounds.
 */
#ifndef DYNTRACE_TESTS_THIN_H
#define DYNTRACE_TESTS_THIN_H

#ifdef __SANITIZE_ADDRESS__
#define THIN(all, sanitized) (sanitized)
#else
#define THIN(all, sanitized) (all)
#endif

#endif
