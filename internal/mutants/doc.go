// Package mutants takes each check that safety depends on out of the code, one at a
// time, and shows which test notices. It has tests only.
//
// A mutant is a row of the table: a name, what is done to the code, and the tests that
// are to notice. The code has a marker of that name, a comment, where it is done:
//
//	if f.Token <= 0 { //mutant:fence-without-token
//
// At the end of a line a marker marks what begins first on the line, alone on a line
// what begins next, and /*mutant:name*/ what follows it on its line: an operand, say.
// So neither a new name nor another file loses a mutant. In a list, what is marked has
// a line of its own, since gofmt moves a comment that follows a comma.
//
// All mutants are built at once: each function that has any is kept beside its mutated
// copies, and which of them runs is decided by an environment variable, so that one
// test binary per package serves all its mutants, and processes that a test starts are
// mutated too. TestMutantsAreCaught runs all of them where it is asked for, which takes
// many minutes (make mutants), and else those of one package without etcd.
// TestEveryMutantApplies sees that table, markers and page agree and that the mutated
// code compiles.
package mutants
