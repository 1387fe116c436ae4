#include "control/stop/sigframe.h"

#include <assert.h>
#include <cpuid.h>
#include <stdbool.h>
#include <string.h>

#include "shared/tiles.h"

#define FRAME_UC_FLAGS 7u /* extended state present, SS saved, SS restored strictly */
/* a mode unknown to sigaltstack: rt_sigreturn leaves the setting alone */
#define FRAME_KEEP_ALTSTACK 0x100
#define FRAME_XSTATE_MAGIC1 0x46505853u
#define FRAME_XSTATE_MAGIC2 0x46505845u
#define FRAME_SW_OFFSET 464u /* of the software-reserved bytes in the xsave area */
#define FRAME_BV_OFFSET 512u /* of the bitmap of components not in their initial state */

/* The kernel's rt_sigframe. */
struct frame_signal {
	uint64_t restorer;
	uint64_t uc_flags;
	uint64_t uc_link;
	uint64_t stack_at;
	uint32_t stack_flags;
	uint32_t stack_pad;
	uint64_t stack_size;
	uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
	uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
	uint16_t cs, gs, fs, ss;
	uint64_t err, trapno, oldmask, cr2;
	uint64_t fpstate;
	uint64_t reserved[8];
	uint64_t mask;
	uint8_t info[128];
};

_Static_assert(sizeof(struct frame_signal) == 440, "rt_sigframe");

struct frame_sw {
	uint32_t magic1;
	uint32_t extended_size;
	uint64_t features;
	uint32_t xstate_size;
};

uint64_t sigframe_room(size_t xstate_size)
{
	return FRAME_SCRATCH + 8 * FRAME_RESULTS + sizeof(struct frame_signal) + 16 + xstate_size +
	       4 + 64 + 64;
}

/* The end of the last of these components in an area that isn't compacted. */
static size_t xstate_extent(uint64_t features)
{
	size_t end = 576;

	for (unsigned i = 2; i < 63; i++) {
		unsigned a = 0, b = 0, c = 0, d = 0;

		if (!(features >> i & 1))
			continue;
		__cpuid_count(0xd, i, a, b, c, d);
		if (!(c & 1) && a && (size_t)a + b > end)
			end = (size_t)a + b;
	}
	return end;
}

static uint32_t count_tile_bytes(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;
	uint32_t low, high;

	if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE))
		return 0;
	__asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
	uint64_t features = low | (uint64_t)high << 32;
	return (uint32_t)(xstate_extent(features) -
			  xstate_extent(features & ~(1ULL << DT_TILE_DATA)));
}

/* The processor is asked once: in a virtual machine each question leaves it. */
uint32_t sigframe_tile_bytes(void)
{
	static uint32_t bytes;
	static bool is_known;

	if (!is_known)
		bytes = count_tile_bytes();
	is_known = true;
	return bytes;
}

/*
 * Bytes of the area that are this thread's own. The kernel takes an area bigger than the thread's
 * for damaged, and restores only SSE: so AMX's tile data count only where they are in use.
 */
static size_t xstate_used(const uint8_t *xstate, size_t size, uint64_t *ret_features)
{
	uint64_t features, in_use;

	memcpy(&features, xstate + FRAME_SW_OFFSET, sizeof(features));
	memcpy(&in_use, xstate + FRAME_BV_OFFSET, sizeof(in_use));
	if (!(in_use >> DT_TILE_DATA & 1))
		features &= ~(1ULL << DT_TILE_DATA);
	size_t used = xstate_extent(features);
	*ret_features = features;
	return used < size ? used : size;
}

/* Copies the area, with the marks by which rt_sigreturn knows an extended one. Returns its size
 * without the end mark. */
static size_t put_xstate(const struct sigframe_input *input, uint8_t *to)
{
	uint64_t features = 0;
	uint32_t magic2 = FRAME_XSTATE_MAGIC2;
	size_t used = 512;
	struct frame_sw sw = { 0 };

	if (input->xstate_size > 576)
		used = xstate_used(input->xstate, input->xstate_size, &features);
	memcpy(to, input->xstate, used);
	memset(to + FRAME_SW_OFFSET, 0, 512 - FRAME_SW_OFFSET);
	if (used == 512)
		return used;
	sw = (struct frame_sw){ FRAME_XSTATE_MAGIC1, (uint32_t)used + 4, features, (uint32_t)used };
	memcpy(to + FRAME_SW_OFFSET, &sw, 20);
	memcpy(to + used, &magic2, sizeof(magic2));
	return used;
}

static struct frame_signal make_signal(const struct sigframe_input *input, uint64_t fpstate)
{
	const struct user_regs_struct *r = &input->regs;

	return (struct frame_signal){
		.restorer = input->restorer,
		.uc_flags = FRAME_UC_FLAGS,
		.stack_flags = FRAME_KEEP_ALTSTACK,
		.r8 = r->r8, .r9 = r->r9, .r10 = r->r10, .r11 = r->r11,
		.r12 = r->r12, .r13 = r->r13, .r14 = r->r14, .r15 = r->r15,
		.rdi = r->rdi, .rsi = r->rsi, .rbp = r->rbp, .rbx = r->rbx,
		.rdx = r->rdx, .rax = r->rax, .rcx = r->rcx, .rsp = r->rsp,
		.rip = r->rip, .eflags = r->eflags,
		.cs = (uint16_t)r->cs, .ss = (uint16_t)r->ss,
		.fpstate = fpstate,
		.mask = input->mask,
	};
}

void sigframe_build(const struct sigframe_input *input, struct sigframe *ret_frame)
{
	struct sigframe *frame = ret_frame;
	size_t xstate_size = input->xstate_size;

	assert(xstate_size >= 512 && xstate_size <= FRAME_XSTATE_MAX);
	uint64_t xstate_at = (input->top - xstate_size - 4) & ~63ULL;
	/* The alignment at a function's entry: a call has just pushed 8 bytes on an aligned
	 * stack. */
	frame->rsp = ((xstate_at - sizeof(struct frame_signal)) & ~15ULL) - 8;
	frame->results = frame->rsp - 8 * FRAME_RESULTS;
	frame->scratch = frame->results - FRAME_SCRATCH;
	frame->low = frame->scratch;
	frame->size = xstate_at + xstate_size + 4 - frame->low;
	assert(frame->size <= FRAME_MAX);
	assert(frame->low + frame->size <= input->top);
	memset(frame->bytes, 0, frame->size);
	struct frame_signal signal = make_signal(input, xstate_at);
	memcpy(frame->bytes + (frame->rsp - frame->low), &signal, sizeof(signal));
	put_xstate(input, frame->bytes + (xstate_at - frame->low));
}
