package explore

import "errors"

// ErrEndless tells that fair lines alone lead round and round.
var ErrEndless = errors.New("fair lines never come to an end")

// maxFair is how many fair lines in a row are taken for a run that never ends.
const maxFair = 1000

// finish does fair lines from a node on whose next ones were left out, one run for all,
// and judges where they come to rest.
func (s *search[W]) finish(i int, at W) {
	var script []string
	for len(script) < maxFair {
		next, line, err := s.fairStep(at)
		switch {
		case err != nil:
			s.found(err, append(append(s.path(i), script...), line))
			return
		case line == "":
			if err := s.Rest(at); err != nil {
				s.found(err, append(s.path(i), script...))
			}
			return
		}
		at, script = next, append(script, line)
	}
	s.found(ErrEndless, append(s.path(i), script...))
}

// fairStep does the first fair line that can be done, "" where there is none.
func (s *search[W]) fairStep(at W) (next W, line string, err error) {
	for _, line := range s.Choices(at) {
		if !s.Fair(line) {
			continue
		}
		if next, done, err := s.Step(at, line); done || err != nil {
			return next, line, err
		}
	}
	return at, "", nil
}

// endless looks for a circle of fair lines.
func (s *search[W]) endless() {
	into := make([]int32, len(s.nodes)) // how many fair lines lead there
	for i := range s.nodes {
		for _, n := range s.nodes[i].fair {
			into[n]++
		}
	}
	var open []int32
	for i, n := range into {
		if n == 0 {
			open = append(open, int32(i))
		}
	}
	for left := len(s.nodes); ; left-- {
		if len(open) == 0 {
			if left > 0 && s.r.Err == nil {
				s.circle(into)
			}
			return
		}
		i := open[len(open)-1]
		open = open[:len(open)-1]
		for _, n := range s.nodes[i].fair {
			if into[n]--; into[n] == 0 {
				open = append(open, n)
			}
		}
	}
}

// circle is what was found: the first node that is on a circle, or behind one.
func (s *search[W]) circle(into []int32) {
	for i, n := range into {
		if n > 0 {
			s.found(ErrEndless, s.path(i))
			return
		}
	}
}
