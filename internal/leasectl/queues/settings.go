package queues

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/look"
	"github.com/leasekit/leasekit/workqueue"
)

// settingFlags are a queue's settings as people write them; "" changes nothing.
type settingFlags struct{ retain, retainJobs, retainBytes, backoff string }

func (s *settingFlags) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.retain, "retain", "", "keep done jobs for `TIME`; default takes it back, here and below")
	f.StringVar(&s.retainJobs, "retain-jobs", "", "keep at most `N` done jobs of each process")
	f.StringVar(&s.retainBytes, "retain-bytes", "", "keep at most `SIZE` of them, such as 256MiB")
	f.StringVar(&s.backoff, "backoff", "", "pause `INITIAL[,MAX[,FACTOR]]` before a failed job is tried again")
}

// apply changes what the flags name.
func (s *settingFlags) apply(to *workqueue.Config) error {
	jitter := to.Backoff.Jitter // no flag names it
	if err := cmp.Or(
		setting("retain", s.retain, "24h", &to.Retention, time.ParseDuration),
		setting("retain-jobs", s.retainJobs, "50000", &to.RetainJobs, strconv.Atoi),
		setting("retain-bytes", s.retainBytes, "256MiB", &to.RetainBytes, parseSize),
		setting("backoff", s.backoff, "5s,10m,2", &to.Backoff, parseBackoff),
	); err != nil {
		return err
	}
	if s.backoff != look.TakeBack {
		to.Backoff.Jitter = jitter
	}
	return to.ValidateSettings()
}

// change is the change that the flags ask for.
func (s *settingFlags) change() queueChange {
	var parts []string
	for _, f := range [][2]string{{"retain", s.retain}, {"retain-jobs", s.retainJobs}, {"retain-bytes", s.retainBytes}, {"backoff", s.backoff}} {
		if f[1] != "" {
			parts = append(parts, f[0]+" "+f[1])
		}
	}
	what := strings.Join(parts, ", ")
	return queueChange{
		what: "set " + what + " of", past: "set to " + what, settings: true,
		do: func(ctx context.Context, q *workqueue.Queue, by workqueue.By) error {
			return q.SetSettings(ctx, func(now *workqueue.Config) { _ = s.apply(now) }, by) // the flags were looked at before
		},
	}
}

// noteSettings shows what is there before it changes.
func noteSettings(a *cli.App, s admin.Stats) {
	a.Notef("so far: %s", look.SettingsText(s.Settings))
	if s.SettingsErr != nil {
		a.Notef("warning: what nobody goes by is dropped: %v", s.SettingsErr)
	}
}

// setting changes one.
func setting[T comparable](flag, text, like string, to *T, parse func(string) (T, error)) error {
	var none T
	switch text {
	case "":
		return nil
	case look.TakeBack:
		*to = none
		return nil
	}
	v, err := parse(text)
	if err == nil && v == none {
		err = errors.New("it must be above zero")
	}
	if err != nil {
		return exit.Usagef(fmt.Sprintf("--%s %s, or --%s %s", flag, like, flag, look.TakeBack), "--%s is %q: %w", flag, text, err)
	}
	*to = v
	return nil
}

// parseSize reads a number of bytes, or of a unit of them.
func parseSize(text string) (int, error) {
	number, unit := text, 1
	for i, suffix := range look.SizeUnits {
		if cut, ok := strings.CutSuffix(text, suffix); ok {
			number, unit = cut, 1<<(10*(i+1))
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > math.MaxInt/unit {
		return 0, errors.New("it is no size")
	}
	return n * unit, nil
}

// parseBackoff reads INITIAL[,MAX[,FACTOR]].
func parseBackoff(text string) (b workqueue.Backoff, err error) {
	parts := strings.Split(text, ",")
	if len(parts) > 3 {
		return b, errors.New("it has more than three parts")
	}
	if b.Initial, err = time.ParseDuration(parts[0]); err == nil && len(parts) > 1 {
		b.Max, err = time.ParseDuration(parts[1])
	}
	if err == nil && len(parts) > 2 {
		b.Factor, err = strconv.ParseFloat(parts[2], 64)
	}
	return b, err
}
