//go:build cgo

// go_storm_native.go - calls of C code, which calls Go back.
package main

/*
extern int goBack(int);
static int there(int n) { return goBack(n) + 1; }
static int native_sum(int a, int b, int c) { return a + b * 10 + c * 100 + there(a); }
*/
import "C"

//export goBack
func goBack(n C.int) C.int { return C.int(deep(int(n)%20)*0) + n }

func native(i int) {
	n := C.int(i % 1000)
	if got := C.native_sum(n, 2, 3); got != n+320+n+1 {
		wrong("native", got, i)
	}
}
