package work

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/workqueue"
)

func TestVerdictText(t *testing.T) {
	exit := func(code int, stderr string) error { return &execjob.ExitError{Code: code, Stderr: stderr} }
	end := func(err error, verdict execjob.Verdict, j workqueue.Job) error {
		return judgeEnd(&j, execjob.Outcome{Verdict: verdict, Err: err})
	}
	fenced := &coord.FencedError{Key: "k", Wanted: 1, Current: 2}
	tests := []struct {
		s    workqueue.Settlement
		want string
	}{
		{workqueue.Settlement{Outcome: "completed", Ran: 2140 * time.Millisecond}, "done 2.1s"},
		{workqueue.Settlement{Outcome: "completed", Refused: true, Err: fenced}, "done, late result REFUSED: the job is no longer ours"},
		{workqueue.Settlement{Outcome: "completed", Err: errors.New("etcd is full")}, "done, but that could not be written: etcd is full"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(75, "a\nsmtp 421"), execjob.RetrySoon, workqueue.Job{})}, `exit 75 "smtp 421", retry in 1s`},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(75, ""), execjob.RetrySoon, workqueue.Job{Failures: 4})}, "exit 75, dead"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(75, ""), execjob.RetrySoon, workqueue.Job{AtMostOnce: true})}, "exit 75, dead"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(65, ""), execjob.Dead, workqueue.Job{})}, "exit 65, dead"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(errors.New("no such file"), execjob.Dead, workqueue.Job{})}, "no such file, dead"},
		{workqueue.Settlement{Outcome: "released", HandlerErr: end(&execjob.ExitError{Code: -1, Signal: "SIGTERM"}, execjob.Retry, workqueue.Job{})}, "killed by SIGTERM, given back"},
		{workqueue.Settlement{Outcome: "released", HandlerErr: execjob.ErrAborted}, "aborted, given back"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(1, ""), execjob.Retry, workqueue.Job{}), Refused: true, Err: workqueue.ErrCancelled}, "exit 1, the job was cancelled"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(exit(1, ""), execjob.Retry, workqueue.Job{}), Refused: true, Err: fenced}, "exit 1, refused: the job is no longer ours"},
		{workqueue.Settlement{Outcome: "failed", HandlerErr: end(fmt.Errorf("%w: %w", workqueue.ErrAttemptTimeout, exit(9, "")), execjob.Dead, workqueue.Job{})}, "timeout, exit 9, dead"},
	}
	for _, tt := range tests {
		if got := verdictText(tt.s); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

// What the commands write and what work tells do not run into one line.
func TestWorkLogKeepsLinesApart(t *testing.T) {
	var out bytes.Buffer
	l := &workLog{w: &out}
	child := l.child("")
	fmt.Fprint(child, "no newline")
	l.line("told %s", "a\nb")
	fmt.Fprint(child, "whole\n")
	l.line("again")
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 5 || lines[0] != "no newline" || !strings.HasSuffix(lines[1], " told a b") || lines[2] != "whole" || !strings.HasSuffix(lines[3], " again") {
		t.Errorf("got %q", lines)
	}
	l.zap().Warn("session over")
	l.zap().Warn("else")
	if got := out.String(); strings.Contains(got, "session over") || !strings.HasSuffix(got, " warning: else\n") {
		t.Errorf("got %q", got)
	}
}
