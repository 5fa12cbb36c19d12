package cli

import (
	"testing"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func TestParseJobRef(t *testing.T) {
	tests := []struct {
		arg  string
		want JobRef
	}{
		{"q/a", JobRef{"q", "a"}},
		{"q/a/b/", JobRef{"q", "a/b/"}},
		{"job/q/a", JobRef{"q", "a"}},
		{"job/a", JobRef{"job", "a"}}, // a queue of that name
		{"job/job/a/b", JobRef{"job", "a/b"}},
		{"jobs/q/a", JobRef{"jobs", "q/a"}},
	}
	for _, tt := range tests {
		if got, err := ParseJobRef(tt.arg); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v; want %+v", tt.arg, got, err, tt.want)
		}
		if got, err := ParseJobRef(tt.want.Name()); err != nil || got != tt.want {
			t.Errorf("%s is not read back: %+v, %v", tt.want.Name(), got, err)
		}
	}
	for _, arg := range []string{"", "q", "/", "q/", "/a"} {
		if got, err := ParseJobRef(arg); exit.Code(err) != exit.Usage {
			t.Errorf("%q: got %+v, %v; want a usage error", arg, got, err)
		}
	}
}

// What -o name prints of a job is read as that job.
func FuzzJobRef(f *testing.F) {
	for _, s := range [][2]string{{"q", "id"}, {"a/b", "c/d"}, {"job", "x"}, {"100%", "%2F"}, {"%2F", "%25"}, {"job/x", "job/y"}, {"ü", " "}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, queue, id string) {
		_, _ = ParseJobRef(id)
		if queue == "" || id == "" {
			return
		}
		name := JobRef{queue, id}.Name()
		if got, err := ParseJobRef(name); err != nil || got != (JobRef{queue, id}) {
			t.Errorf("%q of queue %q is %q, which is read as %+v, %v", id, queue, name, got, err)
		}
	})
}
