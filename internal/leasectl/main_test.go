package leasectl

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

func TestMain(m *testing.M) {
	// Under the race detector a process sleeps for a second before it exits, and touches thousands of pages before it
	// begins. The tests start a thousand of them.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=20 no_huge_pages_for_shadow=0 "+os.Getenv("GORACE")); err != nil {
		panic(err)
	}
	testscript.Main(leakChecked{m}, map[string]func(){
		"leasectl":       mainWithProbe,
		"leasectl-guard": func() { os.Exit(Main(nil, nil, nil, nil)) },
	})
}

// leakChecked runs tests side by side, and looks for goroutines that they leave.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	overlap()
	return clitest.Run(l.m)
}

// overlap lets more tests run side by side than there are processors, unless -parallel says how many: nearly all of them
// wait for processes, leases and answers.
func overlap() {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if asked {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// mainWithProbe is Main with one verb more, which does nothing but connect.
func mainWithProbe() {
	ctx, signals := exit.WatchSignals(context.Background())
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Aborted: signals.Aborted}
	probe := &cobra.Command{
		Use:    "probe",
		Hidden: true,
		Args:   cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.Connect(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, "connected root="+c.Root)
			return c.Close()
		},
	}
	code := run(ctx, a, newRoot(a, append(verbs(a), probe)), os.Args[1:])
	signals.Stop()
	os.Exit(code)
}

// TestScripts runs every script in testdata/script, each under a root of its own in one shared etcd.
func TestScripts(t *testing.T) {
	// A script may look back at its first revisions, and takes minutes on a busy machine.
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true, CompactAfter: time.Hour})
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("LEASECTL_ENDPOINTS", etcd.Endpoints()[0])
			env.Setenv("HOSTPORT", strings.TrimPrefix(etcd.Endpoints()[0], "http://"))
			env.Setenv("LEASECTL_ROOT", "/"+filepath.Base(env.WorkDir)+"/")
			env.Setenv("LEASECTL_DIAL_TIMEOUT", "1m") // a busy machine may keep an answer for longer than the default
			env.Setenv("XDG_STATE_HOME", filepath.Join(env.WorkDir, "state"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			env.Setenv("EXAMPLES", examples)
			env.Setenv("MANY", strconv.Itoa(10_000/slower))
			env.Setenv("GORACE", os.Getenv("GORACE"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     cmdExits,
			"within":    cmdWithin,
			"mask":      cmdMask,
			"pausedfor": cmdPausedFor,
			"validates": cmdValidates,
		},
	})
}

// cmdExits is "exits CODE PROGRAM ARGS...": it runs the program and wants that exit code. Its output can be looked at
// with stdout and stderr.
func cmdExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// cmdWithin is "within DURATION exits CODE PROGRAM ARGS...": exits with a limit.
func cmdWithin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 4 || args[1] != "exits" {
		ts.Fatalf("usage: within DURATION exits CODE PROGRAM ARGS...")
	}
	limit, err := time.ParseDuration(args[0])
	ts.Check(err)
	start := time.Now()
	cmdExits(ts, false, args[2:])
	if took := time.Since(start); took > limit {
		ts.Fatalf("took %v, limit %v", took, limit)
	}
}
