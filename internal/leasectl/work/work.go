// Package work has the verbs that stay: leasectl work, which runs a command for each job, and dispatch.
package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/leasekit/leasekit/admin"
	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/execjob"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/jobs"
	"github.com/leasekit/leasekit/internal/leasectl/output"
	"github.com/leasekit/leasekit/internal/line"
	"github.com/leasekit/leasekit/workqueue"
)

// workOptions are the flags of work.
type workOptions struct {
	cli.Mutation
	concurrency int
	ttl         time.Duration
	finish      time.Duration
	grace       time.Duration
	drain       bool
	once        bool
	kinds       []string
	credentials bool
	timeout     time.Duration // of an attempt; 0: none but the job's own
	idle        time.Duration // without output; 0: any
	prefix      bool
}

// New is leasectl work.
func New(a *cli.App) *cobra.Command {
	var o workOptions
	cmd := &cobra.Command{
		Use:   "work QUEUE [flags] -- CMD [ARG...]",
		Short: "Run a command for each job of a queue",
		Long: `Run a command for each job: the payload is on its stdin, and how it ends says
what becomes of the job. See leasectl help exec.

The first SIGHUP, SIGINT, SIGQUIT or SIGTERM lets the running commands finish. What
still runs after --finish gets SIGTERM, after --grace SIGKILL, and its job is given
back, uncounted. The exit code is 0, and by default all that takes 25 s at most, of
the 30 s that a pod has, etcd or no etcd. The second signal kills the commands, gives
their jobs back, and the exit code is 130. A SIGTERM within half a second of the first signal does not count as the
second. However leasectl ends, nothing that it ran works on.
When etcd is lost for longer than the TTL the running commands are stopped, since
others may take their jobs over; work goes on when etcd is back.

What happens goes to stderr, as does what the commands write there. stdout is
empty, but for the job of --once.`,
		GroupID: cli.GroupWork,
		Example: `  leasectl work mail -c 4 -- python3 send.py
  leasectl work pages --drain -- sh -c 'curl -fsS "https://example.org/$(cat)"'
  leasectl work mail --once -o json -- ./send
  leasectl work media --kind resize --kind crop --grace 30s -- ./image
  leasectl work agents --timeout 1h --idle-timeout 10m --finish 1h -- ./agent`,
		Args: cli.Takes("QUEUE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 0 || dash == len(args) {
				return exit.Usagef("leasectl work "+args[0]+" -- CMD ARG...", "work: the command after -- is missing")
			}
			if err := o.check(cmd.Flags()); err != nil {
				return err
			}
			if !cmd.Flags().Changed("prefix") {
				o.prefix = o.concurrency > 1 || output.IsTerminal(a.Err)
			}
			return runWork(cmd.Context(), a, args[0], args[dash:], o)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.concurrency, "concurrency", "c", 1, "run `N` commands at a time")
	f.DurationVar(&o.ttl, "ttl", 10*time.Second, "others take the jobs over `TIME` after this process is gone")
	f.DurationVar(&o.finish, "finish", 5*time.Second, "after a signal, let running commands go on for `TIME`, before they get SIGTERM")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "`TIME` between SIGTERM and SIGKILL")
	f.DurationVar(&o.timeout, "timeout", 0, "stop a command that takes longer than `TIME`: its attempt has failed; a job's own timeout may be shorter")
	f.DurationVar(&o.idle, "idle-timeout", 0, "stop a command that has written nothing to stdout or stderr for `TIME`: its attempt has failed")
	f.BoolVar(&o.prefix, "prefix", false, "begin each line that a command writes with its job (default with -c above 1, or on a terminal)")
	f.BoolVar(&o.drain, "drain", false, "end when no job is left: none ready, scheduled or claimed by anybody, of any kind; in mode dispatch that is looked at every 10s")
	f.BoolVar(&o.once, "once", false, "work one job, wait for it if need be, print what became of it, and end")
	f.StringArrayVar(&o.kinds, "kind", nil, "only jobs of `KIND`; may be repeated")
	cli.AddCredentialsFlag(f, &o.credentials)
	o.AddFlags(f)
	f.Lookup("dry-run").Usage = "check the command and the connection, and work nothing"
	f.Lookup("reason").Usage = "show `TEXT` when the work begins"
	return cmd
}

func (o *workOptions) check(f *pflag.FlagSet) error {
	badTTL := cli.CheckTTL(o.ttl)
	switch {
	case o.concurrency < 1 || o.concurrency > 10_000:
		return exit.Usagef("-c 4", "-c is %d: it must be between 1 and 10000", o.concurrency)
	case badTTL != nil:
		return badTTL
	case o.grace < 0:
		return exit.Usagef("--grace 10s", "--grace is %v: it must not be negative", o.grace)
	case o.finish < 0:
		return exit.Usagef("--finish 5s", "--finish is %v: it must not be negative", o.finish)
	case o.once && o.drain:
		return exit.Usagef("one of them", "--once and --drain exclude each other")
	case f.Changed("timeout") && o.timeout <= 0:
		return exit.Usagef("--timeout 10m", "--timeout is %v: it must be positive", o.timeout)
	case f.Changed("idle-timeout") && o.idle <= 0:
		return exit.Usagef("--idle-timeout 10m", "--idle-timeout is %v: it must be positive", o.idle)
	case o.once && f.Changed("concurrency") && o.concurrency != 1:
		return exit.Usagef("--once alone", "--once works one job, not %d at a time", o.concurrency)
	}
	return nil
}

