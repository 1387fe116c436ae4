#include "gather.h"

/* Memory that stays: a plain copy. */
static bool read_lasting(const struct dt_control *control, uint64_t from, void *to, uint64_t length)
{
	for (uint32_t i = 0; i < DT_LASTING_MAX && control->lasting[i].end; i++) {
		uint64_t end = control->lasting[i].end;

		if (from >= control->lasting[i].start && from < end && length <= end - from) {
			__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
			return true;
		}
	}
	return false;
}

/* Two pieces, split at a page's end: the kernel gives whole pieces or nothing of them. */
uint64_t safe_read(const struct dt_control *control, uint64_t from, void *to, uint64_t length)
{
	uint64_t first = DT_PAGE - (from & (DT_PAGE - 1));
	uint32_t pid = agent_state(control)->pid;
	struct sys_iovec local = { (uint64_t)to, length };
	struct sys_iovec remote[2] = { { from, length }, { from + first, 0 } };
	int64_t done;

	if (read_lasting(control, from, to, length))
		return length;
	if (first < length) {
		remote[0].length = first;
		remote[1].length = length - first;
	}
	done = sys_call6(SYS_PROCESS_VM_READV, pid ? pid : sys_getpid(), (uint64_t)&local, 1,
			 (uint64_t)remote, first < length ? 2 : 1, 0);
	return done < 0 ? 0 : (uint64_t)done;
}
