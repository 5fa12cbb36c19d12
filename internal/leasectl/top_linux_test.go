package leasectl

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/workqueue"
)

// viewer is leasectl top on a terminal, and everything that was drawn there.
type viewer struct {
	*worker
	keyboard, screen *os.File
	drawn            *clitest.Log
}

// top starts the program on a terminal of 80x24.
func (s *station) top(noColor string, args ...string) *viewer {
	s.t.Helper()
	v := &viewer{drawn: clitest.NewLog()}
	v.keyboard, v.screen = clitest.Terminal(s.t)
	if err := unix.IoctlSetWinsize(int(v.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80}); err != nil {
		s.t.Fatal(err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		b := make([]byte, 4096)
		for {
			n, err := v.keyboard.Read(b)
			if err != nil {
				return
			}
			_, _ = v.drawn.Write(b[:n])
		}
	}()
	s.t.Cleanup(func() {
		_ = v.screen.Close() // the last one: there is nothing to read any more
		<-read
		if s.t.Failed() {
			s.t.Logf("drawn: %q", v.drawn)
		}
	})
	cmd := exec.Command("leasectl", args...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = s.dir, v.screen, v.screen
	cmd.Env = append(os.Environ(), "LEASECTL_ENDPOINTS="+s.endpoints, "LEASECTL_ROOT="+s.root, "LEASECTL_CONTEXT=none", "TERM=xterm-256color", "NO_COLOR="+noColor)
	v.worker = &worker{t: s.t, cmd: cmd, stderr: clitest.NewLog(), stdout: clitest.NewLog(), done: make(chan struct{})}
	cmd.Stderr = v.stderr
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(v.done)
		_ = cmd.Wait() // its code is looked at by exit
	}()
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-v.done
	})
	return v
}

// shows waits until the text stands on the screen, which is drawn again and again for it: what is drawn otherwise are
// only the cells that changed.
func (v *viewer) shows(text string) {
	v.t.Helper()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	rows := uint16(24)
	for end := time.Now().Add(clitest.Patience); time.Now().Before(end); {
		before := len(v.drawn.String())
		rows = 49 - rows
		if err := unix.IoctlSetWinsize(int(v.keyboard.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: 80}); err != nil {
			v.t.Fatal(err)
		}
		v.signal(syscall.SIGWINCH)
		<-again.C
		if strings.Contains(v.drawn.String()[before:], text) {
			return
		}
	}
	v.t.Fatalf("%q does not stand on the screen", text)
}

func (v *viewer) types(text string) {
	v.t.Helper()
	if _, err := v.keyboard.WriteString(text); err != nil {
		v.t.Fatal(err)
	}
}

func (v *viewer) mode() unix.Termios {
	v.t.Helper()
	m, err := unix.IoctlGetTermios(int(v.screen.Fd()), unix.TCGETS)
	if err != nil {
		v.t.Fatal(err)
	}
	return *m
}

// coloured matches what turns a colour on.
var coloured = regexp.MustCompile(`\x1b\[([0-9]*;)*([34][0-8]|9[0-7]|10[0-7])[;m]`)

// Somebody looks, sees by watch what others do, pauses the queue, retries what is dead, and leaves.
func TestTopOnATerminal(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.bury("01J8AA")
	s.enqueue("01J8AB")
	v := s.top("", "top")
	v.shows("> q")
	s.enqueue("01J8AC")
	v.shows("enqueued q/01J8AC")
	v.types("p")
	v.shows("Pause queue q in ")
	if settings, err := admin.Settings(s.within(clitest.Patience), s.queue); err != nil || settings.Paused {
		t.Errorf("before the answer: %+v, %v", settings, err)
	}
	v.types("y")
	v.shows("PAUSED")
	settings, err := admin.Settings(s.within(clitest.Patience), s.queue)
	if err != nil || !settings.Paused || settings.PausedWhy != "leasectl top" {
		t.Errorf("after the answer: %+v, %v", settings, err)
	}
	v.types("r")
	v.shows("Retry 1 dead job of queue q")
	v.types("y")
	v.shows("1 of 1 dead job retried")
	if n := s.count(workqueue.StateReady); n != 3 {
		t.Errorf("%d jobs are ready", n)
	}
	v.types("\r")
	v.shows("JOBS of q")
	v.types("/id:01J8AB\r")
	v.shows("filter id:01J8AB")
	v.types("q")
	if code := v.exit(); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
	if !coloured.MatchString(v.drawn.String()) {
		t.Error("nothing was coloured")
	}
}

