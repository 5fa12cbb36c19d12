package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
)

// Log is what all clients recorded.
type Log struct {
	Ops   []Op
	Works []Work
	Terms []Term
	Marks []Mark
	// Reached counts the hits of each probe.
	Reached map[string]int
}

// recordKey names a call, work or term over all files.
type recordKey struct {
	proc string
	n    int64
}

// ReadLog merges the files of several processes. A last line that was cut short, by
// the end of its process, is left out; any other that cannot be read is an error.
func ReadLog(paths ...string) (*Log, error) {
	l := &Log{Reached: map[string]int{}}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read a record: %w", err)
		}
		one, err := parseLog(b)
		if err != nil {
			return nil, fmt.Errorf("read the record %s: %w", path, err)
		}
		l.Merge(one)
	}
	return l, nil
}

// parseLog reads one file, of one process or of several.
func parseLog(b []byte) (*Log, error) {
	var (
		l       = &Log{Reached: map[string]int{}}
		ops     = map[recordKey]Op{}
		works   = map[recordKey]Work{}
		terms   = map[recordKey]Term{}
		reached = map[[2]string]int{}
	)
	for number := 1; len(b) > 0; number++ {
		text, rest, whole := bytes.Cut(b, []byte("\n"))
		if b = rest; !whole {
			break // cut short
		}
		var r line
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		switch {
		case r.Op != nil:
			ops[recordKey{r.Op.Proc, r.Op.N}] = *r.Op
		case r.Work != nil:
			works[recordKey{r.Work.Proc, r.Work.N}] = *r.Work
		case r.Term != nil:
			terms[recordKey{r.Term.Proc, r.Term.N}] = *r.Term
		case r.Mark != nil:
			l.Marks = append(l.Marks, *r.Mark)
		case r.Reached != nil:
			key := [2]string{r.Reached.Proc, r.Reached.Probe}
			reached[key] = max(reached[key], r.Reached.N)
		default:
			return nil, fmt.Errorf("line %d: no record in %s", number, text)
		}
	}
	l.Ops, l.Works, l.Terms = slices.Collect(maps.Values(ops)), slices.Collect(maps.Values(works)), slices.Collect(maps.Values(terms))
	for key, n := range reached {
		l.Reached[key[1]] += n
	}
	l.close()
	return l, nil
}

// close makes unknown what never returned, and puts everything in order.
func (l *Log) close() {
	for i := range l.Ops {
		op := &l.Ops[i]
		if op.Return == 0 {
			op.Return = Never
		}
		if op.Result == "" {
			op.Result = Unknown
		}
	}
	for i := range l.Works {
		if l.Works[i].End == 0 {
			l.Works[i].End = Never
		}
	}
	for i := range l.Terms {
		if l.Terms[i].End == 0 {
			l.Terms[i].End = Never
		}
	}
	l.sort()
}

func (l *Log) sort() {
	slices.SortFunc(l.Ops, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Proc, b.Proc), cmp.Compare(a.N, b.N))
	})
	slices.SortFunc(l.Works, func(a, b Work) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Proc, b.Proc), cmp.Compare(a.N, b.N))
	})
	slices.SortFunc(l.Terms, func(a, b Term) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.Proc, b.Proc), cmp.Compare(a.N, b.N))
	})
	slices.SortStableFunc(l.Marks, func(a, b Mark) int { return cmp.Compare(a.At, b.At) })
}

// Merge adds the records of others, and returns l.
func (l *Log) Merge(others ...*Log) *Log {
	if l.Reached == nil {
		l.Reached = map[string]int{}
	}
	for _, o := range others {
		l.Ops = append(l.Ops, o.Ops...)
		l.Works = append(l.Works, o.Works...)
		l.Terms = append(l.Terms, o.Terms...)
		l.Marks = append(l.Marks, o.Marks...)
		for probe, n := range o.Reached {
			l.Reached[probe] += n
		}
	}
	l.sort()
	return l
}

// Missing returns those of the wanted probes that were not hit, in order.
func (l *Log) Missing(wanted ...string) []string {
	var missing []string
	for _, probe := range wanted {
		if l.Reached[probe] == 0 {
			missing = append(missing, probe)
		}
	}
	return missing
}
