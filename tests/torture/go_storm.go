// go_storm.go - all that Go's runtime does to stacks and threads at once, with its results checked: stacks that grow, a
// collector that never rests, the profiler's signals, panics, tracebacks of all goroutines. Runs until standard input has a
// line (or for the number of rounds given), then prints how often each function was called.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

var deeps, wides, walks, fails, leaves, methods int64

func wrong(what string, values ...interface{}) {
	fmt.Println("wrong", what, values)
	os.Exit(3)
}

//go:noinline
func deep(n int) int {
	atomic.AddInt64(&deeps, 1)
	if n == 0 {
		return walk()
	}
	var kept [16]int
	kept[n%16] = n
	return deep(n-1) + kept[n%16] - n
}

// A frame for which the check needs an instruction more.
//
//go:noinline
func wide(n int, text string) int {
	atomic.AddInt64(&wides, 1)
	var kept [100]int
	for i := range kept {
		kept[i] = n + len(text)
	}
	if n > 0 {
		return wide(n-1, text) + kept[n%100] - n
	}
	return kept[99]
}

// Counts the frames of deep: a return address that the runtime doesn't know would end the walk.
//
//go:noinline
func walk() int {
	atomic.AddInt64(&walks, 1)
	var pcs [256]uintptr
	frames, found := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])]), 0
	for {
		frame, more := frames.Next()
		if frame.Function == "main.deep" {
			found++
		}
		if !more {
			return found
		}
	}
}

//go:noinline
func fail(p *int) (result int) {
	atomic.AddInt64(&fails, 1)
	defer func() {
		if recover() != nil {
			result = -1
		}
	}()
	return *p
}

//go:noinline
func panics(n int) {
	if n == 0 {
		panic("deep")
	}
	defer func() {
		if n%7 == 0 {
			if r := recover(); r != nil {
				panic(r)
			}
		}
	}()
	panics(n - 1)
}

//go:noinline
func leaf(n int) int {
	atomic.AddInt64(&leaves, 1)
	return n + 1
}

type point struct{ x, y int }

//go:noinline
func (p *point) Sum(n int) int {
	atomic.AddInt64(&methods, 1)
	return p.x + p.y + n
}

type summer interface{ Sum(int) int }

func caught() (text interface{}) {
	defer func() { text = recover() }()
	panics(30)
	return nil
}

func round(i int) {
	depth := i%60 + 1
	result := make(chan int)
	go func() { result <- deep(depth) }()
	if got := <-result; got != depth+1 {
		wrong("walk", got, depth+1)
	}
	go func() { result <- wide(depth, "text") }()
	if got := <-result; got != 4*(depth+1) {
		wrong("wide", got, depth)
	}
	if fail(nil) != -1 || caught() != "deep" || leaf(i) != i+1 {
		wrong("fail", i)
	}
	var s summer = &point{i, 1}
	if s.Sum(2) != i+3 || reflect.ValueOf(s).MethodByName("Sum").Call([]reflect.Value{reflect.ValueOf(3)})[0].Int() != int64(i+4) {
		wrong("sum", i)
	}
	kept := map[string][]byte{}
	for k := 0; k < 50; k++ {
		kept[strconv.Itoa(k)] = make([]byte, 100*k)
	}
	if len(kept["49"]) != 4900 {
		wrong("map")
	}
	native(i)
}

func main() {
	rounds := 1 << 60
	if len(os.Args) > 1 {
		rounds, _ = strconv.Atoi(os.Args[1])
	}
	debug.SetGCPercent(1)
	var done int32
	var all, helpers sync.WaitGroup
	helpers.Add(2)
	go func() { // SIGPROF
		defer helpers.Done()
		for atomic.LoadInt32(&done) == 0 {
			pprof.StartCPUProfile(io.Discard)
			time.Sleep(100 * time.Millisecond)
			pprof.StopCPUProfile()
		}
	}()
	go func() { // tracebacks of all goroutines, which stop the world
		defer helpers.Done()
		text := make([]byte, 1<<20)
		for atomic.LoadInt32(&done) == 0 {
			if !strings.HasPrefix(string(text[:runtime.Stack(text, true)]), "goroutine ") {
				wrong("stack")
			}
			time.Sleep(time.Millisecond)
		}
	}()
	for g := 0; g < 8; g++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for i := 0; i < rounds && atomic.LoadInt32(&done) == 0; i++ {
				round(i)
			}
		}()
	}
	if len(os.Args) == 1 {
		fmt.Println("ready")
		bufio.NewReader(os.Stdin).ReadString('\n')
		atomic.StoreInt32(&done, 1)
	}
	all.Wait()
	atomic.StoreInt32(&done, 1)
	helpers.Wait()
	fmt.Println("deep", deeps, "wide", wides, "walk", walks, "fail", fails, "leaf", leaves, "(*point).Sum", methods)
}
