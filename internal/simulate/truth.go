package simulate

import "time"

// truth is who owned which job when, as etcd's history tells it. It is fed in the
// order of revisions, and knows no etcd and no clock of its own.
type truth struct {
	jobs      map[string]*jobTruth
	ended     map[string]time.Time // sessions, by when their key went
	takeovers []takeover
	late      []string // jobs whose late results were accepted, once per result
	claims    int
	last      time.Time // the latest accepted result
}

// jobTruth is one job's account.
type jobTruth struct {
	owner    string // of the latest claim; "" while the job is open
	token    string // of the latest claim: whoever saves must hold it
	accepted int    // results that were accepted
	saved    time.Time
	buried   bool
}

// finished tells that nothing is left to do about the job.
func (j *jobTruth) finished() bool { return j.accepted > 0 || j.buried }

// takeover is a claim on a job whose owner was gone.
type takeover struct {
	job, from, by string
	at            time.Time
	after         time.Duration // since the owner's lease ended
}

func newTruth(jobs int) *truth {
	t := &truth{jobs: map[string]*jobTruth{}, ended: map[string]time.Time{}}
	for i := range jobs {
		t.jobs[jobID(i)] = &jobTruth{}
	}
	return t
}

// claimed notes a claim. It returns the takeover that it is, or nil.
func (t *truth) claimed(job, owner, token string, at time.Time) *takeover {
	j := t.jobs[job]
	if j == nil {
		return nil
	}
	t.claims++
	from := j.owner
	j.owner, j.token = owner, token
	end, gone := t.ended[from]
	if from == "" || !gone {
		return nil
	}
	t.takeovers = append(t.takeovers, takeover{job, from, owner, at, max(0, at.Sub(end))})
	return &t.takeovers[len(t.takeovers)-1]
}

// opened notes that nobody owns the job: given back, or put off.
func (t *truth) opened(job string) {
	if j := t.jobs[job]; j != nil {
		j.owner, j.token = "", ""
	}
}

// saved notes an accepted result. Late is one whose claim was not the job's latest,
// or that came when the job had a result.
func (t *truth) saved(job, token string, at time.Time) (late bool) {
	j := t.jobs[job]
	if j == nil {
		return false
	}
	if late = j.accepted > 0 || j.token != token; late {
		t.late = append(t.late, job)
	}
	t.last = at
	if j.accepted++; j.accepted == 1 {
		j.saved = at
	}
	return late
}

// died notes a dead letter.
func (t *truth) died(job string) {
	if j := t.jobs[job]; j != nil {
		j.buried = true
	}
}

// leaseEnded notes that a session's key is gone.
func (t *truth) leaseEnded(session string, at time.Time) { t.ended[session] = at }

// finished tells that nothing is left to do.
func (t *truth) finished() bool { return t.count((*jobTruth).finished) == len(t.jobs) }

func (t *truth) count(is func(*jobTruth) bool) int {
	n := 0
	for _, j := range t.jobs {
		if is(j) {
			n++
		}
	}
	return n
}

// duplicated is how many jobs have more than one accepted result.
func (t *truth) duplicated() int { return t.count(func(j *jobTruth) bool { return j.accepted > 1 }) }

// unfinished is how many jobs have neither a result nor were given up for good.
func (t *truth) unfinished() int { return t.count(func(j *jobTruth) bool { return !j.finished() }) }

// buried is how many jobs were given up for good.
func (t *truth) buried() int { return t.count(func(j *jobTruth) bool { return j.buried }) }
