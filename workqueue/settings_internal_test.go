package workqueue

import (
	"strings"
	"testing"
	"time"
)

// Whatever lies in a config as a setting, nobody goes by what cannot be read or is out of
// bounds, it is named, and it takes no other setting with it.
func TestHostileSettings(t *testing.T) {
	for value, want := range map[string]struct {
		s     Config
		names string // the settings that the error names
	}{
		`{}`: {},
		`{"retention":null,"retain_jobs":null,"backoff":null}`: {},
		`{"retention":"0s","retain_jobs":0,"backoff":{}}`:      {},
		`{"retention":"24h","retain_jobs":5,"retain_bytes":6,"backoff":{"initial":"5s","max":"1h","factor":3,"jitter":-1}}`: {
			s: Config{Retention: 24 * time.Hour, RetainJobs: 5, RetainBytes: 6, Backoff: Backoff{5 * time.Second, time.Hour, 3, -1}}},
		`{"retention":-5,"retain_jobs":5}`:                       {Config{RetainJobs: 5}, "retention"},
		`{"retention":"-5h"}`:                                    {names: "retention"},
		`{"retention":"1ms"}`:                                    {names: "retention"},
		`{"retention":"2562047h47m16.854775807s"}`:               {names: "retention"},
		`{"retention":"9999999999h"}`:                            {names: "retention"},
		`{"retention":{"x":[]},"retain_jobs":[1]}`:               {names: "retention retain_jobs"},
		`{"retain_jobs":-1,"retain_bytes":-9223372036854775808}`: {names: "retain_jobs retain_bytes"},
		`{"retain_jobs":9223372036854775807}`:                    {names: "retain_jobs"},
		`{"retain_jobs":1e400,"retain_bytes":1.5}`:               {names: "retain_jobs retain_bytes"},
		`{"retain_jobs":"7","retain_bytes":true}`:                {names: "retain_jobs retain_bytes"},
		`{"backoff":"5s","retention":"1h"}`:                      {Config{Retention: time.Hour}, "backoff"},
		`{"backoff":{"initial":5}}`:                              {names: "backoff"},
		`{"backoff":{"initial":"-1s"}}`:                          {names: "backoff"},
		`{"backoff":{"initial":"1h"}}`:                           {names: "backoff"},
		`{"backoff":{"factor":0.5}}`:                             {names: "backoff"},
		`{"backoff":{"jitter":2}}`:                               {names: "backoff"},
		`{"backoff":{"max":"876001h"}}`:                          {names: "backoff"},
		`{"retention":"` + strings.Repeat("\u2028", 4000) + `"}`: {names: "retention"},
	} {
		var s Config
		err := s.ReadSettings([]byte(value))
		if s != want.s {
			t.Errorf("%.100s: got %+v, want %+v", value, s, want.s)
		}
		if (err != nil) != (want.names != "") || err != nil && len(err.Error()) > 2000 {
			t.Errorf("%.100s: got %.300v", value, err)
		}
		for name := range strings.FieldsSeq(want.names) {
			if !strings.Contains(err.Error(), name+" is ") {
				t.Errorf("%.100s: %v does not name %s", value, err, name)
			}
		}
	}
	var s Config
	if err := s.ReadSettings([]byte("nothing")); err == nil {
		t.Error("what is no config is read")
	}
}
