package mutants

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	mutantsFlag = flag.String("mutants", "", "regexp of the mutants to run, which takes many minutes; empty runs those of "+sampled)
	restFlag    = flag.Bool("rest", false, "of them, only those of which docs/mutants.md does not say that they are caught")
	writeFlag   = flag.Bool("write", false, "write what came of it to docs/mutants.md")
)

// mutant is one check that is taken out.
type mutant struct {
	at   string // its name, which its marker has
	what string // what is taken out, in a few words
	how  change
	pkg  string // whose tests are to notice
	run  string // which of them: names, with /subtests, separated by |
	// spared says why no test can notice: the check is not needed for safety.
	spared string
}

// pattern is run as go test takes it.
func (m mutant) pattern() string {
	var alternatives []string
	for name := range strings.SplitSeq(m.run, "|") {
		alternatives = append(alternatives, "^"+strings.ReplaceAll(name, "/", "$/^")+"$")
	}
	return strings.Join(alternatives, "|")
}

// The table fits the code: each mutant has one marker and each marker one mutant, the
// code compiles with all of them, the tests that are to notice exist, and the page
// lists it.
func TestEveryMutantApplies(t *testing.T) {
	woven, err := weaveAll(table)
	if err != nil {
		t.Error(err)
	} else {
		compile(t, overlay(t, t.TempDir(), woven), woven)
	}
	listed := rowsOf(readPage(t))
	names := map[string]bool{}
	for _, m := range table {
		switch {
		case names[m.at]:
			t.Errorf("%s: it is there twice", m.at)
		case listed[m.at] == "":
			t.Errorf("%s: docs/mutants.md does not list it: run make mutants", m.at)
		}
		names[m.at] = true
		for name := range strings.SplitSeq(m.run, "|") {
			if top, _, _ := strings.Cut(name, "/"); !hasTest(t, m.pkg, top) {
				t.Errorf("%s: %s has no %s", m.at, m.pkg, top)
			}
		}
	}
	for name := range listed {
		if !names[name] {
			t.Errorf("%s: docs/mutants.md lists it, the table does not", name)
		}
	}
}

var testsOf = map[string][]byte{}

// hasTest tells whether a package has a test of that name.
func hasTest(t *testing.T, pkg, name string) bool {
	t.Helper()
	if testsOf[pkg] == nil {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			testsOf[pkg] = append(testsOf[pkg], text...)
		}
	}
	return bytes.Contains(testsOf[pkg], []byte("\nfunc "+name+"("))
}

// limit bounds one run. A mutant that makes a test hang is caught too, if the test is
// much faster without it.
const limit = 120 * time.Second

// sampled is the package whose mutants always run: its tests need no etcd.
const sampled = "internal/claims"

// Every mutant is caught: without the check, a test fails that passes with it.
func TestMutantsAreCaught(t *testing.T) {
	chosen, err := regexp.Compile(*mutantsFlag)
	if err != nil {
		t.Fatal(err)
	}
	woven, err := weaveAll(table)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	list := overlay(t, dir, woven)
	told := rowsOf(readPage(t))
	var mine []mutant
	for _, m := range table {
		if *mutantsFlag == "" && m.pkg != sampled {
			continue
		}
		if chosen.MatchString(m.at) && !(*restFlag && isCaught(told[m.at])) {
			mine = append(mine, m)
		}
	}
	if len(mine) == 0 && !*restFlag {
		t.Fatal("there is no such mutant")
	}
	if *writeFlag {
		writePage(t, nil)
	}
	binaries := map[string]string{}
	for _, pkg := range packages(mine) {
		binaries[pkg] = build(t, list, pkg, filepath.Join(dir, strings.ReplaceAll(pkg, "/", "_")+".test"))
	}
	var mu sync.Mutex
	healthy := map[string]func() outcome{}
	for _, m := range table {
		if key := m.pkg + " " + m.run; healthy[key] == nil && slices.Contains(mine, m) {
			healthy[key] = sync.OnceValue(func() outcome { return run(t, binaries[m.pkg], m, "") })
		}
		if !slices.Contains(mine, m) {
			continue
		}
		t.Run(m.at, func(t *testing.T) {
			t.Parallel() // they mostly wait
			verdict, caught := judge(healthy[m.pkg+" "+m.run](), run(t, binaries[m.pkg], m, m.at), m)
			t.Log(verdict)
			if !caught {
				t.Error("not caught")
			}
			if *writeFlag {
				mu.Lock()
				defer mu.Unlock()
				writePage(t, map[string]string{m.at: verdict})
			}
		})
	}
}

