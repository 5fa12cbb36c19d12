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
