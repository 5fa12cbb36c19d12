//go:build unix

package execjob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// helperFIFO makes the test binary a leasectl stand-in: it runs stubborn children that hold the named pipe open.
// helperGone makes it remove its own program first, and end by itself.
const (
	helperFIFO = "EXECJOB_HELPER_FIFO"
	helperGone = "EXECJOB_HELPER_GONE"
)

// stubborn holds the named pipe $0 open in a child, in a child of another session, and in a daemon of its own, all of
// which ignore what can be ignored, and says "ready" when they run.
const stubborn = `exec 3>"$0"; trap "" HUP INT TERM
	sh -c 'while :; do sleep 0.05; done' &
	setsid sh -c 'echo up; while :; do sleep 0.05; done' >"$0.up" &
	(setsid sh -c 'sh -c "while :; do sleep 0.05; done" &' &)
	while [ ! -s "$0.up" ]; do sleep 0.01; done
	echo ready >&2; `

func TestMain(m *testing.M) {
	if execjob.IsGuard() {
		os.Exit(execjob.Guard())
	}
	if fifo := os.Getenv(helperFIFO); fifo != "" {
		r := sh(stubborn+"sleep 1000", fifo)
		if own := os.Getenv(helperGone); own != "" {
			_ = os.Remove(own)
			r = sh(stubborn+"exit 0", fifo)
		}
		r.Stderr = os.Stdout
		r.Run(context.Background(), execjob.Job{})
		return
	}
	// Under the race detector each of the guards would sleep for a second before it exits.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=20 no_huge_pages_for_shadow=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// sh returns a Runner for a shell script; args are $0, $1...
func sh(script string, args ...string) *execjob.Runner {
	return &execjob.Runner{Argv: append([]string{"/bin/sh", "-c", script}, args...)}
}

// onOutput calls fn once, when the child has written want to stderr.
type onOutput struct {
	want string
	fn   func()

	mu   sync.Mutex
	seen bytes.Buffer
	done bool
}

func (o *onOutput) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen.Write(p)
	if !o.done && strings.Contains(o.seen.String(), o.want) {
		o.done = true
		o.fn()
	}
	return len(p), nil
}

// fifo returns a named pipe and a function that returns once every process that held it open for writing has ended.
func fifo(t *testing.T) (path string, allGone func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	eof := make(chan error, 1)
	go func() {
		f, err := os.Open(path) // returns when the first writer is there
		if err == nil {
			_, err = io.Copy(io.Discard, f)
			f.Close()
		}
		eof <- err
	}()
	return path, func() {
		t.Helper()
		select {
		case err := <-eof:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Error("a process of the job is still alive")
		}
	}
}

func TestExitCodes(t *testing.T) {
	tests := []struct {
		script  string
		verdict execjob.Verdict
		err     string
	}{
		{"exit 0", execjob.Complete, ""},
		{"echo smtp 421 >&2; exit 75", execjob.RetrySoon, "exit 75: smtp 421"},
		{"exit 65", execjob.Dead, "exit 65"},
		{"exit 64", execjob.Dead, "exit 64"},
		{"exit 78", execjob.Dead, "exit 78"},
		{"exit 1", execjob.Retry, "exit 1"},
		{"exit 127", execjob.Retry, "exit 127"},
		{"echo going >&2; kill -SEGV $$", execjob.Retry, "killed by SIGSEGV: going"},
		{"kill -KILL $$", execjob.Retry, "killed by SIGKILL"},
		{`printf '\n\n  a\nb\377\n\n' >&2; exit 3`, execjob.Retry, "exit 3: a\nb\uFFFD"},
	}
	for _, tt := range tests {
		out := sh(tt.script).Run(t.Context(), execjob.Job{})
		if out.Verdict != tt.verdict {
			t.Errorf("%s: verdict %v, want %v", tt.script, out.Verdict, tt.verdict)
		}
		got := ""
		if out.Err != nil {
			got = out.Err.Error()
		}
		if got != tt.err {
			t.Errorf("%s: error %q, want %q", tt.script, got, tt.err)
		}
		if out.Cause != nil {
			t.Errorf("%s: cause %v for a child that ended by itself", tt.script, out.Cause)
		}
	}
}

