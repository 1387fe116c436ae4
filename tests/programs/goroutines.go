// goroutines.go - calls in goroutines whose stacks grow, while the collector runs and panics are recovered. Prints how
// often each function was called. Imports little: the compiler builds all of it for each test.
package main

import (
	"runtime"
	"sync/atomic"
)

var counts, deeps, fails, picks int64

//go:noinline
func count(n int, s string) int {
	atomic.AddInt64(&counts, 1)
	return n*3 + len(s)
}

// Its frame is larger than the part of the stack that small functions may use without a check.
//
//go:noinline
func deep(n int) int {
	atomic.AddInt64(&deeps, 1)
	var kept [64]int
	kept[n%64] = n
	if n == 0 {
		return count(1, "x")
	}
	return deep(n-1) + kept[n%64] - n
}

// Has no stack check, and ends in the call of a panic.
//
//go:noinline
func pick(from []int, n int) int {
	atomic.AddInt64(&picks, 1)
	return from[n]
}

//go:noinline
func fail(n int, p *int) (result int) {
	atomic.AddInt64(&fails, 1)
	defer func() {
		if recover() != nil {
			result = -1
		}
	}()
	return n + *p
}

func main() {
	done, steps := make(chan int), []int{1, -1, 2, -2}
	for g := 0; g < 8; g++ {
		go func() {
			failed := 0
			for i := 0; i < 300; i++ {
				result := make(chan int)
				go func() { result <- deep(i % 100) }() // a new stack, which grows
				<-result
				failed += fail(i, nil)
				count(i, "text")
				failed += pick(steps, i%4)
				if i%50 == 0 {
					runtime.GC()
				}
			}
			done <- failed
		}()
	}
	failed := 0
	for g := 0; g < 8; g++ {
		failed += <-done
	}
	println("count", counts, "deep", deeps, "fail", fails, "pick", picks, failed)
}
