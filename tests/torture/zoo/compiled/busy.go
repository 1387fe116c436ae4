// Goroutines, channels, panics, nil pointers, growing stacks, collections: one line per round.
package main

import (
	"fmt"
	"os"
	"regexp"
	"runtime"
	"sort"
	"strconv"
	"strings"
)

type node struct {
	left, right *node
	value       int
}

//go:noinline
func build(depth int) *node {
	if depth == 0 {
		return nil
	}
	return &node{build(depth - 1), build(depth - 1), depth}
}

//go:noinline
func sum(n *node) int {
	if n == nil {
		return 0
	}
	return n.value + sum(n.left) + sum(n.right)
}

//go:noinline
func deep(n int) int {
	var room [64]int
	if n == 0 {
		return room[n]
	}
	room[n%64] = n
	return deep(n-1) + room[n%64]
}

func caught(n int) (result int) {
	defer func() {
		if e := recover(); e != nil {
			result = len(fmt.Sprint(e))
		}
	}()
	var none *node
	switch n % 4 {
	case 0:
		return none.value
	case 1:
		return n / (n - n)
	case 2:
		return []int{1}[n]
	default:
		panic("no " + strconv.Itoa(n))
	}
}

func round() string {
	results := make(chan int)
	for n := 0; n < 8; n++ {
		go func(n int) { results <- sum(build(10)) + deep(100*n) }(n)
	}
	total := 0
	for n := 0; n < 8; n++ {
		total += <-results
	}
	errors := 0
	for n := 1; n <= 60; n++ {
		errors += caught(n)
	}
	table := map[string][]int{}
	for i := 0; i < 2000; i++ {
		key := "k" + strconv.Itoa(i*31%401)
		table[key] = append(table[key], i)
	}
	keys := []string{}
	for key := range table {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	text := regexp.MustCompile("[13579]+").ReplaceAllString(strings.Join(keys, ","), "x")
	runtime.GC()
	return fmt.Sprint(total, errors, len(text), text[:20])
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	for ; count > 0; count-- {
		if _, err := os.Stat("stop"); err == nil {
			break
		}
		fmt.Println(round())
	}
}
