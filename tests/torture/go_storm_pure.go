//go:build !cgo

// go_storm_pure.go - a program without C code.
package main

func native(i int) {}
