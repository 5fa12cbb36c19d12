package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/leasectl/sessions"
	"github.com/leasekit/leasekit/workqueue"
)

func newJobsClaim(a *cli.App) *cobra.Command {
	var session string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "claim QUEUE --session S",
		Short: "Claim the next job for a session, from a script",
		Long: `Claim the next job for a session, and print what is needed to work it: its token
proves the claim to jobs progress, checkpoint, complete, fail and release, and its
nonce covers a cluster that was restored from a backup. The claim lasts as long as
the session is renewed. Exit code 3 means that nothing is claimable.`,
		Example: `  leasectl jobs claim mail --session "$S" -o json
  leasectl jobs claim mail --session "$S" --wait 30s -o json >job.json`,
		Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			format, err := a.Format(output.JSON, output.Name)
			if err != nil {
				return err
			}
			switch {
			case session == "":
				return exit.Usagef("S=$(leasectl session open) and --session \"$S\"", "--session is missing: a claim needs an owner that can be seen to live")
			case wait < 0:
				return exit.Usagef("--wait 30s", "--wait is %v: it must not be negative", wait)
			}
			return a.WithQueue(cmd.Context(), args[0], func(c *connect.Conn, q *workqueue.Queue) error {
				claim, err := claimFor(cmd.Context(), a, c, q, session, wait)
				if err != nil {
					return err
				}
				return output.Told(cli.NameOf(claim.Job())+" is claimed", printClaim(a, format, claim, session))
			})
		},
	}
	cmd.Flags().StringVar(&session, "session", "", "claim for session `S`, as session open printed it")
	cmd.Flags().DurationVar(&wait, "wait", 0, "wait up to `TIME` for a job")
	return cli.Writes(cmd)
}

// claimedItem is a claim in JSON. Token is a string: it may exceed what a JSON number keeps exactly.
type claimedItem struct {
	ID               string  `json:"id"`
	Ref              string  `json:"ref"` // as the other commands take it
	Queue            string  `json:"queue"`
	Kind             string  `json:"kind"`
	Token            string  `json:"token"`
	Nonce            string  `json:"nonce"`
	Attempt          int     `json:"attempt"`
	Session          string  `json:"session"`
	IdempotencyKey   string  `json:"idempotency_key"`
	Timeout          string  `json:"timeout,omitempty"`
	Payload          *string `json:"payload,omitempty"`
	PayloadBase64    []byte  `json:"payload_base64,omitempty"`
	Checkpoint       *string `json:"checkpoint,omitempty"`
	CheckpointBase64 []byte  `json:"checkpoint_base64,omitempty"`
}

func printClaim(a *cli.App, format string, claim *workqueue.Claim, session string) error {
	j := claim.Job()
	if format == output.Name {
		return a.PrintLine(cli.NameOf(j))
	}
	item := claimedItem{
		ID: j.ID, Ref: cli.NameOf(j), Queue: j.Queue, Kind: j.Kind, Token: claim.Token().String(), Nonce: claim.Fence().Nonce,
		Attempt: j.Attempt, Session: session, IdempotencyKey: j.IdempotencyKey(),
	}
	if j.Timeout > 0 {
		item.Timeout = j.Timeout.String()
	}
	payload := j.Payload
	if payload == nil {
		payload = []byte{}
	}
	item.Payload, item.PayloadBase64 = textOrBytes(payload)
	item.Checkpoint, item.CheckpointBase64 = textOrBytes(j.Checkpoint)
	return output.PrintJSON(a.Out, item)
}

// claimFor claims a job for a session that lives without a process, and leaves it so.
func claimFor(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, session string, wait time.Duration) (claim *workqueue.Claim, err error) {
	err = sessions.Resume(ctx, a, c, session, func(ctx context.Context, s *coord.Session) error {
		store := c.Store()
		keys := store.Keys().Queue(q.Name())
		if wait > 0 {
			defer connect.WatchOver(ctx, c, a.Notef)()
		}
		claim, err = claimWithin(ctx, a, q, s, wait, func(ctx context.Context) <-chan error {
			return a.WatchPrefixes(ctx, store, []string{keys.Jobs(), keys.Config(), store.Keys().Sessions()})
		})
		return err
	})
	return claim, err
}

// claimWithin claims once, and again when something changes or a job may have come due, until the time is over.
func claimWithin(ctx context.Context, a *cli.App, q *workqueue.Queue, s *coord.Session, wait time.Duration, watch func(context.Context) <-chan error) (*workqueue.Claim, error) {
	claim, err := claimOnce(ctx, a, q, s)
	if wait == 0 || !errors.Is(err, workqueue.ErrEmpty) {
		return claim, err
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changed := watch(waiting)
	due := time.NewTicker(time.Second)
	defer due.Stop()
	for {
		select {
		case werr := <-changed:
			if werr != nil {
				return nil, werr
			}
		case <-due.C:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, err
		}
		if claim, err = claimOnce(ctx, a, q, s); !errors.Is(err, workqueue.ErrEmpty) {
			return claim, err
		}
	}
}

func claimOnce(ctx context.Context, a *cli.App, q *workqueue.Queue, s *coord.Session) (*workqueue.Claim, error) {
	ctx, cancel := a.Bounded(ctx)
	defer cancel()
	claim, err := q.Claim(ctx, s)
	if errors.Is(err, workqueue.ErrEmpty) {
		return nil, &exit.Error{Code: exit.NotFound, Err: fmt.Errorf("nothing is claimable in queue %s: %w", q.Name(), err), Try: "--wait 30s"}
	}
	return claim, err
}
