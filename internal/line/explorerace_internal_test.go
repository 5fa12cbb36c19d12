//go:build race

package line

// raceDetector tells that everything takes many times as long.
const raceDetector = true
