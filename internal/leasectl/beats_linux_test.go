package leasectl

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/clitest"
)

// beats starts, as a command of leasectl, what is hard to stop: a child, one in another session and an orphan, all of
// which ignore what can be ignored and write their token to the file beats again and again.
const beats = `trap "" HUP INT QUIT TERM USR1
	cat >beat.$1 <<-'END'
		while :; do echo "$LEASECTL_TOKEN $0" >>beats; sleep 0.02; done
	END
	sh beat.$1 & setsid sh beat.$1 & (setsid sh beat.$1 &)
	until [ "$(grep -c "^$LEASECTL_TOKEN " beats)" -gt 9 ]; do sleep 0.02; done
	echo beating >&2; while :; do sleep 0.02; done`

// next is the command of the next owner: it tells when it has the claim, and leaves what still beats the time for it.
const next = `echo next >>beats; i=0; while [ $i -lt 20 ]; do sleep 0.02; i=$((i+1)); done; echo end >>beats`

// expires is the TTL of a holder whose session ends with its lease, lasts that of any other: a machine that stands still for
// seconds costs nobody his claim before he is stopped.
const expires, lasts = "6s", "1m"

// However leasectl ends, or is stopped, nothing that it ran under a claim beats once another holds it.
func TestNothingBeatsBesideTheNextOwner(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	for _, verb := range [][]string{{"lock", "l"}, {"elections", "campaign", "l"}} {
		for _, sig := range []syscall.Signal{
			syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGKILL, syscall.SIGABRT, syscall.SIGSEGV,
			syscall.SIGSTOP,
		} {
			if verb[0] != "lock" && sig != syscall.SIGHUP && sig != syscall.SIGKILL {
				continue // they share all but the claim
			}
			t.Run(fmt.Sprintf("%s-%d", verb[0], sig), func(t *testing.T) {
				t.Parallel()
				s := newStation(t, etcd)
				run := func(script, ttl string) *worker {
					args := append(append([]string{}, verb...), "--ttl", ttl)
					if verb[0] == "lock" {
						args = append(args, "--grace", "100ms")
					}
					return s.start(exec.Command("leasectl", append(args, "--", "sh", "-c", script, "sh", "own")...))
				}
				ttl := expires
				switch sig {
				case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
					ttl = lasts // it gives back what it holds
				}
				holder := run(beats, ttl)
				holder.says("beating")
				holder.signal(sig)
				if code := run(next, lasts).exit(); code != 0 {
					t.Errorf("the next owner ended with %d", code)
				}
				noBeatAfterNext(t, s.dir)
			})
		}
	}
}

// The same with the jobs of a worker that ends without a chance to clean up.
func TestNoJobBeatsBesideTheNextWorker(t *testing.T) {
	etcd := clitest.StartEtcd(t, embedetcd.Config{Fast: true})
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGABRT, syscall.SIGSTOP} {
		t.Run(fmt.Sprintf("work-%d", sig), func(t *testing.T) {
			t.Parallel()
			s := newStation(t, etcd)
			s.enqueue("j")
			holder := s.start(exec.Command("leasectl", "work", testQueue, "--ttl", expires, "--grace", "0s", "--", "sh", "-c", beats, "sh", "own"))
			holder.says("beating")
			holder.signal(sig)
			if code := s.work(next, "--once").exit(); code != 0 {
				t.Errorf("the next worker ended with %d", code)
			}
			noBeatAfterNext(t, s.dir)
		})
	}
}

// A terminal that closes takes the worker along once its jobs have ended, and nothing before.
func TestHangupDrainsWork(t *testing.T) {
	testFirstSignal(t, newStation(t, clitest.StartEtcd(t, embedetcd.Config{Fast: true})), syscall.SIGHUP)
}

func noBeatAfterNext(t *testing.T, dir string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "beats"))
	if err != nil {
		t.Fatal(err)
	}
	before, after, _ := strings.Cut(string(b), "next\n")
	if after != "end\n" {
		t.Errorf("beats beside the next owner:\n%s", after)
	}
	if strings.Count(before, "\n") < 10 {
		t.Errorf("only these beats before it, so nothing is shown:\n%s", before)
	}
}
