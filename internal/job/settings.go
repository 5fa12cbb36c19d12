package job

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasekit/leasekit/internal/fault"
)

// Settings are what a queue's config says to all processes that serve it; zero leaves
// one to each process.
type Settings struct {
	Retention               time.Duration
	RetainJobs, RetainBytes int
	Backoff                 Backoff
}

// Validate refuses what is out of bounds.
func (s Settings) Validate() error {
	if err := CheckSpans(Span{"retention", s.Retention, time.Second, MaxTimeout, ownConfig}); err != nil {
		return err
	}
	if err := cmp.Or(checkRetained("retain jobs", s.RetainJobs), checkRetained("retain bytes", s.RetainBytes)); err != nil {
		return err
	}
	return s.Backoff.validateSaved()
}

const ownConfig = "each process goes by its own config"

func checkRetained(field string, n int) error {
	if n >= 0 && n <= maxCount {
		return nil
	}
	return &fault.InputError{Field: field, Value: fmt.Sprint(n), Reason: fmt.Sprintf("it is between 1 and %d; 0 means that %s", maxCount, ownConfig)}
}

// maxShown is how much of a setting an error shows.
const maxShown = 80

// Settings are what the config says, but for what cannot be followed, which the error
// names.
func (c *QueueConfig) Settings() (s Settings, err error) {
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

// Set makes the config say s. What says the same already is kept as it is, with what a
// newer program may have put into it.
func (c *QueueConfig) Set(s Settings) {
	for _, f := range settingFields {
		raw, want := f.raw(c), f.text(s)
		if was, err := f.read(*raw); err == nil && f.text(was) == want { //mutant:settings-kept
			continue
		}
		*raw = nil
		if want != f.text(Settings{}) {
			*raw = json.RawMessage(want)
		}
	}
}

// settingField is one setting as the config says it, read by itself: one that cannot be
// read takes no other with it.
type settingField struct {
	name  string
	raw   func(*QueueConfig) *json.RawMessage
	saved func(*Settings) any // the field, as it lies in JSON
}

var settingFields = []settingField{
	{"retention", func(c *QueueConfig) *json.RawMessage { return &c.Retention }, func(s *Settings) any { return (*lasting)(&s.Retention) }},
	{"retain_jobs", func(c *QueueConfig) *json.RawMessage { return &c.RetainJobs }, func(s *Settings) any { return &s.RetainJobs }},
	{"retain_bytes", func(c *QueueConfig) *json.RawMessage { return &c.RetainBytes }, func(s *Settings) any { return &s.RetainBytes }},
	{"backoff", func(c *QueueConfig) *json.RawMessage { return &c.Backoff }, func(s *Settings) any { return (*savedBackoff)(&s.Backoff) }},
}

// read returns the setting alone.
func (f settingField) read(raw json.RawMessage) (s Settings, err error) {
	if len(raw) == 0 {
		return Settings{}, nil
	}
	if err := json.Unmarshal(raw, f.saved(&s)); err != nil {
		return Settings{}, err
	}
	if err := s.Validate(); err != nil { //mutant:settings-bounds
		return Settings{}, err
	}
	return s, nil
}

// text is the setting alone, as JSON.
func (f settingField) text(s Settings) string {
	b, _ := json.Marshal(f.saved(&s)) // validate lets nothing pass that JSON cannot say
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

// savedBackoff is a backoff with its durations as text.
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