func TestTopGivesTheTerminalBack(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.enqueue("a")
	for name, test := range map[string]struct {
		end  func(*viewer)
		code int
	}{
		"SIGTERM": {func(v *viewer) { v.signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"SIGINT":  {func(v *viewer) { v.signal(syscall.SIGINT) }, exit.Interrupted},
		"ctrl-c":  {func(v *viewer) { v.types("\x03") }, exit.Interrupted},
	} {
		t.Run(name, func(t *testing.T) {
			s := *s
			s.t = t
			v := s.top("1", "top")
			v.shows("> q")
			test.end(v)
			if code := v.exit(); code != test.code {
				t.Errorf("exit code %d, want %d", code, test.code)
			}
			<-v.drawn.When("\x1b[?1049l")
			if m := v.mode(); m.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) != unix.ICANON|unix.ECHO|unix.ISIG {
				t.Errorf("the terminal is left in mode %+v", m)
			}
			if found := coloured.FindString(v.drawn.String()); found != "" {
				t.Errorf("drawn in colour against NO_COLOR: %q", found)
			}
		})
	}
}

// Without etcd, what was known stays on the screen, which says of when it is; then it goes on.
func TestTopWithoutEtcd(t *testing.T) {
	t.Parallel()
	s := newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true}))
	s.enqueue("a")
	proxy, err := faultproxy.New(s.endpoints)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Close() })
	s.endpoints = proxy.Endpoint()
	v := s.top("1", "--dial-timeout", "2s", "top")
	v.shows("> q")
	proxy.Refuse()
	v.shows("STALE")
	v.shows("what stands here is of")
	v.types("p")
	v.shows("nothing can be changed now")
	proxy.Heal()
	v.shows("live (watch)")
	s.enqueue("b")
	v.shows("enqueued q/b")
	v.types("q")
	if code := v.exit(); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
}

// cancelAll cancels the first thousand jobs. Those that a busy etcd gives no answer about are cancelled at the next try.
func (s *station) cancelAll() {
	s.t.Helper()
	for ctx := s.within(clitest.Patience); ; {
		p := s.start(exec.Command("leasectl", "jobs", "cancel", "--queue", "mail", "--filter", "id:job-000*", "--yes"))
		code := p.exit()
		if code == exit.OK {
			return
		}
		if ctx.Err() != nil || code != exit.Partly {
			s.t.Fatalf("exit code %d: %s", code, p.stderr)
		}
	}
}

// However many jobs there are, and however many come while one looks, the screen keeps few of them. With
// LEASEKIT_TOP_JOBS=100000 it is as many as that.
func TestTopMemory(t *testing.T) {
	t.Parallel()
	most := 150 << 10 // KiB
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		most *= 5 // the detector's own
	}
	jobs := 5000 / slower
	if n, err := strconv.Atoi(os.Getenv("LEASEKIT_TOP_JOBS")); err == nil {
		jobs = n
	}
	m := newMany(t, jobs, 900)
	s := &station{t: t, endpoints: m.env["LEASECTL_ENDPOINTS"], root: connect.DefaultRoot, dir: t.TempDir()}
	v := s.top("1", "top")
	v.shows("> mail")
	v.types("\r")
	v.shows("the first 200")
	v.types("/-label.tenant:42\r") // reads every record whole
	v.shows("filter -label.tenant:42")
	s.cancelAll() // a burst of events
	v.types("\x1b")
	v.shows("cancelled mail/job-000")
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(v.cmd.Process.Pid), "status"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if peak, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(peak), "kB")))
			if err != nil || kib > most {
				t.Errorf("at most it took %q, want at most %d KiB (%v)", peak, most, err)
			}
			t.Logf("%d jobs: at most %d KiB", jobs, kib)
		}
	}
	v.types("q")
	if code := v.exit(); code != exit.OK {
		t.Errorf("exit code %d", code)
	}
}
