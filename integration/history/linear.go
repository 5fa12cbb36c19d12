package history

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// LinearConfig configures [CheckLinearizable].
type LinearConfig struct {
	// Timeout bounds the whole search; 0 means a minute.
	Timeout time.Duration
	// Dir is where pictures of violations go; "" means the system's directory for
	// temporary files.
	Dir string
}

// maxPictures bounds how many jobs are pictured.
const maxPictures = 5

// CheckLinearizable asks porcupine, job by job, whether the answers can be explained
// by one order of the calls that respects real time. A call whose outcome is unknown
// may have happened at any time since, or never. What the witness saw and no recorded
// call explains, such as a loss or the release of a stray, joins in as a call of the
// system. The error names the jobs that cannot be explained, and the file with a
// picture of each; or says that the search took too long.
//
// Without events a claim may lapse at any time, which explains more.
func CheckLinearizable(run Run, cfg LinearConfig) error {
	if cfg.Timeout <= 0 {
		cfg.Timeout = time.Minute
	}
	if cfg.Dir == "" {
		cfg.Dir = os.TempDir()
	}
	c := newChecker(run, Bounds{})
	if err := c.replay(); err != nil {
		return fmt.Errorf("check linearizability: %w", err)
	}
	deadline := time.Now().Add(cfg.Timeout)
	model := jobModel(len(run.Events) == 0)
	var errs []error
	for _, key := range c.jobKeys() {
		left := time.Until(deadline)
		if left <= 0 {
			return errors.Join(append(errs, fmt.Errorf("the search for linearizations took longer than %v", cfg.Timeout))...)
		}
		result := porcupine.CheckOperationsTimeout(model, c.operations(key), left)
		if result == porcupine.Ok {
			continue
		}
		errs = append(errs, c.picture(model, key, result, cfg.Dir, len(errs) < maxPictures))
	}
	return errors.Join(errs...)
}

// jobKeys are the jobs that somebody called about, in order.
func (c *checker) jobKeys() []jobKey {
	var keys []jobKey
	for key := range c.ops {
		if key.id != "" {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b jobKey) int { return cmp.Or(cmp.Compare(a.queue, b.queue), cmp.Compare(a.id, b.id)) })
	return keys
}

// picture writes the file that shows a violation, and returns the violation.
func (c *checker) picture(model porcupine.Model, key jobKey, result porcupine.CheckResult, dir string, draw bool) error {
	if result == porcupine.Unknown {
		return fmt.Errorf("job %s/%s: the search took too long, over %d calls", key.queue, key.id, len(c.operations(key)))
	}
	if !draw {
		return fmt.Errorf("job %s/%s: the answers are not linearizable", key.queue, key.id)
	}
	_, info := porcupine.CheckOperationsVerbose(model, c.operations(key), 10*time.Second)
	h := fnv.New64a()
	h.Write([]byte(key.queue + "/" + key.id))
	path := filepath.Join(dir, fmt.Sprintf("job-%016x.html", h.Sum64()))
	if err := porcupine.VisualizePath(model, info, path); err != nil {
		return fmt.Errorf("job %s/%s: the answers are not linearizable (picture: %w)", key.queue, key.id, err)
	}
	return fmt.Errorf("job %s/%s: the answers are not linearizable: see %s", key.queue, key.id, path)
}

// operations are the calls about one job, and what happened without any.
func (c *checker) operations(key jobKey) []porcupine.Operation {
	clients := map[string]int{}
	client := func(name string) int {
		if _, ok := clients[name]; !ok {
			clients[name] = len(clients)
		}
		return clients[name]
	}
	var ops []porcupine.Operation
	explained := map[*move]bool{}
	for _, op := range c.ops[key] {
		if in, out, ok := op.step(); ok {
			c.explain(key, op, explained)
			until := op.Return
			if op.Result == Unknown {
				until = Never // it goes on behind the answer
			}
			ops = append(ops, porcupine.Operation{ClientId: client(op.Proc + " " + op.Client), Input: in, Output: out, Call: op.Call, Return: until})
		}
	}
	for _, m := range c.world.byJob[key] {
		if explained[m] || m.name == moveExpire || m.name == moveIllegal {
			continue
		}
		// It happened before it was seen, and nobody knows when.
		ops = append(ops, porcupine.Operation{ClientId: client("system"), Input: m.step(), Output: output{Applied, ""}, Return: m.seen})
	}
	return ops
}

// explain marks the move that a call explains, if there is one. An unknown call
// explains one that no other does.
func (c *checker) explain(key jobKey, op *Op, explained map[*move]bool) {
	if !op.happened() {
		return
	}
	for _, m := range c.world.byJob[key] {
		if explained[m] || !op.fits(m) {
			continue
		}
		explained[m] = true
		return
	}
}

// fits tells whether a call can have made a move.
func (op *Op) fits(m *move) bool {
	switch {
	case op.Verb == Claim:
		return m.to.claimed() && m.rev == op.Token
	case op.closes():
		return m.from.claimed() && m.from.rev == op.Token && op.mayBe(m.name)
	case op.Result == Applied && op.Revision != 0:
		return m.rev == op.Revision
	}
	return moveOf[op.Verb] == m.name && m.seen >= op.Call
}
