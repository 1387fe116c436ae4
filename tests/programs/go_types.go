package main

import "fmt"

//go:noinline
func take(n int, small int8, s string, f float64, b []byte, last bool) int { return n + len(s) + len(b) }

func main() { fmt.Println(take(7, -3, "hello go", 2.5, []byte("some bytes"), true)) }