func TestResult(t *testing.T) {
	tests := []struct {
		name, script, want string
	}{
		{"stdout", `printf 'a b'`, "a b"},
		{"nothing", `true`, ""},
		{"payload round trip", `cat`, "\x00payload\n"},
		{"payload unread", `echo ok`, "ok\n"},
		{"file wins", `echo noise; printf x >"$LEASECTL_RESULT_FILE"`, "x"},
		{"empty file is a result", `echo noise; : >"$LEASECTL_RESULT_FILE"`, ""},
		{"late filter is waited for", `(sleep 0.1; echo late) & echo early`, "early\nlate\n"},
	}
	for _, tt := range tests {
		out := sh(tt.script).Run(t.Context(), execjob.Job{Payload: []byte("\x00payload\n")})
		if out.Err != nil || out.Result == nil || string(out.Result) != tt.want {
			t.Errorf("%s: result %q, error %v; want %q", tt.name, out.Result, out.Err, tt.want)
		}
	}
}

func TestResultKeepsEndOfLongOutput(t *testing.T) {
	out := sh(`head -c 300000 /dev/zero; printf end`).Run(t.Context(), execjob.Job{})
	if got, want := len(out.Result), 64<<10; got != want {
		t.Errorf("%d bytes of stdout kept, want %d", got, want)
	}
	if !bytes.HasSuffix(out.Result, []byte("\x00end")) {
		t.Error("the end of stdout is lost")
	}
}

func TestLargePayloadToChildThatReadsNothing(t *testing.T) {
	out := sh(`exec true`).Run(t.Context(), execjob.Job{Payload: make([]byte, 4<<20)})
	if out.Verdict != execjob.Complete {
		t.Errorf("outcome %+v, want complete", out)
	}
}

func TestResultFileThatCannotBeAResult(t *testing.T) {
	for _, script := range []string{
		`mkfifo "$LEASECTL_RESULT_FILE"`,
		`mkdir "$LEASECTL_RESULT_FILE"`,
		`head -c 3000000 /dev/zero >"$LEASECTL_RESULT_FILE"`,
	} {
		out := sh(script).Run(t.Context(), execjob.Job{})
		if out.Verdict != execjob.Dead || out.Err == nil || !strings.Contains(out.Err.Error(), "result file") {
			t.Errorf("%s: outcome %v %v, want dead with an error about the result file", script, out.Verdict, out.Err)
		}
	}
}

