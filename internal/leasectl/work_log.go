package leasectl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
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

// child is what the commands write to.
func (l *workLog) child() io.Writer { return childWriter{l} }

type childWriter struct{ l *workLog }

func (c childWriter) Write(p []byte) (int, error) {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	n, err := c.l.w.Write(p)
	c.l.apart = !bytes.HasSuffix(p, []byte("\n"))
	return n, err
}

func (l *workLog) session(s *coord.Session, queue string, o workOptions) {
	hint, reason := "", ""
	if !l.told {
		hint = " (Ctrl-C drains, twice aborts)"
		l.told = true
	}
	if o.reason != "" {
		reason = ", reason: " + o.reason
	}
	l.line("session %016x ttl %v, worker %s, queue %s, %s%s%s", int64(s.Lease()), s.TTL(), s.ID(), queue, fmt.Sprintf("concurrency %d", o.concurrency), reason, hint)
}

func (l *workLog) lost(cause error, jobs int) {
	why := strings.TrimPrefix(errorText(cause), coord.ErrSessionLost.Error()+": ")
	l.line("session LOST (%s): terminating %s; late results will be refused", why, count(jobs, "job"))
}

func (l *workLog) abandoned(j *workqueue.Job, cause error) {
	l.line("%s given up: %v", attemptOf(j), cause)
}

func (l *workLog) settled(j *workqueue.Job, s workqueue.Settlement) {
	l.line("%s %s", attemptOf(j), verdictText(s))
}

func attemptOf(j *workqueue.Job) string {
	return fmt.Sprintf("%s attempt %d token %s", refText(j), j.Attempt, j.Token)
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
		return fmt.Sprintf("%s, but that could not be written: %s", how, errorText(s.Err))
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
	if exit.Stderr == "" {
		return text
	}
	return fmt.Sprintf("%s %q", text, exit.Stderr[strings.LastIndexByte(exit.Stderr, '\n')+1:])
}
