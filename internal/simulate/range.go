package simulate

import (
	"fmt"
	"strings"
	"time"
)

// Range is what a duration is drawn from, uniformly, both ends included.
type Range struct{ Least, Most time.Duration }

// String is "50ms..300ms", or one duration when there is nothing to draw.
func (r Range) String() string {
	if r.Least == r.Most {
		return r.Least.String()
	}
	return r.Least.String() + ".." + r.Most.String()
}

// Set reads what String writes.
func (r *Range) Set(text string) error {
	least, most, two := strings.Cut(text, "..")
	if !two {
		most = least
	}
	from, err := time.ParseDuration(least)
	if err != nil {
		return err
	}
	to, err := time.ParseDuration(most)
	if err != nil {
		return err
	}
	if to < from {
		return fmt.Errorf("%v is more than %v", from, to)
	}
	*r = Range{from, to}
	return nil
}

// Type is what a flag's help calls it.
func (r *Range) Type() string { return "range" }
