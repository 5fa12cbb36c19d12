// Package mutants takes each check that safety depends on out of the code, one at a
// time, and shows which test notices. It has tests only.
//
// A mutant is a row of the table: a text that occurs once in a file, and what stands
// there instead. All of them are built at once: each function that has mutants is
// kept beside its mutated copies, and which of them runs is decided by an environment
// variable, so that one test binary per package serves all its mutants, and processes
// that a test starts are mutated too. TestMutantsAreCaught runs them where it is asked
// for, which takes many minutes (make mutants); TestEveryMutantApplies, which always
// runs, only sees that the table still fits the code.
package mutants
