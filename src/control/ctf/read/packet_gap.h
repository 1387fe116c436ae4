/*
 * packet_gap.h - packets that are missing in a trace, and which threads may miss them.
 *
 * Files are lanes of several threads (H22): where the numbers of a file's packets have a gap, the
 * missing ones may be of any thread. They lay in time between the packets around the gap. So a
 * thread may miss one where the time between two of its own packets meets a gap.
 */
#ifndef DYNTRACE_PACKET_GAP_H
#define DYNTRACE_PACKET_GAP_H

#include "control/base/vec.h"
#include "packet_cursor.h"

struct packet_gap {
	uint64_t begin, end; /* clocks of the packets around it */
	uint64_t packets; /* how many are missing */
};

struct packet_gaps {
	VEC(struct packet_gap) items; /* after packet_gaps_join: in order, and apart */
	uint64_t packets; /* of all */
};

/* Notes what is missing between two packets of a file. False: out of memory. */
bool packet_gaps_note(struct packet_gaps *gaps, const struct cursor_before *before,
		      const struct metadata_packet *head);
void packet_gaps_join(struct packet_gaps *gaps);
/* The first gap that meets that time; NULL: none. */
const struct packet_gap *packet_gaps_find(const struct packet_gaps *gaps, uint64_t from,
					  uint64_t to);

/* A thread on its way through its packets. Begins with all zero. */
struct gap_watch {
	bool is_begun;
	uint64_t sequence, begin, end; /* of its last packet */
};

/* For each item that a cursor gives: the gap that may have swallowed packets before the cursor's
 * packet; NULL: none, or the packet is known already. */
const struct packet_gap *gap_watch_item(struct gap_watch *watch, const struct packet_gaps *gaps,
					const struct packet_cursor *cursor);
/* The same, behind the thread's last packet. */
const struct packet_gap *gap_watch_end(const struct gap_watch *watch,
				       const struct packet_gaps *gaps);

#endif
