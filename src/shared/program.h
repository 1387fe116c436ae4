/*
 * program.h - programs that the agent runs for events that need more than registers: they follow
 * pointers, copy strings, walk the stack.
 *
 * The controller writes one program per such tracepoint into sealed memory beside its trampoline;
 * the agent runs it at each hit (src/target/gather.c). A program is a sequence of operations on a
 * small stack of 64-bit numbers, with a few words of its own (DT_OP_SET). Jumps go forward only,
 * except at the end of a list's element, and a program's elements are counted: so every program
 * ends. The controller keeps the limits given here; the agent checks them again, since a broken
 * program must not break the target.
 *
 * The agent reads memory by a system call that can't fault. It stores a number that depends on
 * unreadable memory as 0, and lists the field's name in the event's `unreadable`.
 */
#ifndef DYNTRACE_PROGRAM_H
#define DYNTRACE_PROGRAM_H

#include <stdint.h>

#define DT_PROGRAM_STACK 16u
#define DT_PROGRAM_OPS_MAX 1024u
#define DT_PROGRAM_FIELDS_MAX 192u /* fields that can be listed as unreadable */
#define DT_STRING_MAX 1024u /* bytes of one string, including its NUL */
#define DT_FRAMES_MAX 128u
#define DT_PREFETCH_MAX 4u
#define DT_LOCALS_MAX 16u
#define DT_LISTS_MAX 3u /* inside each other */
#define DT_LIST_TURNS_MAX 1024u /* elements of all lists of an event */

