//go:build !race

package workqueue_test

// slower divides the sizes of large tests where everything takes many times as long.
const slower = 1
