/*
 * reads.h - what trampolines call that read the program's memory by plain loads and write the event
 * themselves (src/target/x86_64/reads.S; control/codegen/read_code.h generates the calls).
 *
 * A trampoline that can't go on gives up, and has the agent gather the event (program.h): nothing
 * has been written then, and no value counts.
 *
 * The routines are called through dt_control.reads. Carry set: done. Carry clear: give up.
 *
 *	DT_READ_TEXT	Copies ASCII from r10 up to a NUL, and the NUL, to r9, which moves on; at
 *			most edi bytes without the NUL. in: rbx = dt_state.pages, or stays. loses
 *			rax, rcx, rsi, rdi, r10, r11
 *			Stores "(null)" if r10 is 0.
 *	DT_READ_BYTES	Copies rsi bytes of ASCII, at most edi, and appends a NUL; the same.
 *	DT_READ_END	Writes the event. in: r8 = slot, edi = id, rbx = pool, r11 = image: the
 *			fields as they lie behind the event's first two words; r9 = its end. loses
 *			rax, rcx, rdx, rsi, rdi, r8 to r11
 *
 *	DT_READ_KEY	Finds a key in a table (keys.h). in: rdi = table, rsi = image, edx = its
 *			size. out: eax = index; 0: it isn't there, or can't be. Keeps rbx, rbp and
 *			r12 to r15 only; the carry has no meaning.
 *
 *	DT_READ_FRAMES	Stores a backtrace, from the stack that the thread is on alone. in: rdi =
 *			struct dt_control, rsi = slot, rdx = address of the code, rcx = rsp there,
 *			r8 = rbp there, r9 = where the field begins, with the most frames in its
 *			first 32 bits. out: rax = the field's end; 0: give up. Keeps the same
 *			registers as DT_READ_KEY. Beside the number:
 *			DT_READ_RETURNS: rdx is a return address.
 *			DT_READ_SHALLOW: take DT_READ_FRAMES_STACK bytes of the stack at most, and
 *			give up at an unusual frame.
 *			DT_READ_PART: give up if there may be more frames.
 *
 * The image begins at a multiple of 16; routines write up to DT_READ_BEYOND bytes beyond its end.
 *
 * DT_READ_MARK stands before each load in the trampoline itself: an instruction that does nothing,
 * with the distance from its end to where the thread goes on if the load fails. Rows of such code
 * have registers saved (dt_frame_kept), or no instruction to go on with; rows of moved instructions
 * haven't.
 */
#ifndef DYNTRACE_READS_H
#define DYNTRACE_READS_H

#define DT_READ_TEXT 0
#define DT_READ_BYTES 1
#define DT_READ_END 2
#define DT_READ_KEY 3
#define DT_READ_FRAMES 4
#define DT_READS 5
#define DT_READ_RETURNS 0x80000000u
#define DT_READ_SHALLOW 0x40000000u
#define DT_READ_PART 0x20000000u
#define DT_READ_COUNT 0x1fffffffu
#define DT_READ_BEYOND 32
/* Bytes of the stack that a routine takes at most, its return address included. */
#define DT_READ_STACK 64
#define DT_READ_FRAMES_STACK 240

#define DT_READ_MARK 0x801f0f /* nopl disp32(%rax): 3 bytes, and the distance */
#define DT_READ_MARK_LENGTH 7

#endif
