//go:build !race

package coord

// laneRaces tells that everything takes many times as long.
const laneRaces = false
