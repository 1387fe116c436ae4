/*
 * request_table.h - what the supervisor does with each kind of request.
 */
#ifndef DYNTRACE_REQUEST_TABLE_H
#define DYNTRACE_REQUEST_TABLE_H

struct request;

/* Answers it, or hands it on. */
void request_table_run(struct request *request);

#endif
