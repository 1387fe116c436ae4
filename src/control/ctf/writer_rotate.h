/*
 * writer_rotate.h - a trace that is bounded: its files are cut into pieces, and the oldest piece is
 * removed first.
 *
 * A piece is the files of one stretch of time. The files of the current piece are
 * trace_writer.lanes; those of older pieces are closed, and known by number. They keep their
 * fillers until the trace is closed: a reader that has found all packets reads them later.
 *
 * (W5) No packet goes to a file of an older piece. So in each thread all events of a piece are
 *      older than all events of the next one.
 *
 * The file .pieces notes the older pieces, for the controller that goes on with the trace after a
 * kill -9: numbers of files that were removed are missing there. It is replaced after a piece has
 * ended, and again after files were removed. So whatever the moment of the kill, each file belongs
 * to a noted piece or is behind the last one.
 */
#ifndef DYNTRACE_WRITER_ROTATE_H
#define DYNTRACE_WRITER_ROTATE_H

#include "writer_state.h"

/* Ends the current piece if its time or its room is over, and removes the oldest pieces until
 * `need` bytes more are within the limits. */
struct error *writer_rotate(struct trace_writer *writer, uint64_t need);
/* False: the files of the next part (trace_writer.after) leave no room for an older packet. */
bool writer_has_room(const struct trace_writer *writer, uint64_t need);

/* Reads .pieces. A trace without that file has no older pieces. */
struct error *writer_pieces_read(struct trace_writer *writer);
/* Cuts off the fillers of older pieces' files. */
void writer_pieces_trim(const struct trace_writer *writer);
void writer_pieces_free(struct trace_writer *writer);
/* Removes .pieces: the trace is complete. */
void writer_pieces_forget(const struct trace_writer *writer);
/* Takes over the pieces of `before`, a dead controller's part, and its files behind them. False:
 * out of memory. */
bool writer_pieces_inherit(struct trace_writer *writer, const struct trace_writer *before);

/* Fails when so little space is left that recording has to stop (H39), which it does with a rest
 * for the losses and the metadata. `fd`: a file of the trace. */
struct error *writer_check_space(struct trace_writer *writer, int fd, uint64_t need);

#endif
