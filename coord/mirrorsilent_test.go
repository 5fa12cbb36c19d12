package coord_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/leasekit/leasekit/integration/etcdtest"
)

// One of three endpoints falls silent, whichever carries the watch: it is
// noticed and left, and events come again.
func TestSurvives_34_SilentEndpoint(t *testing.T) {
	t.Parallel()
	const quiet = 500 * time.Millisecond
	server := etcdtest.New(t, etcdtest.Config{Members: 3, Proxies: true})
	client, direct := server.ProxiedClient(t), server.Client(t)
	mem := newMemory(t)
	m := runMirror(t, client, quiet, 0, mem)
	key := m.root + "a/k"
	put(t, direct, key, "0")
	mem.waitFor(key, "0")
	for i := range 3 {
		server.Proxy(i).Pause()
		value := fmt.Sprint("silent ", i)
		began := time.Now()
		put(t, direct, key, value)
		mem.waitFor(key, value)
		// 2.5 x Quiet to leave; then it may meet the silent one once more.
		if got := time.Since(began); got > 5*quiet+10*time.Second {
			t.Errorf("endpoint %d silent: the event came after %v", i, got)
		}
		server.Proxy(i).Heal()
	}
}

func TestSurvives_34_OnlyEndpointSilent(t *testing.T) {
	t.Parallel()
	const quiet = 200 * time.Millisecond
	proxies, eps := proxyBefore(t, etcdtest.Shared(t).Endpoints()[0])
	direct := etcdtest.Shared(t).Client(t)
	rec := &etcdtest.Recorder{}
	mem := newMemory(t)
	m := runMirror(t, etcdtest.NewClient(t, eps, rec.DialOptions()...), quiet, 0, mem)
	key := m.root + "a/k"
	put(t, direct, key, "before")
	mem.waitFor(key, "before")
	for i := range 2 {
		proxies[0].Pause()
		rec.Reset()
		began := time.Now()
		put(t, direct, key, fmt.Sprint("missed ", i))
		// It has left, to watch, or, where that is due, to list.
		if err := rec.WaitAny(within(t), 1, "Watch.open", "Range", "RangeStream.open"); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(began); got > 5*quiet/2+5*time.Second {
			t.Errorf("left a silent stream after %v, want 2.5 x %v", got, quiet)
		}
		// It keeps trying, however long that takes.
		if err := rec.WaitAny(within(t), 3, "Watch.open", "Range", "RangeStream.open"); err != nil {
			t.Fatal(err)
		}
		put(t, direct, key, fmt.Sprint("after ", i))
		proxies[0].Heal()
		mem.waitFor(key, fmt.Sprint("after ", i))
	}
}

func TestMirrorScanRepairsItsSink(t *testing.T) {
	t.Parallel()
	client := etcdtest.Shared(t).Client(t)
	mem := newMemory(t)
	m := runMirror(t, client, 0, 100*time.Millisecond, mem)
	key := m.root + "a/k"
	put(t, client, key, "1")
	mem.waitFor(key, "1")
	mem.mu.Lock()
	mem.keys[key] = "damaged"
	mem.keys[key+"-stale"] = "damaged"
	mem.mu.Unlock()
	mem.wait("repair", func() bool { return len(mem.keys) == 1 && mem.keys[key] == "1" })
}

// An idle mirror costs one progress request per Quiet for all of its prefixes,
// on one stream, and nothing else.
func TestIdleMirrorIsCheap(t *testing.T) {
	const quiet = 500 * time.Millisecond // and not parallel: the machine should be idle too
	rec := &etcdtest.Recorder{}
	// Not the shared one: where nobody writes, silence is hardest to judge.
	client := etcdtest.New(t, etcdtest.Config{}).Client(t, rec.DialOptions()...)
	m := runMirror(t, client, quiet, 0, newMemory(t), newMemory(t), newMemory(t))
	if err := rec.Wait(within(t), "Watch.create", 3); err != nil {
		t.Fatal(err)
	}
	done(t, "sync", m.Synced())
	before := rec.Counts()
	began := time.Now()
	if err := rec.Wait(within(t), "Watch.progress", 5); err != nil {
		t.Fatal(err)
	}
	if got := time.Since(began); got < 4*quiet {
		t.Errorf("5 progress requests in %v, want one per %v", got, quiet)
	}
	for name, n := range rec.Counts() {
		if name != "Watch.progress" && n != before[name] {
			t.Errorf("%s: %d calls while nothing happened", name, n-before[name])
		}
	}
	if got := rec.Count("Watch.open"); got != 1 {
		t.Errorf("%d streams for one mirror", got)
	}
}

// Run returns when its ctx ends even though the server says nothing.
func TestMirrorEndsOnASilentLink(t *testing.T) {
	t.Parallel()
	proxies, eps := proxyBefore(t, etcdtest.Shared(t).Endpoints()[0])
	for _, when := range []string{"before the list", "watching"} {
		t.Run(when, func(t *testing.T) {
			proxies[0].Heal()
			if when == "before the list" {
				proxies[0].Pause()
			}
			mem := newMemory(t)
			m := runMirror(t, etcdtest.NewClient(t, eps), 100*time.Millisecond, 0, mem)
			if when == "watching" {
				done(t, "sync", m.Synced())
				proxies[0].Pause()
			}
			m.stop()
		})
	}
	proxies[0].Heal()
}
