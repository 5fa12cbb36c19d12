package workqueue

import (
	"context"
	"fmt"
	"time"

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
// pauses that have begun too. A setting that cannot be read, as admin.Settings tells,
// goes. It returns a [coord.InputError] for a setting out of bounds, and [ErrConflict]
// when the config is not at By.Revision.
func (q *Queue) SetSettings(ctx context.Context, change func(s *Config), by By) error {
	return q.core.Change(ctx, "set settings of queue "+q.core.Name(), by.inner(), func(c *job.QueueConfig) error {
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
