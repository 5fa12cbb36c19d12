package doctor

import (
	"fmt"

	"github.com/leasekit/leasekit/internal/escape"
)

// Problem is what is said of one thing that is wrong, wherever it is seen: by a check, or on a screen that counts anyway.
type Problem struct {
	Code, What string
	// Fixable tells that leasectl doctor --fix mends it; else Advice says what helps.
	Fixable bool
	Advice  string
}

// Run is the command, or else the advice, that helps.
func (p Problem) Run() string {
	if p.Fixable {
		return "leasectl doctor --fix"
	}
	return p.Advice
}

// UnreadableConfig is the problem of a queue whose config cannot be read.
func UnreadableConfig(queue string) Problem {
	return Problem{Code: "Q4", What: fmt.Sprintf("config of queue %s cannot be read", named(queue)), Fixable: true}
}

// BadSettings is the problem of settings of a queue that nobody goes by, and why.
func BadSettings(queue, why string) Problem {
	return Problem{Code: "Q5", What: fmt.Sprintf("settings of queue %s that nobody goes by: %s", named(queue), escape.Text(why)), Fixable: true}
}

// NewerRecords is the problem of records of a queue that a newer program wrote: nothing is wrong with them.
func NewerRecords(queue string, n int) Problem {
	return Problem{
		Code: "J7", What: fmt.Sprintf("%s of queue %s newer than this program", records(n), named(queue)),
		Advice: "use the leasectl of that version, and upgrade the workers of " + named(queue),
	}
}

// UnreadableRecords is the problem of records that no program can read.
func UnreadableRecords(queue string, n int) Problem {
	return Problem{Code: "J2", What: fmt.Sprintf("%s of queue %s cannot be read", records(n), named(queue)), Fixable: true}
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}
