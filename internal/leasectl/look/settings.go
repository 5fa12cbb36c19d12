package look

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/leasekit/leasekit/workqueue"
)

// TakeBack is what a flag says to take its setting back.
const TakeBack = "default"

// SizeUnits are the units of sizes.
var SizeUnits = []string{"KiB", "MiB", "GiB", "TiB"}

// SettingsText is what the settings say, as the flags would.
func SettingsText(s workqueue.Config) string {
	text := func(set bool, value string) string {
		if !set {
			return TakeBack
		}
		return value
	}
	return "retain " + text(s.Retention != 0, shortTime(s.Retention)) +
		"  retain-jobs " + text(s.RetainJobs != 0, strconv.Itoa(s.RetainJobs)) +
		"  retain-bytes " + text(s.RetainBytes != 0, exactSize(s.RetainBytes)) +
		"  backoff " + text(s.Backoff != (workqueue.Backoff{}), backoffText(s.Backoff))
}

func backoffText(b workqueue.Backoff) string {
	text := shortTime(cmp.Or(b.Initial, time.Second)) + "," + shortTime(cmp.Or(b.Max, 10*time.Minute))
	if b.Factor != 0 {
		text += "," + strconv.FormatFloat(b.Factor, 'g', -1, 64)
	}
	return text
}

// shortTime is a duration without the parts that are zero.
func shortTime(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// exactSize is a size in the largest unit that says it exactly.
func exactSize(n int) string {
	unit := ""
	for _, next := range SizeUnits {
		if n == 0 || n%(1<<10) != 0 {
			break
		}
		n, unit = n>>10, next
	}
	return strconv.Itoa(n) + unit
}

// Settings is a queue's settings in JSON; what is left out is not set.
type Settings struct {
	Retention   string       `json:"retention,omitempty"`
	RetainJobs  int          `json:"retain_jobs,omitempty"`
	RetainBytes int          `json:"retain_bytes,omitempty"`
	Backoff     *backoffItem `json:"backoff,omitempty"`
}

type backoffItem struct {
	Initial string  `json:"initial,omitempty"`
	Max     string  `json:"max,omitempty"`
	Factor  float64 `json:"factor,omitempty"`
	Jitter  float64 `json:"jitter,omitempty"`
}

func settingsItemOf(s workqueue.Config) Settings {
	text := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return d.String()
	}
	item := Settings{Retention: text(s.Retention), RetainJobs: s.RetainJobs, RetainBytes: s.RetainBytes}
	if b := s.Backoff; b != (workqueue.Backoff{}) {
		item.Backoff = &backoffItem{text(b.Initial), text(b.Max), b.Factor, b.Jitter}
	}
	return item
}
