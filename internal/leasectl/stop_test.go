package leasectl

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
)

// Who stops a process gives it 30 s, as a pod has, or less. By default the verbs that stay need 25 at most, an etcd that
// gives no answer included.
func TestDefaultsFitIntoAPodsTimeToStop(t *testing.T) {
	const (
		output  = time.Second     // what a command has written: execjob.Runner.Run
		results = 3 * time.Second // workqueue.Worker.Run
		session = 3 * time.Second // coord.SessionKeeper.Run
		queue   = 3 * time.Second // workqueue.Queue.Close
		leader  = 9 * time.Second // election.Elector.Run
		request = 5 * time.Second // --dial-timeout, for the release of a lock and for its session
	)
	a := &cli.App{}
	of := func(verb, flag string) time.Duration {
		for _, cmd := range verbs(a) {
			if cmd.Name() != verb {
				continue
			}
			d, err := cmd.Flags().GetDuration(flag)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		t.Fatalf("there is no verb %s", verb)
		return 0
	}
	for verb, takes := range map[string]time.Duration{
		"work":     of("work", "finish") + of("work", "grace") + output + results + session + queue,
		"dispatch": leader + queue,
		"lock":     of("lock", "grace") + output + 2*request,
	} {
		if takes > 25*time.Second {
			t.Errorf("leasectl %s may take %v to stop", verb, takes)
		}
	}
}