func TestStderrIsBounded(t *testing.T) {
	out := sh(`i=0; while [ $i -lt 2000 ]; do echo line $i >&2; i=$((i+1)); done; exit 1`).Run(t.Context(), execjob.Job{})
	var exit *execjob.ExitError
	if !errors.As(out.Err, &exit) {
		t.Fatalf("error %v, want *ExitError", out.Err)
	}
	lines := strings.Split(exit.Stderr, "\n")
	if len(lines) != 20 || lines[0] != "line 1980" || lines[19] != "line 1999" {
		t.Errorf("kept %d lines from %q to %q, want the last 20", len(lines), lines[0], lines[len(lines)-1])
	}
	out = sh(`head -c 5000 /dev/zero | tr '\0' x >&2; exit 1`).Run(t.Context(), execjob.Job{})
	if !errors.As(out.Err, &exit) || len(exit.Stderr) != 1<<10 {
		t.Errorf("one long line: %d bytes kept, want %d", len(exit.Stderr), 1<<10)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("LEASECTL_CHECKPOINT_FILE", "/outer/job")
	t.Setenv("TRACESTATE", "outer")
	t.Setenv("LEASECTL_AS", "kept")
	r := sh(`env | grep -E '^(LEASECTL_|TRACE|BAGGAGE)' | grep -v _FILE= | sort; cat "${LEASECTL_CHECKPOINT_FILE:-/dev/null}"; [ ! -e "$LEASECTL_RESULT_FILE" ]`)
	r.Endpoints = []string{"http://a:1", "http://b:2"}
	r.Root = "/r/"
	r.Context = "prod"
	job := execjob.Job{ID: "j1", Queue: "mail", Kind: "send", Attempt: 2, Token: "918250", Session: "w.1", IdempotencyKey: "j1-born",
		Deadline: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Checkpoint: []byte("half way"),
		Trace: map[string]string{"traceparent": "00-ab-cd-01", "other": "no"}}
	out := r.Run(t.Context(), job)
	want := `LEASECTL_AS=kept
LEASECTL_ATTEMPT=2
LEASECTL_CONTEXT=prod
LEASECTL_DEADLINE=2026-01-02T03:04:05.000006Z
LEASECTL_ENDPOINTS=http://a:1,http://b:2
LEASECTL_IDEMPOTENCY_KEY=j1-born
LEASECTL_JOB_ID=j1
LEASECTL_KIND=send
LEASECTL_QUEUE=mail
LEASECTL_ROOT=/r/
LEASECTL_SESSION=w.1
LEASECTL_TOKEN=918250
TRACEPARENT=00-ab-cd-01
half way`
	if out.Err != nil || string(out.Result) != want {
		t.Errorf("error %v, environment\n%s\nwant\n%s", out.Err, out.Result, want)
	}
	out = sh(`[ -z "${LEASECTL_CHECKPOINT_FILE+set}${LEASECTL_DEADLINE+set}${TRACESTATE+set}" ]`).Run(t.Context(), execjob.Job{})
	if out.Err != nil {
		t.Errorf("an absent checkpoint, deadline or trace is in the environment, or the outer job's is: %v", out.Err)
	}
}

// A child sees a password only when it is asked for, in no variable that can hold one.
func TestCredentialsAreNotInherited(t *testing.T) {
	for name, value := range map[string]string{
		"LEASECTL_PASSWORD": "hunter2", "ETCDCTL_PASSWORD": "hunter2", "LEASECTL_USER": "ana:hunter2", "ETCDCTL_USER": "bob:hunter2:3",
		"ETCDCTL_ENDPOINTS": "http://a:2379,http://ana:hunter2@b:2379",
	} {
		t.Setenv(name, value)
	}
	r := sh(`env | grep -E '^(LEASECTL|ETCDCTL)_(USER|PASSWORD)=' | sort; env | grep -c hunter2`)
	if out := r.Run(t.Context(), execjob.Job{}); !strings.Contains(fmt.Sprint(out.Err), "exit 1") {
		t.Errorf("a job sees a password: %q, %v", out.Result, out.Err)
	}
	r.Credentials = true
	if out := r.Run(t.Context(), execjob.Job{}); !strings.HasSuffix(string(out.Result), "\n5\n") {
		t.Errorf("a job that may does not see them: %q, %v", out.Result, out.Err)
	}
	_, got := runCommand(t.Context(), t, r.Argv[2], nil)
	if want := "ETCDCTL_USER=bob\nLEASECTL_USER=ana\n0\n"; got != want {
		t.Errorf("a command under a claim sees %q, want %q", got, want)
	}
	_, got = runCommand(t.Context(), t, r.Argv[2], func(c *execjob.Command) { c.Credentials = true })
	if !strings.HasSuffix(got, "\n5\n") {
		t.Errorf("a command that may does not see them: %q", got)
	}
}

func TestStopGently(t *testing.T) {
	lost := errors.New("session lost")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := sh(`trap 'echo bye >&2; exit 9' TERM; echo ready >&2; while :; do sleep 0.01; done`)
	r.Stderr = &onOutput{want: "ready", fn: func() { cancel(lost) }}
	out := r.Run(ctx, execjob.Job{})
	if got := fmt.Sprint(out.Err); !strings.HasPrefix(got, "exit 9: ready") || !strings.HasSuffix(got, "bye") {
		t.Errorf("error %q, want exit 9 with ready ... bye", got)
	}
	if out.Verdict != execjob.Retry || !errors.Is(out.Cause, lost) {
		t.Errorf("verdict %v, cause %v; want retry, %v", out.Verdict, out.Cause, lost)
	}
}

func TestStopStillCompletes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := sh(`trap 'printf saved; exit 0' TERM; echo ready >&2; while :; do sleep 0.01; done`)
	r.Stderr = &onOutput{want: "ready", fn: cancel}
	out := r.Run(ctx, execjob.Job{})
	if out.Verdict != execjob.Complete || string(out.Result) != "saved" || out.Cause == nil {
		t.Errorf("outcome %+v, want complete with the result and the cause", out)
	}
}

func TestStopChildThatIgnoresTerm(t *testing.T) {
	path, allGone := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := sh(`trap '' TERM; exec 3>"$0"; sh -c 'trap "" TERM; sleep 1000' & echo ready >&2; while :; do sleep 0.01; done`, path)
	r.Grace = 200 * time.Millisecond
	r.Stderr = &onOutput{want: "ready", fn: cancel}
	out := r.Run(ctx, execjob.Job{})
	if got, want := fmt.Sprint(out.Err), "killed by SIGKILL: ready"; got != want {
		t.Errorf("error %q, want %q", got, want)
	}
	allGone()
}

