#include "log_share.h"

#include <assert.h>

#include "control/base/now.h"
#include "control/base/plural.h"
#include "daemon/base/log.h"
#include "supervisor.h"

#define LINES_MAX 1000
#define LINE_NS 100000000ULL /* one more after so long */

static void count_down(struct log_share *share, uint64_t now)
{
	uint64_t lines = (now - share->since) / LINE_NS;

	share->since += lines * LINE_NS;
	share->used -= lines < share->used ? lines : share->used;
}

/* In a full table the user who has used least gives way. */
static struct log_share *new_share(struct log_shares *shares, uint64_t now)
{
	struct log_share *least = &shares->items[0];

	if (shares->count < LOG_SHARES_MAX)
		return &shares->items[shares->count++];
	for (unsigned i = 0; i < shares->count; i++) {
		count_down(&shares->items[i], now);
		if (shares->items[i].used < least->used)
			least = &shares->items[i];
	}
	return least;
}

static struct log_share *find_share(struct log_shares *shares, uid_t uid, uint64_t now)
{
	for (unsigned i = 0; i < shares->count; i++) {
		if (shares->items[i].uid == uid)
			return &shares->items[i];
	}
	struct log_share *share = new_share(shares, now);
	*share = (struct log_share){ .uid = uid, .since = now };
	return share;
}

static bool take(struct log_shares *shares, uid_t uid)
{
	uint64_t now = now_ns();
	struct log_share *share = find_share(shares, uid, now);

	assert(share->uid == uid);
	count_down(share, now);
	if (share->used >= LINES_MAX) {
		share->left_out++;
		return false;
	}
	share->used++;
	if (share->left_out)
		log_line("uid=%u: %lu line%s left out: too many at once", uid, share->left_out,
			 PLURAL(share->left_out));
	share->left_out = 0;
	return true;
}

bool log_share_take(struct supervisor *supervisor, uid_t uid)
{
	return supervisor_is_master(supervisor, uid) || take(&supervisor->log_shares, uid);
}

bool log_share_take_failure(struct supervisor *supervisor, uid_t uid)
{
	return supervisor_is_master(supervisor, uid) || take(&supervisor->failure_shares, uid);
}
