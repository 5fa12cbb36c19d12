package leasectl

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// restored is what --after-restore did, in JSON.
type restored struct {
	Root     string            `json:"root"`
	Sessions []restoredSession `json:"sessions"`
	Ended    int               `json:"ended"`
}

type restoredSession struct {
	ID    string `json:"id"`
	Lease string `json:"lease"` // hex; empty when there is none
	Ended bool   `json:"ended"`
	Error string `json:"error,omitempty"`
}

// runAfterRestore ends all sessions, after somebody has typed the root.
func runAfterRestore(ctx context.Context, a *app, o doctorOptions) error {
	return a.withEtcd(ctx, func(c *connection) error {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		all, err := doctor.ListSessions(ctx, c.Client, c.root)
		if err != nil {
			return err
		}
		a.notef(`%s: %d sessions.
A backup brings back the leases of processes that have gone on since, so a claim of
today may look like one of then. This ends every session: each process notices,
stops what it runs, and opens another session; its late results are refused, and
its jobs are worked again. Jobs, queues and locks stay as they are. Attempts that
are lost by this count only where their process is gone.`, c.where(), len(all))
		if len(all) > 0 {
			if err := a.confirmTyped(ctx, &o.mutation, "root", c.root, fmt.Sprintf("This ends %d sessions under %s", len(all), c.root)); err != nil {
				return err
			}
		}
		res := restored{Root: c.root, Sessions: []restoredSession{}}
		var errs []error
		if o.dryRun {
			errs = make([]error, len(all))
		} else {
			errs = doctor.EndSessions(ctx, c.Client, c.root, all)
		}
		for i, s := range all {
			item := restoredSession{ID: s.ID, Ended: errs[i] == nil && !o.dryRun}
			if s.Lease != 0 {
				item.Lease = fmt.Sprintf("%016x", s.Lease)
			}
			if errs[i] != nil {
				item.Error = errorText(errs[i])
			}
			if item.Ended {
				res.Ended++
			}
			res.Sessions = append(res.Sessions, item)
		}
		return printRestored(a, o, res)
	})
}

func printRestored(a *app, o doctorOptions, res restored) error {
	if o.format == doctorJSON {
		if err := printJSON(a.out, res); err != nil {
			return err
		}
	} else {
		for _, s := range res.Sessions {
			line := "session/" + wordCell(s.ID) + " ended"
			switch {
			case s.Error != "":
				line = "session/" + wordCell(s.ID) + " FAILED: " + s.Error
			case o.dryRun:
				line = "session/" + wordCell(s.ID) + " would be ended"
			}
			if err := a.printLine(escape.Text(line)); err != nil {
				return err
			}
		}
	}
	if failed := len(res.Sessions) - res.Ended; failed > 0 && !o.dryRun {
		return &failure{code: exitPartly, err: fmt.Errorf("%d of %d sessions not ended", failed, len(res.Sessions)), try: "the same command again"}
	}
	return nil
}
