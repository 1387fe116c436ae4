/*
 * print.h - trace --print: each event as a line of text on stdout, as it comes.
 *
 * Never waits for who reads stdout, because events would be lost meanwhile: lines that can't be
 * written yet are kept, up to a limit, and beyond it they are left out and counted.
 */
#ifndef DYNTRACE_PRINT_H
#define DYNTRACE_PRINT_H

#include "control/session/session.h"

struct printer;

struct printer *printer_create(const char *process);
/* Whose events they are. */
void printer_attach(struct printer *printer, const struct session *session);
/* A reader_observe_fn: the context is the printer. */
void printer_events(void *context, const struct reader_batch *batch);
/* Writes what can be written. `all`: what is left, however long it takes. */
void printer_flush(struct printer *printer, bool all);
/* Lines that were left out. */
uint64_t printer_left_out(const struct printer *printer);
void printer_destroy(struct printer *printer);

#endif
