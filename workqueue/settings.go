package workqueue

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/internal/job"
)

// The settings of a queue are what its config says to all processes that serve it:
// the fields of a [Config] that are named in settingFields. Zero leaves one to each
// process.

// SetSettings changes the settings of the queue, for all processes that serve it. They
// are Retention, RetainJobs, RetainBytes and Backoff, and are kept in its config. Change
// is given those that are set, and zero for the others; nothing else of s counts. It is
// called again where somebody else was faster. Zero takes a setting back. A process whose
// own Config says less of the first three keeps less; a Backoff takes the place of the
// Config's as a whole.
//
// Processes follow by watch: done jobs that are kept already stay as they are, and
// pauses that have begun too. A setting that cannot be read, as [Queue.Settings] tells,
// goes. It returns a [coord.InputError] for a setting out of bounds, and [ErrConflict]
// when the config is not at By.Revision.
func (q *Queue) SetSettings(ctx context.Context, change func(s *Config), by By) error {
	return q.change(ctx, "set settings of queue "+q.name, by, func(c *job.QueueConfig) error {
		was, _ := c.Settings()
		s := configOf(was)
		change(&s)
		if err := s.ValidateSettings(); err != nil {
			return err
		}
		c.Set(s.settings())
		c.SetBy, c.SetReason, c.SetAt = by.Actor, by.Reason, job.Stamp(time.Now())
		return nil
	})
}

// ReadSettings makes c the settings in the value of a queue's config, for those who
// watch or read keys themselves. The error names every setting that cannot be read or is
// out of bounds; such a one is left out, as by everybody who goes by them. It matches
// [ErrUndecodable] when nothing can be read.
func (c *Config) ReadSettings(value []byte) error {
	*c = Config{}
	in, err := job.DecodeConfig(value)
	if err != nil {
		return fmt.Errorf("%w: the config: %w", ErrUndecodable, err)
	}
	s, err := in.Settings()
	*c = configOf(s)
	return err
}

// ValidateSettings returns a [coord.InputError] that names a setting of c which is out of
// bounds. Nothing else of c counts.
func (c Config) ValidateSettings() error { return c.settings().Validate() }

// settings are those fields that a queue's config can say too.
func (c Config) settings() job.Settings {
	return job.Settings{Retention: c.Retention, RetainJobs: c.RetainJobs, RetainBytes: c.RetainBytes, Backoff: job.Backoff(c.Backoff)}
}

// configOf is a Config that says no more than s.
func configOf(s job.Settings) Config {
	return Config{Retention: s.Retention, RetainJobs: s.RetainJobs, RetainBytes: s.RetainBytes, Backoff: Backoff(s.Backoff)}
}

// kept is how much a process keeps of what is done.
type kept struct {
	age         time.Duration
	jobs, bytes int
}

// keeps is what c keeps where the queue's config says s: whichever is less.
func (c Config) keeps(s job.Settings) kept {
	age := /*mutant:settings-lesser*/ lesser(c.Retention, s.Retention, time.Hour)
	return kept{
		age:   age,
		jobs:  lesser(c.RetainJobs, s.RetainJobs, 10_000),
		bytes: lesser(c.RetainBytes, s.RetainBytes, 64<<20),
	}
}

// lesser is the less of two bounds, of which 0 says nothing.
func lesser[T time.Duration | int](own, set, otherwise T) T {
	if own == 0 || set == 0 {
		return cmp.Or(own, set, otherwise)
	}
	return min(own, set)
}

// keeps is what this process keeps now.
func (q *Queue) keeps() kept { return q.cfg.keeps(q.index.Settings()) }

// backoff is the pause between attempts now.
func (q *Queue) backoff() job.Backoff {
	if set := q.index.Settings().Backoff; set != (job.Backoff{}) {
		return set
	}
	return job.Backoff(q.cfg.Backoff)
}

// learn takes up a config that was read beside something else, for a handle that does
// not follow it: where a mirror does, it knows better.
func (q *Queue) learn(kvs []*mvccpb.KeyValue) {
	q.mirrors.mu.Lock()
	defer q.mirrors.mu.Unlock()
	if q.mirrors.run == nil {
		q.index.FeedConfig().Reset(kvs, 0)
	}
}
