//go:build race

package leasectl

// slower divides the sizes of large tests where everything takes many times as long: the race detector looks at the same
// code, and the full sizes are run without it.
const slower = 5
