package workqueue

import "github.com/leasekit/leasekit/internal/job"

// changed tells what became of a job since somebody looked at it, or "".
func (j *jobSpec) changed(p *play, seen job.Snapshot) string {
	r := seen.Record
	switch {
	case !j.exists:
		return "has gone meanwhile"
	case j.born != r.Born:
		return "is another job by now"
	case j.claimed && (!r.Claimed() || seen.Rev != j.token || r.Owner != p.actors[j.owner].sess.ID):
		return p.actors[j.owner].name + " has claimed meanwhile"
	case j.where != seen.Where, j.claimed != r.Claimed():
		return "has ended, or was given or brought back, meanwhile"
	case len(j.trail) != r.LogTotal || len(j.trail) > 0 && p.trailText(j.trail[len(j.trail)-1]) != trailText(r.Attempts[len(r.Attempts)-1]):
		return "somebody has changed meanwhile"
	}
	return ""
}

// judgeRepair holds what an operator's repair did against what may happen.
func (p *play) judgeRepair(j *jobSpec, m *message, was *play) error {
	switch m.builder {
	case "salvage":
		return p.judgeSalvage(j, m)
	case "restore":
		return p.judgeImport(j, m)
	case "disband":
		return p.judgeDisband(m, was)
	}
	if what := j.changed(p, m.seen); what != "" {
		return violation("%s %ss job %s as it was, which %s", p.actors[m.who].name, m.verb, m.job, what)
	}
	if j.claimed && !m.repair.breaking {
		return violation("%s %ss job %s, which %s works on, without being told to take it from him", p.actors[m.who].name, m.verb, m.job, p.actors[j.owner].name)
	}
	switch m.builder {
	case "edit":
		j.intervened(m, job.OutcomeEdited)
		j.payload = m.payload
	case "relocate":
		return p.judgeMove(j, &p.told.jobs[m.there], m)
	case "remove":
		*j = jobSpec{littered: j.littered}
	}
	return nil
}

// intervened ends the claim, if there is one, and says who did what.
func (j *jobSpec) intervened(m *message, outcome string) {
	if j.claimed {
		j.end(outcome)
		j.trail[len(j.trail)-1].by = m.who
		return
	}
	j.log(trailEntry{by: m.who, outcome: outcome})
}

// judgeMove takes everything that is known of a job to the other queue.
func (p *play) judgeMove(j, there *jobSpec, m *message) error {
	if there.exists {
		return violation("%s: job %s is moved to where job %s is, or what is left of it", p.actors[m.who].name, m.job, p.jobs[m.there])
	}
	j.intervened(m, job.OutcomeMoved)
	*there, *j = *j, jobSpec{}
	return nil
}

// judgeSalvage makes a dead letter of what could not be read.
func (p *play) judgeSalvage(j *jobSpec, m *message) error {
	who := p.actors[m.who].name
	litter := j.littered && m.seen.Where == job.InJobs
	switch {
	case litter && j.exists:
		return violation("%s: salvage overwrites the dead letter of job %s", who, m.job)
	case !litter && !j.exists:
		return violation("%s salvages job %s, which has gone meanwhile", who, m.job)
	case !litter && j.garbled == "":
		return violation("%s salvages job %s, which somebody has mended meanwhile", who, m.job)
	case !litter && j.garbled != m.repair.bytes:
		return violation("%s salvages job %s as it was, which somebody has written anew meanwhile", who, m.job)
	case !litter && j.where != m.seen.Where:
		return violation("%s: salvage of job %s is applied where it is not", who, m.job)
	}
	was := *j
	*j = jobSpec{exists: true, where: job.InDead, born: m.n.Record.Born, payload: m.repair.bytes, leftovers: !litter}
	if r, err := job.ParseRecord([]byte(m.repair.bytes)); err == nil { // all of it is kept
		*j = was
		j.garbled, j.where, j.born, j.payload = "", job.InDead, r.Born, payloadOf(r)
	}
	j.log(trailEntry{by: m.who, outcome: job.OutcomeBuried})
	return nil
}

// judgeImport makes the job what it was when it was exported.
func (p *play) judgeImport(j *jobSpec, m *message) error {
	who := p.actors[m.who].name
	switch {
	case j.exists && j.born == p.exported.told.born:
		return violation("%s: import of job %s, which is the very job and there already, is applied", who, m.job)
	case j.exists && m.repair.found == job.ImportSeen{}:
		return violation("%s: import of job %s does not know that it is there already", who, m.job)
	case j.exists && j.changed(p, m.seen) != "":
		return violation("%s: import overwrites job %s, which %s", who, m.job, j.changed(p, m.seen))
	}
	*j = p.exported.told
	return nil
}

// judgeDisband holds that nothing was in the queue that is removed.
func (p *play) judgeDisband(m *message, was *play) error {
	who := p.actors[m.who].name
	for i, h := range p.homes {
		if h.q == m.q && p.told.jobs[i].exists {
			return violation("%s: queue %s is removed although job %s is in it", who, h.q.Keys.Name(), p.jobs[i])
		}
	}
	for _, a := range p.actors {
		if a.sess.ID != "" && was.serves(m.q, a.sess.ID) != 0 {
			return violation("%s: queue %s is removed although %s serves it", who, m.q.Keys.Name(), a.name)
		}
	}
	if told := p.told.config; told.Paused != m.config.Paused || told.Mode != m.config.Mode {
		return violation("%s: a change of the config that was made meanwhile is undone", who)
	}
	p.told.config = job.QueueConfig{}
	return nil
}

// handwritten holds that what somebody wrote by hand is salvaged, or as it was.
func (p *play) handwritten(j *jobSpec, m *message, was *play) error {
	if j.garbled == "" && !j.littered {
		return nil
	}
	where := job.InJobs
	if !j.littered {
		where = j.where
	}
	before, after := was.lookup(m.q.Key(where, m.id)), p.lookup(m.q.Key(where, m.id))
	if after == nil || string(after.Value) != string(before.Value) {
		return violation("%s: %s of job %s overwrites what somebody wrote by hand meanwhile", p.actors[m.who].name, m.verb, m.job)
	}
	return nil
}

// besideIt holds what lies beside a job against what is known of it.
func (p *play) besideIt(j *jobSpec, h home, name string) error {
	payload, progress := p.lookup(h.q.Keys.Payload(h.id)), p.lookup(h.q.Keys.Progress(h.id))
	seq := 0
	if progress != nil {
		_, seq = noteOf(progress.Value)
	}
	if j.leftovers {
		return nil
	}
	over := !j.exists || j.where == job.InDone
	switch {
	case over && (payload != nil || progress != nil):
		return violation("job %s is done, or gone, and has left something beside", name)
	case over:
		return nil
	case seq != j.noteSeq:
		return violation("job %s has checkpoint %d beside, and %d was kept", name, seq, j.noteSeq)
	case (payload != nil) != (len(j.payload) > job.InlineLimit) || payload != nil && string(payload.Value) != j.payload:
		return violation("job %s has another payload beside than it was given", name)
	}
	return nil
}
