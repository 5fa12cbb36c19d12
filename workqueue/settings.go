package workqueue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/leasekit/leasekit/coord"
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
	return q.change(ctx, "set settings of queue "+q.name, by, func(c *config) error {
		s, _ := c.settings()
		change(&s)
		if err := s.ValidateSettings(); err != nil {
			return err
		}
		c.set(s)
		c.SetBy, c.SetReason, c.SetAt = by.Actor, by.Reason, stamp(time.Now())
		return nil
	})
}

// ReadSettings makes c the settings in the value of a queue's config, for those who
// watch or read keys themselves. The error names every setting that cannot be read or is
// out of bounds; such a one is left out, as by everybody who goes by them. It matches
// [ErrUndecodable] when nothing can be read.
func (c *Config) ReadSettings(value []byte) error {
	*c = Config{}
	in, err := decodeConfig(value)
	if err != nil {
		return fmt.Errorf("%w: the config: %w", ErrUndecodable, err)
	}
	*c, err = in.settings()
	return err
}

const ownConfig = "each process goes by its own config"

// ValidateSettings returns a [coord.InputError] that names a setting of c which is out of
// bounds. Nothing else of c counts.
func (c Config) ValidateSettings() error {
	if err := checkSpans(span{"retention", c.Retention, time.Second, maxTimeout, ownConfig}); err != nil {
		return err
	}
	if err := cmp.Or(checkRetained("retain jobs", c.RetainJobs), checkRetained("retain bytes", c.RetainBytes)); err != nil {
		return err
	}
	return c.Backoff.validateSaved()
}

func checkRetained(field string, n int) error {
	if n >= 0 && n <= maxCount {
		return nil
	}
	return &coord.InputError{Field: field, Value: fmt.Sprint(n), Reason: fmt.Sprintf("it is between 1 and %d; 0 means that %s", maxCount, ownConfig)}
}

// validateSaved is validate for a Backoff that is kept as JSON, and that nobody filled
// in piece by piece.
func (b Backoff) validateSaved() error {
	if err := b.validate(); err != nil {
		return err
	}
	for field, f := range map[string]float64{"backoff factor": b.Factor, "backoff jitter": b.Jitter} {
		if math.IsInf(f, 0) {
			return &coord.InputError{Field: field, Value: fmt.Sprint(f), Reason: "it is a finite number"}
		}
	}
	if full := b.withDefaults(); full.Initial > full.Max {
		return &coord.InputError{Field: "backoff max", Value: full.Max.String(), Reason: fmt.Sprintf("it is less than the initial %s; 0 means 10m", full.Initial)}
	}
	return nil
}

// maxShown is how much of a setting an error shows.
const maxShown = 80

// settings are what the config says, but for what cannot be followed, which the error
// names.
func (c *config) settings() (s Config, err error) {
	var bad []string
	for _, f := range settingFields {
		raw := *f.raw(c)
		if _, err := f.read(raw); err != nil {
			bad = append(bad, fmt.Sprintf("%s is %s: %v", f.name, strings.ToValidUTF8(string(raw[:min(len(raw), maxShown)]), "?"), err))
		} else if len(raw) > 0 {
			_ = json.Unmarshal(raw, f.saved(&s)) // as it was just read
		}
	}
	if len(bad) > 0 {
		err = errors.New(strings.Join(bad, "; "))
	}
	return s, err
}

// set makes the config say s. What says the same already is kept as it is, with what a
// newer program may have put into it.
func (c *config) set(s Config) {
	for _, f := range settingFields {
		raw, want := f.raw(c), f.text(s)
		if was, err := f.read(*raw); err == nil && f.text(was) == want { //mutant:settings-kept
			continue
		}
		*raw = nil
		if want != f.text(Config{}) {
			*raw = json.RawMessage(want)
		}
	}
}

// settingField is one setting as the config says it, read by itself: one that cannot be
// read takes no other with it.
type settingField struct {
	name  string
	raw   func(*config) *json.RawMessage
	saved func(*Config) any // the field, as it lies in JSON
}

var settingFields = []settingField{
	{"retention", func(c *config) *json.RawMessage { return &c.Retention }, func(s *Config) any { return (*lasting)(&s.Retention) }},
	{"retain_jobs", func(c *config) *json.RawMessage { return &c.RetainJobs }, func(s *Config) any { return &s.RetainJobs }},
	{"retain_bytes", func(c *config) *json.RawMessage { return &c.RetainBytes }, func(s *Config) any { return &s.RetainBytes }},
	{"backoff", func(c *config) *json.RawMessage { return &c.Backoff }, func(s *Config) any { return (*savedBackoff)(&s.Backoff) }},
}

// read returns the setting alone.
func (f settingField) read(raw json.RawMessage) (s Config, err error) {
	if len(raw) == 0 {
		return Config{}, nil
	}
	if err := json.Unmarshal(raw, f.saved(&s)); err != nil {
		return Config{}, err
	}
	if err := s.ValidateSettings(); err != nil { //mutant:settings-bounds
		return Config{}, err
	}
	return s, nil
}

// text is the setting alone, as JSON.
func (f settingField) text(s Config) string {
	b, _ := json.Marshal(f.saved(&s)) // ValidateSettings lets nothing pass that JSON cannot say
	return string(b)
}

// lasting is a duration as text, such as 1h30m0s.
type lasting time.Duration

func (d lasting) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

func (d *lasting) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return errors.New("it is no duration such as 24h or 90s")
	}
	*d = lasting(parsed)
	return nil
}

// savedBackoff is a Backoff with its durations as text.
type savedBackoff Backoff

// backoffFields are its JSON.
type backoffFields struct {
	Initial lasting `json:"initial,omitzero"`
	Max     lasting `json:"max,omitzero"`
	Factor  float64 `json:"factor,omitzero"`
	Jitter  float64 `json:"jitter,omitzero"`
}

func (b savedBackoff) MarshalJSON() ([]byte, error) {
	return json.Marshal(backoffFields{lasting(b.Initial), lasting(b.Max), b.Factor, b.Jitter})
}

func (b *savedBackoff) UnmarshalJSON(value []byte) error {
	var f backoffFields
	err := json.Unmarshal(value, &f)
	*b = savedBackoff{time.Duration(f.Initial), time.Duration(f.Max), f.Factor, f.Jitter}
	return err
}

// kept is how much a process keeps of what is done.
type kept struct {
	age         time.Duration
	jobs, bytes int
}

// keeps is what c keeps where the queue's config says s: whichever is less.
func (c Config) keeps(s Config) kept {
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
func (q *Queue) keeps() kept { return q.cfg.keeps(q.index.settings()) }

// backoff is the pause between attempts now.
func (q *Queue) backoff() Backoff {
	if set := q.index.settings().Backoff; set != (Backoff{}) {
		return set
	}
	return q.cfg.Backoff
}

// learn takes up a config that was read beside something else, for a handle that does
// not follow it: where a mirror does, it knows better.
func (q *Queue) learn(kvs []*mvccpb.KeyValue) {
	q.mirrors.mu.Lock()
	defer q.mirrors.mu.Unlock()
	if q.mirrors.run == nil {
		configSink{q.index}.Reset(kvs, 0)
	}
}