// isCaught tells whether a verdict is a good one.
func isCaught(verdict string) bool {
	return strings.HasPrefix(verdict, "caught") || strings.HasPrefix(verdict, "not needed")
}

// judge says what came of a mutant.
func judge(healthy, with outcome, m mutant) (verdict string, caught bool) {
	switch {
	case len(healthy.failed) > 0 || healthy.err != nil:
		return fmt.Sprintf("no verdict: the tests fail without it too: %v, %v", healthy.failed, healthy.err), false
	case with.err == nil && m.spared != "":
		return "not needed for safety: " + m.spared, true
	case with.err == nil:
		return "survives", false
	case with.hung && healthy.took > limit/3:
		return fmt.Sprintf("no verdict: the tests take %v without it", healthy.took), false
	case m.spared != "":
		return "is not needed, says the table, and was noticed by " + strings.Join(with.failed, ", "), false
	case with.hung:
		return "caught: " + m.run + " hangs", true
	case len(with.failed) == 0:
		return "caught: the process ends (" + with.last + ")", true
	}
	return "caught by " + strings.Join(with.failed, ", "), true
}

// compile finds what does not compile: that is no mutant.
func compile(t *testing.T, list string, woven map[string][]byte) {
	t.Helper()
	args := []string{"build", "-overlay", list}
	for file := range woven {
		args = append(args, "./"+path.Dir(file))
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the mutated code does not compile: %v\n%s", err, out)
	}
}

// build compiles the tests of a package with all mutants in it.
func build(t *testing.T, list, pkg, to string) string {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", list, "-o", to, "./"+pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	t.Logf("built %s in %v", pkg, time.Since(began).Round(time.Second))
	return to
}

// outcome is what became of one run.
type outcome struct {
	err    error
	failed []string // the tests that failed, innermost
	hung   bool
	last   string // the line that says most
	took   time.Duration
}

var failure = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// run runs the tests that are to notice a mutant, with the one that is named or with
// none.
func run(t *testing.T, binary string, m mutant, with string) (o outcome) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit+30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "-test.run", m.pattern(), "-test.timeout", limit.String(), "-test.failfast")
	cmd.Dir = filepath.Join(root, m.pkg)
	cmd.Env = append(os.Environ(), mutantEnv+"="+with)
	began := time.Now()
	out, err := cmd.CombinedOutput()
	o.took = time.Since(began)
	if exit := (&exec.ExitError{}); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if bytes.Contains(out, []byte("warning: no tests to run")) {
		err = errors.New("there is no such test")
	}
	o.err = err
	o.hung = err != nil && (ctx.Err() != nil || bytes.Contains(out, []byte("panic: test timed out")))
	for _, f := range failure.FindAllSubmatch(out, -1) {
		name := string(f[1])
		// A subtest says more than its parents, which precede or follow it.
		o.failed = slices.DeleteFunc(o.failed, func(other string) bool { return strings.HasPrefix(name, other+"/") })
		if !slices.ContainsFunc(o.failed, func(other string) bool { return strings.HasPrefix(other, name+"/") }) {
			o.failed = append(o.failed, name)
		}
	}
	if extra := len(o.failed) - 2; extra > 0 {
		o.failed = append(o.failed[:2], fmt.Sprintf("%d more", extra))
	}
	for line := range strings.Lines(string(out)) {
		if o.last == "" && (strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "left goroutines")) {
			o.last = strings.TrimSpace(line)
		}
	}
	if err != nil && testing.Verbose() {
		t.Logf("%s: %.1500s", cmp.Or(with, "none"), out)
	}
	return o
}