/* dt_op.code; a, b, c are its operands; [x y -- z] is its effect on the stack. */
enum dt_op_code {
	DT_OP_END,
	/* values */
	DT_OP_REG, /* a: register (hardware number, or DT_REG_...) [-- value] */
	DT_OP_XMM, /* a: register, b: half [-- value] */
	DT_OP_KEPT, /* at an exit, a: word that the entry kept (returns.h) [-- value] */
	DT_OP_CONST, /* the next word [-- value] */
	DT_OP_LOAD, /* a: size, b: 1 signed [address -- value] */
	DT_OP_OFFSET, /* c, signed [x -- x + c] */
	DT_OP_BITS, /* a: shift, b: number of bits, c: 1 signed [x -- bits of x] */
	DT_OP_PICK, /* a: depth [-- copy] */
	DT_OP_DROP, /* [x --] */
	DT_OP_SWAP, /* [x y -- y x] */
	DT_OP_ROT, /* [x y z -- z x y] */
	DT_OP_ADD, /* binary operations, from here ... */
	DT_OP_SUB,
	DT_OP_MUL,
	DT_OP_DIV, /* by 0: 0, and unreadable */
	DT_OP_DIVU,
	DT_OP_MOD,
	DT_OP_MODU,
	DT_OP_AND,
	DT_OP_OR,
	DT_OP_XOR,
	DT_OP_SHL,
	DT_OP_SHR,
	DT_OP_SAR,
	DT_OP_EQ,
	DT_OP_NE,
	DT_OP_LT,
	DT_OP_LE,
	DT_OP_GT,
	DT_OP_GE,
	DT_OP_LTU,
	DT_OP_LEU,
	DT_OP_GTU,
	DT_OP_GEU,
	DT_OP_REAL_ADD, /* the same for real numbers, each the 64 bits of a double (real.h) */
	DT_OP_REAL_SUB,
	DT_OP_REAL_MUL,
	DT_OP_REAL_DIV,
	DT_OP_REAL_EQ,
	DT_OP_REAL_NE,
	DT_OP_REAL_LT,
	DT_OP_REAL_LE,
	DT_OP_REAL_GT,
	DT_OP_REAL_GE, /* ... to here */
	DT_OP_NEG, /* unary operations, from here ... */
	DT_OP_NOT,
	DT_OP_LNOT,
	DT_OP_ABS,
	DT_OP_REAL_WIDEN, /* a: 2 half, 3 the upper half of a single, 4 single; to a double */
	DT_OP_REAL_NARROW, /* to the 32 bits of a single */
	DT_OP_REAL_FROM, /* a: 1 unsigned, b: 1 rounded to a single; integer to real */
	DT_OP_REAL_TO, /* a: 1 unsigned ... to here */
	DT_OP_REAL_LOAD, /* [address of a long double -- double] */
	DT_OP_TREE_NEXT, /* a: 1 libc++ [node of a red-black tree of libstdc++ -- next in order] */
	/* a hash table of Rust [control bytes, slots - 1, slot -- that slot or the next in use] */
	DT_OP_TABLE_NEXT,
	/* a B-tree of Rust; offsets in nodes, 16 bits each: parent, parent_idx, len, edges
	 * [node, number, height, offsets -- node, number, height of the next key] */
	DT_OP_BTREE_NEXT,
	DT_OP_SET, /* a: local word; 0 if a read has failed since the last field [x --] */
	DT_OP_GET, /* a: local word [-- value] */
	DT_OP_CHECK, /* 0: what was read makes no sense, and counts as unreadable [x --] */
	DT_OP_SKIP, /* c: number of operations */
	DT_OP_SKIP_ZERO, /* c: number of operations to skip if 0 [x --] */
	DT_OP_TID, /* [-- value], likewise the next three */
	DT_OP_PID,
	DT_OP_CPU,
	DT_OP_HITS, /* b: 1 counts this hit first; c: counter */
	/* the event */
	DT_OP_REQUIRE, /* no event if x is 0 or unreadable [x --] */
	DT_OP_EVERY, /* c: counter; only the first and then every nth event [n --] */
	DT_OP_FIRST, /* c: counter; no event after the nth [n --] */
	DT_OP_RATE, /* c: counter; at most n events per period of the clock [n period --] */
	DT_OP_ALIGN, /* a: alignment in bytes */
	DT_OP_STORE, /* a: size, naturally aligned; c: field [value --] */
	DT_OP_COPY, /* a: alignment, b: bytes, c: field [address --] */
	/* a: bytes per character, 1, 2 or 4; b: most bytes; c: enum dt_string
	 * [address (length) --] */
	DT_OP_STRING,
	DT_OP_WIDE, /* a: 1 signed; a number of 128 bits, as a decimal string [low high --] */
	/* A list: its count as u32, then its elements, the first at `a`'s alignment; b: most
	 * elements; c: field [count --]. DT_OP_EACH follows. */
	DT_OP_LIST,
	/* Begins an element. a: local word that gets its number; b: bytes that all elements may
	 * take; c: number of operations up to its DT_OP_NEXT, without it */
	DT_OP_EACH,
	/* Ends an element. An element that couldn't be read, or takes the list beyond its bytes,
	 * is removed again, and ends the list. c: number of operations back to DT_OP_EACH */
	DT_OP_NEXT,
	/* a: number of addresses to be read soon; an unreadable one is no error [addresses --] */
	DT_OP_PREFETCH,
	/* a: 1 with a length; b: 1 glob; c: text of the program [address (length) -- 1 or 0] */
	DT_OP_MATCH,
	DT_OP_BACKTRACE, /* b: most frames; a sequence: u32 count, then u64s */
	DT_OP_COMM, /* the thread's name, as a string */
	DT_OP_UNREADABLE, /* the names of unreadable fields, as a string */
	/* The index of a key, to the first word of the image (keys.h). a: 1: the key is a number
	 * [x --], 0: the key is all fields. The next word: address of the table */
	DT_OP_KEY,
	DT_OP_VALUE, /* the value that is summed up, to the image's second word [x --] */
	DT_OP_CODES,
};

/* Registers of DT_OP_REG beyond the general ones. */
#define DT_REG_RIP 16
#define DT_REG_FLAGS 17
#define DT_REG_FS_BASE 18
#define DT_REG_GS_BASE 19
#define DT_REG_DURATION 20 /* at an exit: ns since the entry */
#define DT_REG_ST0 21 /* at an exit: address of st(0), for DT_OP_REAL_LOAD */
#define DT_REG_ST1 22 /* likewise st(1) */

