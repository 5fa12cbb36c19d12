package job

// Rank is a job's place in the queue: higher priority first, then older, then
// its place in the batch that created it.
type Rank struct {
	Priority  int
	CreateRev int64
	Seq       uint64
	ID        string
}

// Before tells whether a is claimed before b.
func (a Rank) Before(b Rank) bool {
	switch {
	case a.Priority != b.Priority:
		return a.Priority > b.Priority
	case a.CreateRev != b.CreateRev:
		return a.CreateRev < b.CreateRev
	case a.Seq != b.Seq:
		return a.Seq < b.Seq
	}
	return a.ID < b.ID
}
