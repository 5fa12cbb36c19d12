package claims

import (
	"github.com/spf13/cobra"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/line"
)

// NewElections is leasectl elections.
func NewElections(a *cli.App) *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "elections",
		Short: "Look at leaders and candidates, stand for election, move leadership",
		Long: `Look at who leads and who stands, run a command while leading, and move leadership
from outside. All but campaign also take election/NAME, as -o name prints it.`,
		GroupID: cli.GroupLook,
		Example: `  leasectl elections ls
  leasectl elections observe scheduler
  leasectl elections campaign scheduler --as node-a -- ./scheduler
  leasectl elections transfer scheduler --to node-b --reason "node-a goes down"`,
		Aliases: []string{"election", "e"},
		// Not campaign: what a name excludes must not hang on who reads it how.
	}, append(cli.TakesBack(electionNoun.noun, newElectionsLs(a), newElectionsGet(a), newElectionsObserve(a), newElectionsResign(a), newElectionsTransfer(a),
		newElectionsAcquire(a), newElectionsVerify(a), newElectionsRelease(a)),
		cli.Writes(newElectionsCampaign(a)))...)
}

func newElectionsLs(a *cli.App) *cobra.Command {
	return newClaimsLs(a, electionNoun, &cobra.Command{
		Use:   "ls",
		Short: "List the elections that have a leader or candidates",
		Long: `List the elections that have a leader or candidates. An election whose STATE is
orphan has a leader whose session is gone: the next candidate leads.`,
		Example: `  leasectl elections ls
  leasectl elections ls -o json`,
	})
}

func newElectionsGet(a *cli.App) *cobra.Command {
	return newClaimsGet(a, electionNoun, &cobra.Command{
		Use:   "get NAME",
		Short: "Show one election, in JSON with its candidates",
		Long: `Show who leads, and in JSON who stands, first in line first. What is shown was
confirmed by a majority of etcd's members in this moment.`,
		Example: `  leasectl elections get scheduler
  leasectl elections get scheduler -o json`,
	})
}

func newElectionsCampaign(a *cli.App) *cobra.Command {
	o := underOptions{claimNoun: electionNoun}
	cmd := newUnder(a, &o, &cobra.Command{
		Use:   "campaign NAME [flags] -- CMD [ARG...]",
		Short: "Stand for election, and run a command while leading",
		Long: `Stand for election, in line, and run a command while leading, as leasectl lock does
for a lock. When the command ends, so does the term, and the exit code is that of
the command; when leadership is lost, or moved by resign or transfer, the command
is stopped and the exit code is 121. Run it in a loop to stand again.`,
		Example: `  leasectl elections campaign scheduler --as node-a -- ./scheduler
  while true; do leasectl elections campaign scheduler -- ./scheduler; done`,
	})
	return cmd
}

func newElectionsTransfer(a *cli.App) *cobra.Command {
	var o claimRepairOptions
	cmd := newClaimRepair(a, claimRepair{electionNoun, "transfer", "transferred"}, &o, func(cmd *cobra.Command) error {
		if o.to == "" {
			return exit.Usagef("leasectl elections get "+escape.Shell(cmd.Flags().Arg(0))+" -o json", "%s--to is missing", cli.VerbPrefix(cmd))
		}
		return nil
	}, &cobra.Command{
		Use:   "transfer NAME --to ID",
		Short: "Make a candidate the leader",
		Long: `Make a candidate the leader, in one transaction: there is no moment without one.
The ID is a candidate's session, or an identity (campaign --as) that one candidate
has. The old leader may still be running; it is told, and no write under its term
is accepted any more.`,
		Example: `  leasectl elections transfer scheduler --to node-b
  leasectl elections transfer scheduler --to node-b.0d4fa1c2b3e45f60 --yes`,
	})
	cmd.Flags().StringVar(&o.to, "to", "", "the candidate, by session or `ID`")
	return cmd
}

// successor finds the candidate that --to names.
func successor(seen line.State, name, id string) (string, error) {
	sid, err := seen.Waiter(id)
	if err != nil {
		return "", &exit.Error{Err: err, Try: "leasectl elections get " + escape.Shell(name) + " -o json"}
	}
	return sid, nil
}

func newElectionsResign(a *cli.App) *cobra.Command {
	return newClaimRepair(a, claimRepair{electionNoun, "resign", "resigned"}, &claimRepairOptions{}, func(*cobra.Command) error { return nil },
		&cobra.Command{
			Use:   "resign NAME",
			Short: "End the term of whoever leads",
			Long: `End the term of whoever leads: the first candidate leads, or nobody. The leader may
still be running; it is told, and no write under its term is accepted any more. It
does not wait for the leader's work to end, as the leader's own resigning does.`,
			Example: `  leasectl elections resign scheduler --reason "it is stuck"
  leasectl elections resign scheduler --dry-run`,
		})
}

func newElectionsAcquire(a *cli.App) *cobra.Command {
	return newClaimAcquire(a, electionNoun, &cobra.Command{
		Use:   "acquire NAME --session S",
		Short: "Acquire a leadership for a session, from a script",
		Long: `Acquire the leadership of an election for a session, as locks acquire does a lock.
With --wait it stands in line; else, and when that is over, the exit code is 124.`,
		Example: `  leasectl elections acquire scheduler --session "$S" --wait 1m -o json`,
	})
}

func newElectionsVerify(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{electionNoun, "leads", (*coord.Hold).Verify}, &cobra.Command{
		Use:   "verify NAME --token N",
		Short: "Prove that a term goes on",
		Long: `Prove that a term goes on, in this moment: a majority of etcd's members has said so,
and the session was renewed. Exit code 5 means that it is over.`,
		Example: `  leasectl elections verify scheduler --token 918201 --nonce 5f1c...`,
	})
}

func newElectionsRelease(a *cli.App) *cobra.Command {
	return newClaimStep(a, claimStep{electionNoun, "released", (*coord.Hold).Release}, &cobra.Command{
		Use:   "release NAME --token N",
		Short: "End one's own term, as its leader",
		Long: `End one's own term: the first candidate leads, or nobody. To end another's, see
elections resign. Exit code 5 means that it was over.`,
		Example: `  leasectl elections release scheduler --token 918201 --nonce 5f1c...`,
	})
}
