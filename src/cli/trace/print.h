/*
 * print.h - trace --print: one line of text per event on stdout, at once.
 *
 * Never waits for the reader of stdout, because events would be lost meanwhile: keeps lines that
 * can't be written yet, up to a limit; counts and drops lines beyond it.
 */
#ifndef DYNTRACE_PRINT_H
#define DYNTRACE_PRINT_H

#include "control/session/session.h"

struct printer;

struct printer *printer_create(const char *process);
/* Sets the session whose events are printed. */
void printer_attach(struct printer *printer, const struct session *session);
/* A reader_observe_fn: the context is the printer. */
void printer_events(void *context, const struct reader_batch *batch);
/* Writes as much as stdout takes now; `all`: everything, however long it takes; until Ctrl-C. */
void printer_flush(struct printer *printer, bool all);
/* Number of dropped lines. */
uint64_t printer_left_out(const struct printer *printer);
void printer_destroy(struct printer *printer);

#endif
