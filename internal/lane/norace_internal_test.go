//go:build !race

package lane

// raceDetector tells that everything takes many times as long.
const raceDetector = false
