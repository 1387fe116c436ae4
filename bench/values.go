// values NAME CALLS: calls a function that often, and prints the ns per call: the best of several rounds. As values.c, for Go.
package main

import (
	"os"
	"strconv"
	"time"
)

const rounds = 15

var sink int

//go:noinline
func tick() { sink++ }

// Has a stack check, since it calls a function.
//
//go:noinline
func text(s string) {
	tick()
	sink += len(s)
}

//go:noinline
func leaf() { tick() }

//go:noinline
func deep(depth int) {
	if depth > 1 {
		deep(depth - 1)
	} else {
		leaf()
	}
	sink++
}

func made(length int) string {
	text := make([]byte, length)
	for i := range text {
		text[i] = byte('a' + i%26)
	}
	return string(text)
}

func measure(calls int, call func()) float64 {
	best := 1e9
	for i := 0; i < rounds; i++ {
		begin := time.Now()
		for n := 0; n < calls; n++ {
			call()
		}
		if ns := float64(time.Since(begin).Nanoseconds()) / float64(calls); ns < best {
			best = ns
		}
	}
	return best
}

func main() {
	calls, _ := strconv.Atoi(os.Args[2])
	short, long := made(20), made(200)
	cases := map[string]func(){
		"text": func() { text("twenty bytes of text") },
		"heap": func() { text(short) },
		"long": func() { text(long) },
		"deep": func() { deep(4) },
	}
	os.Stdout.WriteString(strconv.FormatFloat(measure(calls, cases[os.Args[1]]), 'f', 3, 64) + "\n")
}
