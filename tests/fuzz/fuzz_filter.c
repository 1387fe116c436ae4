/*
 * Seccomp filters: a struct bpf_call, then instructions. Whatever they are, evaluating ends, and no
 * value of an unknown word gives a stricter answer (E2).
 */
#include "control/fence/bpf_eval.h"
#include "fuzz.h"

/* A path that ends early because it may divide by 0 hides what comes behind. */
static void require_no_stricter(const struct sock_filter *code, size_t count,
				const struct bpf_call *call, uint32_t strictest)
{
	uint32_t exact = SECCOMP_RET_KILL_PROCESS;

	bpf_eval(code, count, call, &exact);
	REQUIRE(!bpf_is_stricter(exact, strictest));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	uint32_t unknown, data = sizeof(struct seccomp_data), strictest;
	struct bpf_call call = { 0 };

	if (size < data + sizeof(unknown))
		return 0;
	memcpy(&call.data, bytes, data);
	memcpy(&unknown, bytes + data, sizeof(unknown));
	bytes += data + sizeof(unknown);
	size -= data + sizeof(unknown);
	size_t count = size / sizeof(struct sock_filter);
	struct sock_filter *code = malloc(count * sizeof(*code) + 1);
	REQUIRE(code);
	memcpy(code, bytes, count * sizeof(*code));
	call.unknown = unknown;
	if (bpf_eval(code, count, &call, &strictest)) {
		call.unknown = 0;
		require_no_stricter(code, count, &call, strictest);
		for (size_t word = 0; word < BPF_EVAL_WORDS; word++) {
			if (unknown >> word & 1)
				((uint32_t *)&call.data)[word] ^= (uint32_t)(size * 2654435761u);
		}
		require_no_stricter(code, count, &call, strictest);
	}
	free(code);
	return 0;
}
