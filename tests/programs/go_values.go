// go_values.go - strings of all kinds of memory: literals, the heap, also where it grows, and memory that goes away; and callers. Imports
// little: the compiler builds all of it for each test.
package main

import (
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"syscall"
	"unsafe"
)

const hits = 2000

var sink int

//go:noinline
func text(s string) { sink += len(s) }

//go:noinline
func word(s string) { sink += len(s) }

//go:noinline
func tick() { sink++ }

// Has a stack check, since it calls a function.
//
//go:noinline
func line(s string) {
	tick()
	sink += len(s)
}

func makeString(at uintptr, length int) (s string) {
	header := (*reflect.StringHeader)(unsafe.Pointer(&s))
	header.Data, header.Len = at, length
	return s
}

func addressOf(bytes []byte) uintptr { return uintptr(unsafe.Pointer(&bytes[0])) }

// A string in the heap.
func made(words string) string { return string(append(make([]byte, 0, 100), words...)) }

// Memory that is no heap: another thread could unmap it at any time. 0: the kernel chooses the address.
func mapped(at uintptr) {
	at, _, failed := syscall.Syscall6(syscall.SYS_MMAP, at, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE,
		^uintptr(0), 0)
	if failed != 0 {
		panic(failed)
	}
	for i, letter := range []byte("in a page") {
		*(*byte)(unsafe.Pointer(at + uintptr(i))) = letter
	}
	s := makeString(at, 9)
	text(s)
	text(s)
	syscall.Syscall(syscall.SYS_MUNMAP, at, 4096, 0)
	text(s)
	text(makeString(4711, 5))
}

// Freed heap. The collector doesn't run while there is a string in it.
func freed() {
	big := make([]byte, 8<<20)
	at := addressOf(big)
	copy(big[4<<20:], "in the heap")
	s := makeString(at+4<<20, 11)
	text(s)
	text(s)
	big, s = nil, ""
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	debug.SetGCPercent(-1)
	s = makeString(at+4<<20, 11)
	text(s)
	s = ""
	debug.SetGCPercent(100)
}

var kept [][]byte

var protect = func(page []byte, on bool) {}

// A page of the heap that the program protects, if it can.
func protected() {
	big := make([]byte, 1<<20)
	at := (addressOf(big) + 4095) &^ 4095
	page := big[at-addressOf(big):][:4096]
	copy(page, "in the heap")
	s := makeString(at, 11)
	text(s)
	text(s)
	protect(page, true)
	text(s)
	protect(page, false)
	text(s)
}

// Strings far apart, in arenas that the heap hasn't had before.
func grown() {
	for i := 0; i < 5; i++ {
		big := make([]byte, 48<<20)
		kept = append(kept, big)
		copy(big[24<<20:], "far away")
		s := makeString(addressOf(big)+24<<20, 8)
		text(s)
		text(s)
	}
}

func many(heaps ...string) {
	long := string(append(make([]byte, 0, 300), "many "...))
	for len(long) < 250 {
		long += "words"
	}
	for i := 0; i < hits; i++ {
		text("twenty bytes of text")
		word(heaps[i%len(heaps)])
		line(long)
	}
}

func wait() bool {
	n, _ := os.Stdin.Read(make([]byte, 1))
	return n == 1
}

// Makes its calls for each byte of its input.
func watched(heaps ...string) {
	for wait() {
		many(heaps...)
		println("done")
	}
}

// Prints the return addresses above it.
//
//go:noinline
func leaf(n int) {
	var callers [64]uintptr
	print("callers")
	for _, pc := range callers[:runtime.Callers(2, callers[:])] {
		print(" ", pc)
	}
	println()
	sink += n
}

// Its frame is as large as n says: a stack that is too small is copied.
//
//go:noinline
func deep(n int) {
	var kept [40]int
	kept[n%40] = n
	if n > 0 {
		deep(n - 1)
	} else {
		leaf(n)
	}
	sink += kept[n%40]
}

type shape interface{ draw(n int) }
type round struct{ n int }

func (r round) draw(n int) {
	deep(n + r.n)
}

func frames() {
	leaf(1)
	deep(3)
	var s shape = &round{1} // through a wrapper
	s.draw(2)
	func() {
		defer func() {
			recover()
			leaf(2)
		}()
		var none *round
		none.n++ // a signal
	}()
	done := make(chan bool)
	go func() {
		defer func() { done <- true }()
		deep(40)
	}()
	<-done
}

func main() {
	switch os.Args[1] {
	case "mapped":
		mapped(0)
	case "above":
		mapped(0xd000000000) // where the heap may grow to
	case "freed":
		freed()
	case "protected-later":
		println("ready")
		wait()
		protected()
	case "grown":
		grown()
	case "frames":
		frames()
	case "watched":
		heap := made("in the heap")
		many(heap)
		println("ready")
		watched(heap)
	case "grown-later":
		println("ready")
		wait()
		grown()
		println("done")
		var far []string
		for _, big := range kept {
			far = append(far, makeString(addressOf(big)+24<<20, 8))
		}
		watched(far...)
	}
}
