package execjob_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/execjob"
)

// Whatever the child started dies with the process that runs it, even when that is killed without a chance to clean up.
func TestAllOfAJobDiesWithItsRunner(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGSEGV} {
		t.Run(sig.String(), func(t *testing.T) {
			path, allGone := fifo(t)
			cmd := helper(t, path)
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			allGone()
		})
	}
}

// helper starts a stand-in for leasectl, whose child runs the stubborn ones.
func helper(t *testing.T, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), helperFIFO+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("the child said %q, %v; want ready", line, err)
	}
	return cmd
}

// When a job is over, in whatever way, nothing of it is left, also of what left its group and its session.
func TestNothingOfAJobOutlivesIt(t *testing.T) {
	for name, end := range map[string]string{"done": "exit 0", "failed": "exit 9", "killed": "kill -KILL $$", "stopped": "kill -STOP $$"} {
		t.Run(name, func(t *testing.T) {
			path, allGone := fifo(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			r := sh(stubborn+end, path)
			r.Grace = 100 * time.Millisecond
			if name == "stopped" {
				r.Stderr = &onOutput{want: "ready", fn: cancel}
			}
			r.Run(ctx, execjob.Job{})
			allGone()
		})
	}
}

// A stopped child is woken to end by itself.
func TestStoppedChildCanStillSave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := sh(`trap 'printf saved; exit 0' TERM; echo ready >&2; kill -STOP $$; while :; do sleep 0.01; done`)
	r.Stderr = &onOutput{want: "ready", fn: cancel}
	if out := r.Run(ctx, execjob.Job{}); string(out.Result) != "saved" {
		t.Errorf("outcome %+v, want the result of the trap", out)
	}
}

// A claim that cannot be relied on ends the child although nothing else does: leasectl may be stopped. It is asked, and
// killed after the grace.
func TestUnreliableClaimEndsTheChild(t *testing.T) {
	path, allGone := fifo(t)
	r := sh(`exec 3>"$0"; trap 'echo asked >&2' TERM; while :; do sleep 0.01; done`, path)
	r.Grace = 300 * time.Millisecond
	end := time.Now().Add(200 * time.Millisecond)
	out := r.Run(t.Context(), execjob.Job{Reliable: func() time.Duration { return max(0, time.Until(end)) }})
	if got, want := fmt.Sprint(out.Err), "killed by SIGKILL: asked"; !strings.HasPrefix(got, "killed by SIGKILL: ") || !strings.HasSuffix(got, "asked") || out.Cause != nil {
		t.Errorf("error %q, cause %v, want %q and none", got, out.Cause, want)
	}
	allGone()
}

// As long as it is renewed it does not.
func TestRenewedClaimEndsNothing(t *testing.T) {
	r := sh(`i=0; while [ $i -lt 32 ]; do sleep 0.1; i=$((i+1)); done; echo whole`)
	out := r.Run(t.Context(), execjob.Job{Reliable: func() time.Duration { return 3 * time.Second }})
	if string(out.Result) != "whole\n" {
		t.Errorf("outcome %+v, want the whole run", out)
	}
}

// A guard that is killed takes the child along, and its group.
func TestKilledGuardLeavesNothing(t *testing.T) {
	path, allGone := fifo(t)
	r := sh(`exec 3>"$0"; trap "" TERM; sh -c 'while :; do sleep 0.05; done' & read _; kill -KILL $PPID; while :; do sleep 0.05; done`, path)
	if out := r.Run(t.Context(), execjob.Job{Payload: []byte("the guard is up\n")}); fmt.Sprint(out.Err) != "killed by SIGKILL" {
		t.Errorf("outcome %+v, want killed by SIGKILL", out)
	}
	allGone()
}

// A guard that is stopped follows its orders nevertheless.
func TestStoppedGuardIsWoken(t *testing.T) {
	path, allGone := fifo(t)
	ctx, cancel := context.WithCancel(t.Context())
	r := sh(`exec 3>"$0"; read _; kill -STOP $PPID; echo ready >&2; while :; do sleep 0.05; done`, path)
	r.Stderr = &onOutput{want: "ready", fn: cancel}
	r.Run(ctx, execjob.Job{Payload: []byte("the guard is up\n")})
	allGone()
}

// Orphans that end while the job runs do not pile up as zombies.
func TestOrphansAreReaped(t *testing.T) {
	out := sh(`i=0; while [ $i -lt 20 ]; do (true & ) ; i=$((i+1)); done
		for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
			n=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ") Z $PPID ")
			[ "$n" -eq 0 ] && break; sleep 0.05
		done; echo "$n"`).Run(t.Context(), execjob.Job{})
	if string(out.Result) != "0\n" {
		t.Errorf("zombies at the end: %q, %v", out.Result, out.Err)
	}
}

// The command meets its streams as if there were no guard: nothing but itself holds them.
func TestGuardHoldsNoStream(t *testing.T) {
	out := sh(`head -c 14 /proc/$PPID/cmdline >&2; exit 1`).Run(t.Context(), execjob.Job{})
	if got, want := fmt.Sprint(out.Err), "exit 1: leasectl-guard"; got != want {
		t.Errorf("the parent is %q, want %q", got, want)
	}
	out = sh(`for fd in 0 1 2; do ls -l /proc/$PPID/fd | grep -c "$(readlink /proc/$$/fd/$fd)"; done; exit 0`).Run(t.Context(), execjob.Job{})
	if got, want := string(out.Result), "0\n0\n0\n"; got != want {
		t.Errorf("the guard holds of stdin, stdout and stderr %q, want none", got)
	}
}

// A program that was replaced on disk still finds itself.
func TestReplacedProgramStillGuards(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(t.TempDir(), "old")
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(old, b, 0o700); err != nil {
		t.Fatal(err)
	}
	path, allGone := fifo(t)
	cmd := exec.Command(old)
	cmd.Env = append(os.Environ(), helperFIFO+"="+path, helperGone+"="+old)
	out, err := cmd.Output()
	if err != nil || !bytes.HasPrefix(out, []byte("ready")) {
		t.Errorf("said %q, %v", out, err)
	}
	allGone()
}

// What is out of reach and keeps the pipes is not waited for, and nothing leaks (goleak looks).
func TestOutsiderKeepsPipes(t *testing.T) {
	var outside *os.File
	r := sh(`echo $$ >&2; read _ <"$0"`, filepath.Join(t.TempDir(), "go"))
	if err := syscall.Mkfifo(r.Argv[3], 0o600); err != nil {
		t.Fatal(err)
	}
	said := &onOutput{want: "\n"}
	said.fn = func() {
		pid, _ := strconv.Atoi(strings.TrimSpace(said.seen.String()))
		var err error
		if outside, err = os.OpenFile(fmt.Sprintf("/proc/%d/fd/1", pid), os.O_WRONLY, 0); err != nil {
			t.Error(err)
		}
		_ = os.WriteFile(r.Argv[3], []byte("go\n"), 0)
	}
	r.Stderr = said
	start := time.Now()
	if out := r.Run(t.Context(), execjob.Job{}); out.Verdict != execjob.Complete {
		t.Errorf("outcome %+v, want complete", out)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("Run took %v", d)
	}
	_ = outside.Close()
}
