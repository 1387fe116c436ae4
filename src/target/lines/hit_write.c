/*
 * hit_write.c - write a line to a descriptor of the program's own: never for long, and without a
 * trace of it in the program's signals.
 *
 * The descriptor's flags are the program's, too: O_NONBLOCK can't be set there. POLLOUT alone isn't
 * enough: others may fill the pipe between poll and write. So each kind of file is written in its
 * own way (as in control/tracers/log/output.c).
 */
#include "lines.h"

#define TERMINAL_PIECE 128u /* a terminal with room takes this much plain text */
#define WRITER_PAUSE_NS 1000000u
#define WRITER_TRIES 200u /* pauses for another thread's line; then it counts as gone */

#define RWF_NOWAIT 8u
#define MSG_QUIETLY 0x4040u /* MSG_DONTWAIT | MSG_NOSIGNAL */
#define POLL_OUT 4u
#define EINTR_ 4
#define EAGAIN_ 11
#define EBADF_ 9
#define EFBIG_ 27
#define EPIPE_ 32
#define ECONNRESET_ 104
#define ENOTCONN_ 107
#define EOPNOTSUPP_ 95
#define SIGPIPE_BIT (1ULL << 12)
#define SIGXFSZ_BIT (1ULL << 24)

void hit_leave_out(const struct dt_line *line, enum dt_line_reason reason)
{
	struct dt_line_shared *shared = (struct dt_line_shared *)line->shared;

	__atomic_fetch_add(&shared->left_out[reason], 1, __ATOMIC_RELAXED); /* I11 */
}

/* (I12) */
static bool is_same_file(const struct dt_line *line)
{
	uint64_t stat[18]; /* the kernel's struct stat */

	return sys_call3(SYS_FSTAT, (uint64_t)line->fd, (uint64_t)stat, 0) == 0 &&
	       stat[0] == line->device && stat[1] == line->inode;
}

/* Waits until the descriptor takes bytes, or `ms` have passed. */
static bool has_room(const struct dt_line *line, uint64_t ms)
{
	struct {
		int32_t fd;
		uint16_t events, revents;
	} poll = { line->fd, POLL_OUT, 0 };

	return sys_call3(SYS_POLL, (uint64_t)&poll, 1, ms) > 0;
}

/* ---- one write ------------------------------------------------------------------------------- */

/* Kernels before 6.5 know no RWF_NOWAIT for pipes: a pipe with room for a page takes the line,
 * unless somebody else fills it just now. */
static int64_t write_pipe(const struct dt_line *line, const char *bytes, uint64_t count)
{
	struct sys_iovec vector = { (uint64_t)bytes, count };
	int64_t written = sys_call6(SYS_PWRITEV2, (uint64_t)line->fd, (uint64_t)&vector, 1,
				    UINT64_MAX, UINT64_MAX, RWF_NOWAIT);

	if (written != -EOPNOTSUPP_)
		return written;
	if (!has_room(line, 0))
		return -EAGAIN_;
	return sys_call3(SYS_WRITE, (uint64_t)line->fd, (uint64_t)bytes, count);
}

/* Plain text, or one byte that may become several. */
static int64_t write_terminal(const struct dt_line *line, const char *bytes, uint64_t count)
{
	uint64_t plain = 0;

	while (plain < count && plain < TERMINAL_PIECE && (uint8_t)bytes[plain] >= ' ')
		plain++;
	if (!has_room(line, 0))
		return -EAGAIN_;
	return sys_call3(SYS_WRITE, (uint64_t)line->fd, (uint64_t)bytes, plain ? plain : 1);
}

static int64_t write_some(const struct dt_line *line, const char *bytes, uint64_t count)
{
	switch (line->way) {
	case DT_LINE_PIPE: return write_pipe(line, bytes, count);
	case DT_LINE_TERMINAL: return write_terminal(line, bytes, count);
	case DT_LINE_SOCKET:
		return sys_call6(SYS_SENDTO, (uint64_t)line->fd, (uint64_t)bytes, count,
				 MSG_QUIETLY, 0, 0);
	default: return sys_call3(SYS_WRITE, (uint64_t)line->fd, (uint64_t)bytes, count);
	}
}

/* ---- signals --------------------------------------------------------------------------------- */

/* A signal that is pending although the thread doesn't block it can't be: it would have come. */
static uint64_t pending_before(uint64_t mask)
{
	uint64_t pending = 0;

	if (mask & (SIGPIPE_BIT | SIGXFSZ_BIT))
		sys_call3(SYS_RT_SIGPENDING, (uint64_t)&pending, 8, 0);
	return pending;
}