// runWork is work up to where the jobs begin: the command is looked up first, so that a typing error claims nothing.
func runWork(ctx context.Context, a *cli.App, queue string, argv []string, o workOptions) error {
	argv, err := execjob.Look(argv)
	if err != nil {
		return err
	}
	format, err := a.Format(output.ResultFormats...)
	if err != nil {
		return err
	}
	err = a.WithEtcd(ctx, func(c *connect.Conn) error { return workQueue(ctx, a, c, queue, argv, format, o) })
	if _, ok := exit.SignalCode(ctx, err); ok {
		return nil // stopped before anything was claimed: nothing is left to drain
	}
	return err
}

func workQueue(ctx context.Context, a *cli.App, c *connect.Conn, queue string, argv []string, format string, o workOptions) error {
	log := &workLog{w: a.Err}
	q, err := a.OpenQueue(ctx, c, queue, log.zap())
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }() // every outcome is known by now; what is left ends with its lease
	if o.DryRun {
		a.Notef("%s: would run %s for each job of %s", c.Where(), argv[0], queue)
		return nil
	}
	noteObstacles(ctx, a, c, q, log)
	s := newShift(a, c, q, argv, o, log)
	if err := s.run(ctx); err != nil || !o.once {
		return err
	}
	return s.printOnce(context.WithoutCancel(ctx), format)
}

// noteObstacles says why nothing may happen, which is hard to see from a worker that waits. What cannot be read in time
// is not said.
func noteObstacles(ctx context.Context, a *cli.App, c *connect.Conn, q *workqueue.Queue, log *workLog) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	stats, err := admin.Settings(ctx, q)
	if err != nil {
		return
	}
	if stats.Paused {
		log.line("queue %s is paused by %s%s: nothing is claimed; try: leasectl queues resume %s", q.Name(), stats.PausedBy, output.Why(stats.PausedWhy), escape.Shell(q.Name()))
	}
	if stats.Mode != workqueue.ModeDispatch {
		return
	}
	st, err := line.LeadershipState(ctx, c.Store(), q.DispatcherElection())
	if err == nil && (st.Owner == "" || st.OwnerGone) {
		log.line("queue %s is in mode dispatch and nobody dispatches it; try: leasectl dispatch %s", q.Name(), escape.Shell(q.Name()))
	}
}

// shift is one run of work.
type shift struct {
	a      *cli.App
	c      *connect.Conn
	q      *workqueue.Queue
	o      workOptions
	log    *workLog
	exec   *execjob.Runner
	member *coord.SessionKeeper

	jobs sync.WaitGroup // claimed and not yet settled, abandoned ones included

	mu   sync.Mutex
	open map[attemptKey]bool // those jobs
	last string              // the one that settled last
}

// attemptKey names an attempt: jobs that were claimed in one Txn share a token.
type attemptKey struct {
	id    string
	token coord.Token
}

func keyOf(j *workqueue.Job) attemptKey { return attemptKey{j.ID, j.Token} }

// forEver is what a longer time means: sums of it are times too.
const forEver = 100 * 365 * 24 * time.Hour

func newShift(a *cli.App, c *connect.Conn, q *workqueue.Queue, argv []string, o workOptions, log *workLog) *shift {
	o.grace = min(o.grace, forEver)
	grace := o.grace
	if grace == 0 {
		grace = -1 // to the runner 0 is its default
	}
	s := &shift{
		a: a, c: c, q: q, o: o, log: log, open: map[attemptKey]bool{},
		exec: &execjob.Runner{Argv: argv, Grace: grace, Abort: a.Aborted, Endpoints: c.Endpoints, Root: c.Root, Context: c.Context, Credentials: o.credentials, IdleTimeout: o.idle},
	}
	s.member = coord.NewSessionKeeper(c.Client, coord.SessionConfig{Root: c.Root, Identity: a.Settings.Identity, TTL: o.ttl, Logger: log.zap()})
	return s
}

// settleTime is what a handler takes beyond the grace of its command: reading its last output, and one etcd request.
const settleTime = 5 * time.Second

