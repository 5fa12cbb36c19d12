package queues

import (
	"testing"
	"time"

	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/workqueue"
)

// Flags change what they name and nothing else: a backoff keeps the jitter that a program gave it.
func TestSettingFlagsChangeWhatTheyName(t *testing.T) {
	set := workqueue.Config{Retention: time.Hour, RetainJobs: 5, RetainBytes: 6, Backoff: workqueue.Backoff{Initial: time.Second, Max: time.Minute, Factor: 3, Jitter: -1}}
	other := set
	other.Backoff = workqueue.Backoff{Initial: 5 * time.Second, Max: time.Hour, Jitter: -1}
	none := set
	none.Backoff = workqueue.Backoff{}
	longer := set
	longer.Retention = 24 * time.Hour
	for _, tc := range []struct {
		flags settingFlags
		want  workqueue.Config
	}{
		{settingFlags{}, set},
		{settingFlags{retain: "24h"}, longer},
		{settingFlags{backoff: "5s,1h"}, other},
		{settingFlags{backoff: look.TakeBack}, none},
	} {
		got := set
		if err := tc.flags.apply(&got); err != nil || got != tc.want {
			t.Errorf("%+v: got %+v, %v, want %+v", tc.flags, got, err, tc.want)
		}
	}
}
