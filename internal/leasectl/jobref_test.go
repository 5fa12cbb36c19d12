package leasectl

import "testing"

func TestParseJobRef(t *testing.T) {
	tests := []struct {
		arg  string
		want jobRef
	}{
		{"q/a", jobRef{"q", "a"}},
		{"q/a/b/", jobRef{"q", "a/b/"}},
		{"job/q/a", jobRef{"q", "a"}},
		{"job/a", jobRef{"job", "a"}}, // a queue of that name
		{"job/job/a/b", jobRef{"job", "a/b"}},
		{"jobs/q/a", jobRef{"jobs", "q/a"}},
	}
	for _, tt := range tests {
		if got, err := parseJobRef(tt.arg); err != nil || got != tt.want {
			t.Errorf("%s: got %+v, %v; want %+v", tt.arg, got, err, tt.want)
		}
		if got, err := parseJobRef(tt.want.name()); err != nil || got != tt.want {
			t.Errorf("%s is not read back: %+v, %v", tt.want.name(), got, err)
		}
	}
	for _, arg := range []string{"", "q", "/", "q/", "/a"} {
		if got, err := parseJobRef(arg); exitCode(err) != exitUsage {
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
		_, _ = parseJobRef(id)
		if queue == "" || id == "" {
			return
		}
		name := jobRef{queue, id}.name()
		if got, err := parseJobRef(name); err != nil || got != (jobRef{queue, id}) {
			t.Errorf("%q of queue %q is %q, which is read as %+v, %v", id, queue, name, got, err)
		}
	})
}