func (s *shift) newWorker() (*workqueue.Worker, error) {
	cfg := workqueue.WorkerConfig{
		Concurrency:   s.o.concurrency,
		SessionKeeper: s.member,
		Grace:         s.o.grace + settleTime, // the command's grace runs inside of it
		DrainTimeout:  s.o.finish,
		Hooks:         s.hooks(),
	}
	if s.o.finish == 0 {
		cfg.DrainTimeout = -1 // to the worker 0 is its default
	}
	if s.o.once {
		cfg.Limit = 1
	}
	var h workqueue.Handler = workqueue.HandlerFunc(s.handle)
	if len(s.o.kinds) > 0 {
		h = ofKinds{h, s.o.kinds}
	}
	return workqueue.NewWorker(s.q, h, cfg)
}

// ofKinds tells the worker which kinds to claim.
type ofKinds struct {
	workqueue.Handler
	kinds []string
}

func (h ofKinds) Kinds() []string { return h.kinds }

// run works until a signal, an empty queue or the one job ends it, and joins everything.
func (s *shift) run(ctx context.Context) error {
	w, err := s.newWorker()
	if err != nil {
		return err
	}
	memberCtx, stopMember := context.WithCancel(context.WithoutCancel(ctx)) // the session must outlive the draining
	workCtx, stopWork := context.WithCancel(ctx)
	var behind sync.WaitGroup
	behind.Go(func() {
		if err := s.member.Run(memberCtx); err != nil {
			s.log.line("session: %s", exit.Text(err))
		}
	})
	behind.Go(func() { s.watchSessions(memberCtx) })
	workCtx, refuse := context.WithCancelCause(workCtx)
	defer connect.WatchLogin(memberCtx, s.c, s.log.line, func(err error) {
		s.log.line("etcd refuses the login: %s", exit.Text(err))
		refuse(&exit.Error{Code: exit.Auth, Err: err, Try: "start it again, with the new password"})
	})()
	behind.Go(func() { s.watchSignals(ctx, memberCtx) })
	if s.o.drain {
		behind.Go(func() { s.untilEmpty(workCtx, stopWork) })
	}
	err = w.Run(workCtx)
	stopped := workCtx.Err() != nil
	stopWork()
	s.jobs.Wait() // bounded by the grace: nothing that runs is left to itself
	stopMember()
	behind.Wait()
	var refused *exit.Error
	switch {
	case errors.As(context.Cause(workCtx), &refused):
		return refused
	case s.isAborted():
		return &exit.Error{Code: exit.Interrupted, Err: errors.New("aborted by a second signal: the running commands were killed")}
	case stopped || s.o.once && s.settled() != "":
		return nil // an error now can only be of commands that did not stop in time, and they have stopped
	case err != nil:
		return fmt.Errorf("work %s: %w", s.q.Name(), err)
	}
	return nil
}

func (s *shift) isAborted() bool {
	select {
	case <-s.a.Aborted:
		return true
	default:
		return false
	}
}

// untilEmpty stops the work when no live job is left. An etcd that does not answer is waited for.
func (s *shift) untilEmpty(ctx context.Context, stop func()) {
	defer stop()
	retry := time.NewTicker(time.Second)
	defer retry.Stop()
	for s.q.WaitEmpty(ctx) != nil {
		select {
		case <-retry.C:
		case <-ctx.Done():
			return
		}
	}
	s.log.line("queue %s is empty", s.q.Name())
}

// watchSessions tells which session the work is done under, and when it is lost.
func (s *shift) watchSessions(ctx context.Context) {
	for {
		session, err := s.member.Session(ctx)
		if err != nil {
			return
		}
		s.log.session(session, s.q.Name(), s.o)
		select {
		case <-session.Done():
			if ctx.Err() == nil {
				s.log.lost(session.Err(), s.running())
			}
		case <-ctx.Done():
			return
		}
	}
}

// watchSignals tells what the first signal does, so that people know what the second one would.
func (s *shift) watchSignals(ctx, end context.Context) {
	select {
	case <-ctx.Done():
	case <-end.Done():
		return
	}
	if sig := exit.Signal(ctx); sig != nil {
		s.log.line("%v: finishing %s within %v; once more aborts", sig, output.Count(s.running(), "job"), s.o.finish)
	}
	select {
	case <-s.a.Aborted:
		s.log.line("aborted: killing and giving back %s", output.Count(s.running(), "job"))
	case <-end.Done():
	}
}

func (s *shift) settled() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// printOnce prints the job of --once as it is now.
func (s *shift) printOnce(ctx context.Context, format string) error {
	id := s.settled()
	if id == "" {
		return nil // a signal came before a job did
	}
	j, err := jobs.Get(ctx, s.a, s.q, cli.JobRef{Queue: s.q.Name(), ID: id})
	switch {
	case errors.Is(err, workqueue.ErrNotFound) || err == nil && format == output.Name:
		return s.a.PrintLine(cli.JobRef{Queue: s.q.Name(), ID: id}.Name())
	case err != nil:
		return err
	case format == output.JSON:
		return jobs.Print(s.a, format, j)
	}
	return s.a.PrintLine(cli.NameOf(j) + " " + string(j.State))
}
