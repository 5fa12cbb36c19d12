//go:build race

package integration_test

// raceDetector tells that everything is several times slower.
const raceDetector = true
