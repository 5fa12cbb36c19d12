//go:build !race

package leasectl

// slower divides the sizes of large tests where everything takes many times as long.
const slower = 1