/* (I14) The kernel gives the thread's own signals before those of the process. */
static void take_back(int64_t error, uint64_t pending)
{
	uint64_t signals = error == -EPIPE_ ? SIGPIPE_BIT : error == -EFBIG_ ? SIGXFSZ_BIT : 0;
	uint64_t at_once[2] = { 0, 0 };

	if (signals & ~pending)
		sys_call6(SYS_RT_SIGTIMEDWAIT, (uint64_t)&signals, 0, (uint64_t)at_once, 8, 0, 0);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Lines that take several writes come one by one. A writer that stays was killed, or has left by
 * no way of ours: its turn is over. */
static void take_turn(struct dt_line_output *output)
{
	uint32_t none = 0, tid = sys_gettid();

	for (uint32_t i = 0; i < WRITER_TRIES; i++, none = 0) {
		if (__atomic_compare_exchange_n(&output->writer, &none, tid, false,
						__ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return;
		sys_futex_wait(&output->writer, none, WRITER_PAUSE_NS);
	}
	__atomic_store_n(&output->writer, tid, __ATOMIC_RELAXED);
}

static void end_turn(struct dt_line_output *output)
{
	__atomic_store_n(&output->writer, 0, __ATOMIC_RELEASE);
	sys_futex_wake(&output->writer);
}

static void note_error(const struct dt_line *line, int64_t error)
{
	struct dt_line_shared *shared = (struct dt_line_shared *)line->shared;
	bool is_unread = error == -EPIPE_ || error == -ECONNRESET_ || error == -ENOTCONN_;

	if (!is_unread && error != -EBADF_)
		__atomic_store_n(&shared->error_number, (uint32_t)-error, __ATOMIC_RELAXED);
	hit_leave_out(line, is_unread	       ? DT_LINE_UNREAD :
			    error == -EBADF_ ? DT_LINE_ELSEWHERE :
					       DT_LINE_FAILED);
}

/* Writes what it can; *ret_done: how much. Gives 0 or the error. A line that was begun is ended
 * within the bound. */
static int64_t write_all(const struct dt_line *line, const char *bytes, uint32_t length,
			 uint32_t *ret_done)
{
	uint64_t end = 0;
	uint32_t done = 0;
	int64_t written = 0;

	while (done < length) {
		written = write_some(line, bytes + done, length - done);
		if (written > 0) {
			done += (uint32_t)written;
		} else if (written == -EAGAIN_ && done) {
			uint64_t now = sys_now_ns();

			end = end ? end : now + DT_LINE_WAIT_MS * 1000000ULL;
			if (now >= end)
				break;
			has_room(line, (end - now) / 1000000 + 1);
		} else if (written != -EINTR_) {
			break;
		}
	}
	*ret_done = done;
	return done == length ? 0 : written ? written : -EAGAIN_;
}

/* A line whose end was lost is ended before the next. */
static void mend_torn(const struct dt_line *line, struct dt_line_output *output)
{
	if (__atomic_load_n(&output->torn, __ATOMIC_RELAXED) && write_some(line, "\n", 1) > 0)
		__atomic_store_n(&output->torn, 0, __ATOMIC_RELAXED);
}

uint64_t hit_write(const struct dt_line *line, const char *bytes, uint32_t length, uint64_t mask,
		   bool wait)
{
	struct dt_line_output *output = (struct dt_line_output *)line->output;
	struct dt_line_shared *shared = (struct dt_line_shared *)line->shared;
	bool in_turn = line->way == DT_LINE_TERMINAL || line->way == DT_LINE_SOCKET;
	uint64_t pending = pending_before(mask);
	uint32_t done;

	if (!is_same_file(line)) {
		hit_leave_out(line, DT_LINE_ELSEWHERE);
		return 0;
	}
	if (in_turn)
		take_turn(output);
	mend_torn(line, output);
	int64_t error = write_all(line, bytes, length, &done);
	if (done && error)
		__atomic_store_n(&output->torn, 1, __ATOMIC_RELAXED);
	if (in_turn)
		end_turn(output);
	take_back(error, pending);
	if (error == -EAGAIN_ && !done && wait)
		return HIT_AGAIN;
	if (error == -EAGAIN_) {
		__atomic_store_n(&output->expired, 1, __ATOMIC_RELAXED); /* I13 */
		hit_leave_out(line, DT_LINE_FULL);
	} else if (error) {
		note_error(line, error);
	} else {
		if (__atomic_load_n(&output->expired, __ATOMIC_RELAXED))
			__atomic_store_n(&output->expired, 0, __ATOMIC_RELAXED);
		__atomic_fetch_add(&shared->written, 1, __ATOMIC_RELAXED); /* I11 */
	}
	return 0;
}

/* (I13) */
void hit_wait(const struct dt_line *line, uint64_t *deadline)
{
	uint64_t now = sys_now_ns();

	if (!*deadline)
		*deadline = now + DT_LINE_WAIT_MS * 1000000ULL;
	if (now < *deadline)
		has_room(line, (*deadline - now) / 1000000 + 1);
}
