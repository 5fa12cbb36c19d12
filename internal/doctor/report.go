package doctor

import (
	"slices"
	"strconv"
	"time"
)

// Severity is how bad a finding is.
type Severity string

// The severities. Errors make the exit code 8.
const (
	Warning Severity = "warning"
	Error   Severity = "error"
)

// The states of a check.
const (
	StatusOK      = "ok"
	StatusWarning = "warning"
	StatusError   = "error"
	StatusSkipped = "skipped" // as asked for
	StatusUnknown = "unknown" // could not be checked
)

// The states of a finding.
const (
	Open   = "open"
	Fixed  = "fixed"
	Failed = "failed" // the repair did not succeed: see Error
)

// Report is what was found. In JSON, revisions and tokens are strings, and lease ids hex: they may exceed what a JSON
// number keeps exactly.
type Report struct {
	Root      string        `json:"root"`
	Revision  string        `json:"revision"` // the one at which everything was read; empty without a leader
	CheckedAt time.Time     `json:"checked_at"`
	Took      time.Duration `json:"-"`
	Errors    int           `json:"errors"`
	Warnings  int           `json:"warnings"`
	FixedN    int           `json:"fixed"`
	Checks    []Result      `json:"checks"`
	Findings  []*Finding    `json:"findings"`
}

// Result is how a check ended.
type Result struct {
	Code   string `json:"code"`
	Status string `json:"status"`
	Note   string `json:"note,omitempty"`
}

// Finding is one thing that is wrong.
type Finding struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	// What is wrong with the subject: "claimed by a gone session".
	What string `json:"what"`
	// Subject is a job as queue/id, or queue/..., lock/..., election/..., session/..., an endpoint or a key.
	Subject  string `json:"subject"`
	Detail   string `json:"detail,omitempty"`
	Key      string `json:"key,omitempty"`
	Revision string `json:"revision,omitempty"`
	Token    string `json:"token,omitempty"`
	Lease    string `json:"lease,omitempty"`
	// Advice is a command or a setting that helps where there is no automatic repair.
	Advice string `json:"advice,omitempty"`
	// Plan is what the automatic repair does; empty without one.
	Plan   string `json:"plan,omitempty"`
	Status string `json:"status"`
	// Done is what became of the repair, Error why it failed.
	Done  string `json:"done,omitempty"`
	Error string `json:"error,omitempty"`

	check *Check
	// still are the keys that must not have moved for the finding to last, with their mod revisions; 0 is an absent key.
	still  map[string]int64
	repair repair
}

// settle counts, and says of each check how it ended.
func (r *Report) settle() {
	if r.Findings == nil {
		r.Findings = []*Finding{}
	}
	r.Errors, r.Warnings, r.FixedN = 0, 0, 0
	worst := map[string]string{}
	for _, f := range r.Findings {
		if f.Status == "" {
			f.Status = Open
		}
		switch {
		case f.Status == Fixed:
			r.FixedN++
		case f.Severity == Error:
			r.Errors++
			worst[f.Code] = StatusError
		default:
			r.Warnings++
			if worst[f.Code] == "" {
				worst[f.Code] = StatusWarning
			}
		}
	}
	for i := range r.Checks {
		c := &r.Checks[i]
		switch w := worst[c.Code]; {
		case c.Status == StatusSkipped:
		case w != "":
			c.Status = w
		case c.Status != StatusUnknown:
			c.Status = StatusOK
		}
	}
}

// Unknown lists the checks that could not be made, with why.
func (r *Report) Unknown() (codes []Result) {
	for _, c := range r.Checks {
		if c.Status == StatusUnknown {
			codes = append(codes, c)
		}
	}
	return codes
}

// Has tells whether a finding of that code is not fixed.
func (r *Report) Has(code string) bool {
	return slices.ContainsFunc(r.Findings, func(f *Finding) bool { return f.Code == code && f.Status != Fixed })
}

// Fixable lists the findings that an automatic repair may mend.
func (r *Report) Fixable() (found []*Finding) {
	for _, f := range r.Findings {
		if f.Plan != "" && f.Status == Open {
			found = append(found, f)
		}
	}
	return found
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }
