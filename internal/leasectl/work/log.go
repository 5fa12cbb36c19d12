package work

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/workqueue"
)

// workLog writes what work has to tell, one line per event, between what the commands write. Safe for concurrent use.
type workLog struct {
	mu    sync.Mutex
	w     io.Writer
	told  bool // the hint about signals was given
	apart bool // the last that was written did not end its line
}

// line writes one line with the time of day.
func (l *workLog) line(format string, args ...any) {
	text := strings.Join(strings.Fields(fmt.Sprintf(format, args...)), " ")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.write([]byte(time.Now().Format("15:04:05 ") + text + "\n"))
}

// write begins a new line where a command has left one open.
func (l *workLog) write(p []byte) {
	if l.apart {
		p = append([]byte("\n"), p...)
		l.apart = false
	}
	_, _ = l.w.Write(p) // nobody is left to tell
}

// child is what one command writes to: as it comes, or line by line with the name of its job before each. It must be
// closed when the command has ended.
func (l *workLog) child(name string) io.WriteCloser {
	if name == "" {
		return childWriter{l}
	}
	return &prefixWriter{l: l, prefix: name + " | "}
}

type childWriter struct{ l *workLog }

func (c childWriter) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	n, err := c.l.w.Write(p)
	c.l.apart = !bytes.HasSuffix(p, []byte("\n"))
	return n, err
}

func (c childWriter) Close() error { return nil }

// maxLine is what is kept of a line that does not end before it is written in parts.
const maxLine = 64 << 10

// prefixWriter writes whole lines, so that those of several commands do not mix.
type prefixWriter struct {
	l      *workLog
	prefix string
	rest   []byte // of the last line
}

func (w *prefixWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		end := bytes.IndexByte(w.rest, '\n')
		switch {
		case end >= 0:
			w.line(w.rest[:end])
			w.rest = w.rest[end+1:]
		case len(w.rest) > maxLine:
			w.line(w.rest)
			w.rest = nil
		default:
			return len(p), nil
		}
	}
}

func (w *prefixWriter) line(text []byte) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.write(slices.Concat([]byte(w.prefix), text, []byte("\n")))
}

// Close writes a last line that has no end.
func (w *prefixWriter) Close() error {
	if len(w.rest) > 0 {
		w.line(w.rest)
		w.rest = nil
	}
	return nil
}

func (l *workLog) session(s *coord.Session, queue string, o workOptions) {
	hint, reason := "", ""
	if !l.told {
		hint = " (Ctrl-C drains, twice aborts)"
		l.told = true
	}
	if o.Reason != "" {
		reason = ", reason: " + o.Reason
	}
	l.line("session %016x ttl %v, worker %s, queue %s, %s%s%s", int64(s.Lease()), s.TTL(), s.ID(), queue, fmt.Sprintf("concurrency %d", o.concurrency), reason, hint)
}

func (l *workLog) lost(cause error, jobs int) {
	why := strings.TrimPrefix(exit.Text(cause), coord.ErrSessionLost.Error()+": ")
	l.line("session LOST (%s): terminating %s; late results will be refused", why, output.Count(jobs, "job"))
}

func (l *workLog) abandoned(j *workqueue.Job, cause error) {
	l.line("%s given up: %v", attemptOf(j), cause)
}

func (l *workLog) settled(j *workqueue.Job, s workqueue.Settlement) {
	l.line("%s %s", attemptOf(j), verdictText(s))
}

func attemptOf(j *workqueue.Job) string {
	return fmt.Sprintf("%s attempt %d token %s", cli.TextOf(j), j.Attempt, j.Token)
}

// verdictText says what became of an attempt.
func verdictText(s workqueue.Settlement) string {
	var e *ended
	how := "done"
	if errors.As(s.HandlerErr, &e) {
		how = endText(e.outcome.Err)
	} else if s.HandlerErr != nil {
		how = s.HandlerErr.Error()
	}
	switch {
	case errors.Is(s.Err, workqueue.ErrCancelled):
		return how + ", the job was cancelled"
	case s.Refused && s.HandlerErr == nil:
		return how + ", late result REFUSED: the job is no longer ours"
	case s.Refused:
		return how + ", refused: the job is no longer ours"
	case s.Err != nil:
		return fmt.Sprintf("%s, but that could not be written: %s", how, exit.Text(s.Err))
	case s.HandlerErr == nil:
		return how + " " + s.Ran.Round(100*time.Millisecond).String()
	case s.Outcome == "released":
		return how + ", given back"
	case e == nil:
		return how + ", " + s.Outcome
	case e.dead:
		return how + ", dead"
	}
	return how + ", retry in " + e.delay.Round(100*time.Millisecond).String()
}

// endText is the bad end of a command with the last line that it wrote.
func endText(err error) string {
	var exit *execjob.ExitError
	if !errors.As(err, &exit) {
		return err.Error()
	}
	text := fmt.Sprintf("exit %d", exit.Code)
	if exit.Signal != "" {
		text = "killed by " + exit.Signal
	}
	if errors.Is(err, workqueue.ErrAttemptTimeout) {
		text = "timeout, " + text
	}
	if errors.Is(err, execjob.ErrIdle) {
		text = "no output, " + text
	}
	if exit.Stderr == "" {
		return text
	}
	return fmt.Sprintf("%s %q", text, exit.Stderr[strings.LastIndexByte(exit.Stderr, '\n')+1:])
}