/* End of a string: at a NUL; after a number of bytes; whichever comes first. OPTIONAL: after a
 * number of bytes, which means nothing if the address is 0. */
enum dt_string { DT_STRING_NUL, DT_STRING_COUNTED, DT_STRING_BOUNDED, DT_STRING_OPTIONAL };

/* The program's part in a pair: a call whose exit decides whether it is recorded (R10). */
enum dt_pair {
	DT_PAIR_NONE,
	/* its image stays beside the return stub; the image's second word becomes its size in
	 * bytes, up to the last field; 0: it wasn't made */
	DT_PAIR_ENTRY,
	/* writes the event of the pool, with the fields that the entry's program, or its
	 * trampoline, has stored */
	DT_PAIR_GATHERED,
	DT_PAIR_PLAIN,
};

struct dt_op {
	uint8_t code;
	uint8_t a;
	uint16_t b;
	uint32_t c;
};

/* In memory: this, then op_count operations, then texts. */
struct dt_program {
	uint32_t id; /* of the event */
	uint32_t size_max; /* of the event, a multiple of 8 */
	uint32_t op_count;
	uint32_t text_size; /* of all texts, each with its NUL; first field names, by number */
	uint64_t rip; /* of the probe; 0: at an exit */
	uint32_t pair; /* enum dt_pair */
	uint32_t pair_size; /* DT_PAIR_PLAIN: bytes of the entry's fields, a multiple of 8 */
	struct dt_op ops[];
};

/* Argument of dt_gather: the registers at the probe. */
struct dt_regs {
	uint64_t xmm[16][2]; /* only the registers that the program uses */
	/* by hardware number; at an exit rsi is the stub's slot, and rsi itself is in the word
	 * below rsp */
	uint64_t general[16];
	uint64_t flags;
	uint64_t duration; /* at an exit */
	uint64_t st0[2], st1[2]; /* 10 bytes each; only if the program uses them */
	/* where to write the event, dt_program.size_max bytes; 0: in the pool */
	uint64_t image;
	uint64_t pad;
};

_Static_assert(sizeof(struct dt_op) == 8, "dt_op");
_Static_assert(sizeof(struct dt_regs) == 448, "dt_regs");

/*
 * dt_gather in the agent, called by trampolines through dt_control.gather:
 *
 *   in:   rdi = struct dt_regs, rsi = struct dt_program, rbx = address of struct dt_control
 *   out:  rax = 1: the event was written; 0: it wasn't, and was counted as lost unless a condition
 *         turned it away
 *   kept: rsp, rbp, r12 to r15 and the direction flag; the trampoline has saved everything else
 */

/*
 * An event outside of the pool (dt_regs.image) has its fields from byte 16 on, and no header. The
 * two words before them are the results of DT_OP_KEY and DT_OP_VALUE.
 */

/*
 * A pair is one event of the pool, under the exit's id and with the exit's clock (B3 holds):
 *
 *	header, and the size if it varies
 *	clock of the entry, in the place of the entry event's header
 *	fields of the entry, up to a multiple of 8 bytes
 *	fields of the exit, each at its place behind a header that would stand in the word before
 *
 * The reader makes two events of it (control/record/pairs.c).
 */

/*
 * An event of variable size has its size in the lower half of the word after its header: the bytes
 * up to its last field, including header and this word. The upper half is the room that it takes in
 * the chunk, a multiple of 8; 0: as much as its size. The reader removes the word again. While the
 * event is pending the size is 0, until its fields are written; a pending event with both may have
 * given the rest of its room back. If the whole word is 0, the fields are 0, too.
 */
#define DT_SPAN_SHIFT 32
static inline uint32_t dt_event_size(uint64_t word)
{
	return (uint32_t)word;
}
/* 0: unknown. */
static inline uint32_t dt_event_span(uint64_t word)
{
	uint32_t span = (uint32_t)(word >> DT_SPAN_SHIFT);

	return span ? span : (uint32_t)(((word & 0xffffffff) + 7) & ~7ULL);
}

#endif
