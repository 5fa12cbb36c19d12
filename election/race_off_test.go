//go:build !race

package election_test

const underRace = false