func TestAbortKillsAtOnce(t *testing.T) {
	for _, stopFirst := range []bool{false, true} {
		path, allGone := fifo(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		abort := make(chan struct{})
		r := sh(`trap 'echo stopping >&2' TERM; exec 3>"$0"; echo ready >&2; while :; do sleep 0.01; done`, path)
		r.Grace = time.Hour
		r.Abort = abort
		r.Stderr = &onOutput{want: "ready", fn: func() { close(abort) }}
		if stopFirst {
			r.Stderr = io.MultiWriter(&onOutput{want: "ready", fn: cancel}, &onOutput{want: "stopping", fn: func() { close(abort) }})
		}
		out := r.Run(ctx, execjob.Job{})
		if !errors.Is(out.Cause, execjob.ErrAborted) || !strings.HasPrefix(fmt.Sprint(out.Err), "killed by SIGKILL") {
			t.Errorf("stopped first: %v: cause %v, error %v", stopFirst, out.Cause, out.Err)
		}
		allGone()
		if out := r.Run(t.Context(), execjob.Job{}); !errors.Is(out.Cause, execjob.ErrAborted) {
			t.Errorf("after the abort: outcome %+v, want that nothing starts", out)
		}
	}
}

// A shell dies of SIGTERM at once; what it ran still has the grace.
func TestStopGivesGraceToGrandchild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	file := filepath.Join(t.TempDir(), "saved")
	r := sh(`sh -c 'trap "sleep 0.2; echo yes >$0; exit 0" TERM; echo ready >&2; while :; do sleep 0.01; done' "$0"; echo not reached`, file)
	r.Stderr = &onOutput{want: "ready", fn: cancel}
	out := r.Run(ctx, execjob.Job{})
	if got, want := fmt.Sprint(out.Err), "killed by SIGTERM: ready"; !strings.HasPrefix(got, want) {
		t.Errorf("error %q, want %q", got, want)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != "yes\n" {
		t.Errorf("the grandchild could not finish: %q, %v", b, err)
	}
}

func TestGrandchildrenDieWithTheJob(t *testing.T) {
	path, allGone := fifo(t)
	out := sh(`exec 3>"$0"; sleep 1000 >/dev/null 2>&1 & echo done`, path).Run(t.Context(), execjob.Job{})
	if out.Verdict != execjob.Complete || string(out.Result) != "done\n" {
		t.Errorf("outcome %+v, want complete", out)
	}
	allGone()
}

func TestEndedContextStartsNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "ran")
	out := sh(`: >"$0"`, file).Run(ctx, execjob.Job{})
	if out.Verdict != execjob.Retry || !errors.Is(out.Err, context.Canceled) || out.Cause == nil {
		t.Errorf("outcome %+v, want retry because of the context", out)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the command ran")
	}
}

func TestStartFails(t *testing.T) {
	r := &execjob.Runner{Argv: []string{filepath.Join(t.TempDir(), "gone")}}
	out := r.Run(t.Context(), execjob.Job{})
	if out.Verdict != execjob.Retry || !errors.Is(out.Err, os.ErrNotExist) {
		t.Errorf("outcome %+v, want retry with ErrNotExist", out)
	}
}

func TestNothingIsLeftOnDisk(t *testing.T) {
	r := sh(`echo x >"$LEASECTL_RESULT_FILE"; touch "$LEASECTL_RESULT_FILE.more"`)
	r.TempDir = t.TempDir()
	r.Run(t.Context(), execjob.Job{Checkpoint: []byte{}})
	entries, err := os.ReadDir(r.TempDir)
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

func TestConcurrentRuns(t *testing.T) {
	r := sh(`cat; echo err >&2`)
	r.Stderr = &onOutput{want: "never", fn: func() {}}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			want := fmt.Sprint(i)
			if out := r.Run(t.Context(), execjob.Job{Payload: []byte(want)}); string(out.Result) != want {
				t.Errorf("result %q, want %q", out.Result, want)
			}
		})
	}
	wg.Wait()
}

func TestLook(t *testing.T) {
	if argv, err := execjob.Look([]string{"sh", "-c", "x"}); err != nil || !filepath.IsAbs(argv[0]) || len(argv) != 3 {
		t.Errorf("Look(sh) = %v, %v", argv, err)
	}
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, code := range map[string]int{"no-such-command-here": 127, plain + ".gone": 127, plain: 126, "": 127} {
		_, err := execjob.Look([]string{name})
		var look *execjob.LookError
		if !errors.As(err, &look) || look.Code != code {
			t.Errorf("Look(%q) = %v, want code %d", name, err, code)
		}
	}
}
