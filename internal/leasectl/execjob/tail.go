package execjob

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"unicode/utf8"
)

// tail keeps the last max bytes written to it and passes everything on to tee. Write never fails: a pump that stopped
// reading would stall the child. Safe for concurrent use.
type tail struct {
	max   int
	tee   io.Writer // nil: nothing is passed on
	heard func()    // is called at each write; nil: nothing is

	mu  sync.Mutex
	buf []byte // at most 2*max: trimming at each write would copy max bytes for every small one
}

func (t *tail) Write(p []byte) (int, error) {
	if t.heard != nil {
		t.heard()
	}
	t.mu.Lock()
	t.buf = append(t.buf, p[max(0, len(p)-t.max):]...)
	if len(t.buf) > 2*t.max {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-t.max:]...)
	}
	t.mu.Unlock()
	if t.tee != nil {
		_, _ = t.tee.Write(p) // the child's work does not depend on whether somebody watches it
	}
	return len(p), nil
}

// bytes returns a copy of the last bytes.
func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf[max(0, len(t.buf)-t.max):])
}

const (
	stderrBytes = 1 << 10
	stderrLines = 20
)

// lastLines returns the end of a child's stderr as text: whole lines as far as possible, at most stderrLines of them
// and stderrBytes bytes, without blank lines around and with invalid UTF-8 replaced.
func lastLines(b []byte) string {
	text := strings.TrimSpace(strings.ToValidUTF8(string(b), "\uFFFD"))
	lines := strings.Split(text, "\n")
	if len(lines) > stderrLines {
		lines = lines[len(lines)-stderrLines:]
	}
	for len(lines) > 1 && joinedLen(lines) > stderrBytes {
		lines = lines[1:]
	}
	text = strings.Join(lines, "\n")
	if len(text) <= stderrBytes {
		return text
	}
	cut := len(text) - stderrBytes
	for cut < len(text) && !utf8.RuneStart(text[cut]) {
		cut++
	}
	return text[cut:]
}

func joinedLen(lines []string) int {
	n := len(lines) - 1
	for _, l := range lines {
		n += len(l)
	}
	return n
}
