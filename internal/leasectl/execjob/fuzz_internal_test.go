package execjob

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Whatever a child writes to stderr, what is kept of it fits into a job's record and is
// the end of what it wrote.
func FuzzLastLines(f *testing.F) {
	for _, b := range []string{
		"", "\n\n", "one\ntwo\n", "\xff\xfe\n", strings.Repeat("x", 5000), strings.Repeat("a\n", 50), strings.Repeat("日本語", 500),
		"\x00\x1b[31mred", "a\r\nb\r\n", strings.Repeat("\xf0\x9f", 700), strings.Repeat(" ", 3000) + "end", "first\n" + strings.Repeat("é", 600),
	} {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := lastLines(b)
		if !utf8.ValidString(got) || len(got) > stderrBytes || strings.Count(got, "\n") >= stderrLines {
			t.Errorf("%q became %q", b, got)
		}
		if whole := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD")); !strings.HasSuffix(whole, got) || whole != "" && got == "" {
			t.Errorf("%q is not the end of %q", got, whole)
		}
		e := &ExitError{Code: 1, Stderr: got}
		if text := e.Error(); !strings.HasPrefix(text, "exit 1") || !strings.HasSuffix(text, got) {
			t.Errorf("the error says %q", text)
		}
	})
}

// However output arrives, its end is kept, all of it is passed on, and memory is
// bounded.
func FuzzTail(f *testing.F) {
	f.Add([]byte("hello"), uint8(3), uint8(2))
	f.Add(bytes.Repeat([]byte("0123456789"), 100), uint8(7), uint8(200))
	f.Add([]byte{}, uint8(0), uint8(0))
	f.Fuzz(func(t *testing.T, all []byte, size, limit uint8) {
		var passed bytes.Buffer
		tl := &tail{max: int(limit) + 1, tee: &passed}
		for part := range slices.Chunk(all, int(size)+1) {
			if n, err := tl.Write(part); n != len(part) || err != nil {
				t.Fatalf("wrote %d of %d, %v", n, len(part), err)
			}
			if len(tl.buf) > 2*tl.max {
				t.Fatalf("%d bytes are kept, of which %d are wanted", len(tl.buf), tl.max)
			}
		}
		if got, want := tl.bytes(), all[max(0, len(all)-tl.max):]; !bytes.Equal(got, want) {
			t.Errorf("kept %q, want %q", got, want)
		}
		if !bytes.Equal(passed.Bytes(), all) {
			t.Errorf("passed on %q of %q", passed.Bytes(), all)
		}
	})
}

// Every exit code means something, one of them success, and three that no repeat helps.
func FuzzVerdict(f *testing.F) {
	for _, code := range []int{0, 1, exitUsage, exitDataErr, exitTempFail, exitConfig, 126, 127, 255, -1, 1 << 31} {
		f.Add(code)
	}
	f.Fuzz(func(t *testing.T, code int) {
		v := verdictOf(code)
		if (v == Complete) != (code == 0) || (v == RetrySoon) != (code == exitTempFail) || (v == Dead) != slices.Contains([]int{exitUsage, exitDataErr, exitConfig}, code) {
			t.Errorf("exit %d means %s", code, v)
		}
	})
}

// No variable of an outer job shines through, whatever the environment and the job
// hold, and each is there at most once.
func FuzzEnviron(f *testing.F) {
	f.Add("PATH=/bin\nLEASECTL_TOKEN=7\nTRACEPARENT=outer", "id", "kind", "trace")
	f.Add("LEASECTL_RESULT_FILE\n=x\nleasectl_token=1", "a=b", "", "")
	f.Add("\xff=\x00", "\n", "=", "x\ny")
	f.Fuzz(func(t *testing.T, outer, id, kind, trace string) {
		r := &Runner{}
		env := r.environ(strings.Split(outer, "\n"), Job{ID: id, Kind: kind, Trace: map[string]string{"traceparent": trace, "path": "evil"}}, "result", "")
		carried := trace
		if strings.Contains(trace, "\x00") {
			carried = ""
		}
		seen := map[string]string{}
		for _, kv := range env {
			name, value, _ := strings.Cut(kv, "=")
			if slices.Contains(jobVars, name) {
				if _, twice := seen[name]; twice {
					t.Errorf("%s is set twice", name)
				}
				seen[name] = value
			}
		}
		if seen["LEASECTL_JOB_ID"] != id || seen["LEASECTL_KIND"] != kind || seen["LEASECTL_RESULT_FILE"] != "result" || seen["LEASECTL_TOKEN"] != "" || seen["TRACEPARENT"] != carried {
			t.Errorf("of %q came %q", outer, env)
		}
	})
}
