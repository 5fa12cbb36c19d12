package history

import "slices"

// forgiven is from, with those counted losses taken back that a later loss, to, no
// longer counts: whoever meets the first orphans of a cut takes them for single
// losses, and whoever meets the next ones sees more. Only what goes from counted to
// not counted is taken back, and nothing else may change.
func forgiven(from, to *jobRecord) *jobRecord {
	if len(to.Attempts) == 0 || to.entry().Outcome != "lost" {
		return from
	}
	out := *from
	out.Attempts = slices.Clone(from.Attempts)
	for i, a := range out.Attempts {
		taken := a
		taken.Counted = false
		if a.Counted && out.Losses > 0 && slices.Contains(to.Attempts, taken) {
			out.Attempts[i] = taken
			out.Losses--
		}
	}
	return &out
}
