//go:build !race

package coord

// raceDetector tells that everything takes many times as long.
const raceDetector = false
