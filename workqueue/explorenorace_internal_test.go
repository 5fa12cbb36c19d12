//go:build !race

package workqueue

// raceDetector tells that everything takes many times as long.
const raceDetector = false
