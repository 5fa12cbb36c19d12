package doctor

import (
	"context"
	"fmt"

	"github.com/leasekit/leasekit/internal/doctor"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
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
func runAfterRestore(ctx context.Context, a *cli.App, o doctorOptions) error {
	return a.WithEtcd(ctx, func(c *connect.Conn) error {
		ctx, cancel := context.WithTimeout(ctx, o.Timeout)
		defer cancel()
		all, err := doctor.ListSessions(ctx, c.Client, c.Root)
		if err != nil {
			return err
		}
		a.Notef(`%s: %d sessions.
A backup brings back the leases of processes that have gone on since, so a claim of
today may look like one of then. This ends every session: each process notices,
stops what it runs, and opens another session; its late results are refused, and
its jobs are worked again. Jobs, queues and locks stay as they are. Attempts that
are lost by this count only where their process is gone.`, c.Where(), len(all))
		if len(all) > 0 {
			if err := a.ConfirmTyped(ctx, &o.Mutation, "root", c.Root, fmt.Sprintf("This ends %d sessions under %s", len(all), c.Root)); err != nil {
				return err
			}
		}
		res := restored{Root: c.Root, Sessions: []restoredSession{}}
		var errs []error
		if o.DryRun {
			errs = make([]error, len(all))
		} else {
			errs = doctor.EndSessions(ctx, c.Client, c.Root, all)
		}
		for i, s := range all {
			item := restoredSession{ID: s.ID, Ended: errs[i] == nil && !o.DryRun}
			if s.Lease != 0 {
				item.Lease = fmt.Sprintf("%016x", s.Lease)
			}
			if errs[i] != nil {
				item.Error = exit.Text(errs[i])
			}
			if item.Ended {
				res.Ended++
			}
			res.Sessions = append(res.Sessions, item)
		}
		return printRestored(a, o, res)
	})
}

func printRestored(a *cli.App, o doctorOptions, res restored) error {
	if o.format == doctorJSON {
		if err := output.PrintJSON(a.Out, res); err != nil {
			return err
		}
	} else {
		for _, s := range res.Sessions {
			line := "session/" + escape.WordCell(s.ID) + " ended"
			switch {
			case s.Error != "":
				line = "session/" + escape.WordCell(s.ID) + " FAILED: " + s.Error
			case o.DryRun:
				line = "session/" + escape.WordCell(s.ID) + " would be ended"
			}
			if err := a.PrintLine(escape.Text(line)); err != nil {
				return err
			}
		}
	}
	if failed := len(res.Sessions) - res.Ended; failed > 0 && !o.DryRun {
		return &exit.Error{Code: exit.Partly, Err: fmt.Errorf("%d of %d sessions not ended", failed, len(res.Sessions)), Try: "the same command again"}
	}
	return nil
}
