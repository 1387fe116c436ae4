/*
 * valgrind.h - recognise a process in which Valgrind runs a program.
 *
 * Valgrind reads the program's code, also code that it hasn't executed yet, and executes a
 * translation. It takes a jump to memory that it hasn't mapped itself for a fault of the program,
 * which it kills: a patched function dies when it is called for the first time. The tools' own text
 * has functions that are run in translation, too (those that replace the loader's strlen and
 * index), and no names to tell them by.
 */
#ifndef VALGRIND_H
#define VALGRIND_H

#include "proc.h"

/* An error that says so if the process is one of Valgrind's, else NULL. */
struct error *valgrind_refuse(struct proc *proc);

#endif
