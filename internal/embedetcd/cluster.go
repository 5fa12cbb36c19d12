package embedetcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

const (
	// startAttempts bounds how often Start picks new ports after losing a
	// race for one.
	startAttempts = 10
	// pollEvery is how often WaitLeader looks: raft offers no event for "a
	// majority agrees".
	pollEvery = 10 * time.Millisecond
)

// ErrClosed is returned by calls on a Cluster after Close.
var ErrClosed = errors.New("embedded etcd cluster is closed")

// Cluster is a running etcd cluster of one or three members in this process.
// Its methods may be called concurrently.
type Cluster struct {
	cfg     Config
	lg      *zap.Logger
	dir     string
	tempDir bool
	lock    *fileutil.LockedFile
	choose  func(n int) ([]string, error)

	// Invariant: members never changes after Start returned.
	members []*Member

	mu  sync.Mutex // guards Member.cut, and that cuts are applied in order
	end chan struct{}

	closeOnce sync.Once
	closeErr  error
}

// Start runs a cluster and blocks until every member serves clients and a
// leader exists, or until ctx ends. ctx bounds the start only; the cluster
// runs until Close. When Start fails, nothing is left running and the error
// names the cause: an address that is in use satisfies
// errors.Is(err, syscall.EADDRINUSE).
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	return startOn(ctx, cfg, freeAddrs)
}

// startOn is Start with the choice of addresses open: a lost race for a port
// cannot be staged otherwise.
func startOn(ctx context.Context, cfg Config, choose func(n int) ([]string, error)) (*Cluster, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, fmt.Errorf("start etcd: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start etcd: %w", context.Cause(ctx))
	}
	lg := cfg.Logger
	if lg == nil {
		lg = zap.NewNop()
	}
	// etcd logs at fatal level where it cannot go on. The process is not ours
	// to end, and with a nop logger nobody would learn why.
	lg = lg.WithOptions(zap.WithFatalHook(zapcore.WriteThenPanic))
	c := &Cluster{cfg: cfg, lg: lg, choose: choose, end: make(chan struct{})}
	if err := c.openDir(); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), c.Close())
	}
	if err := c.startMembers(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd: %w", err), c.Close())
	}
	return c, nil
}

// openDir creates and locks the data directory. etcd itself would wait for
// ever, silently, on a directory that another process uses.
func (c *Cluster) openDir() (err error) {
	if c.dir = c.cfg.Dir; c.dir == "" {
		c.tempDir = true
		if c.dir, err = os.MkdirTemp("", "leasekit-etcd-"); err != nil {
			return fmt.Errorf("create a temporary data directory: %w", err)
		}
	} else if err = os.MkdirAll(c.dir, 0o700); err != nil {
		return fmt.Errorf("create data directory %s (Config.Dir, --data-dir): %w", c.dir, err)
	}
	if c.cfg.Members > 1 {
		entries, err := os.ReadDir(c.dir)
		if err != nil {
			return fmt.Errorf("read data directory: %w", err)
		}
		if len(entries) > 0 {
			return fmt.Errorf("data directory %s is not empty: %d members need an empty one", c.dir, c.cfg.Members)
		}
	}
	c.lock, err = fileutil.TryLockFile(filepath.Join(c.dir, "LOCK"), os.O_RDWR|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return fmt.Errorf("data directory %s is used by another server: stop that one or choose another directory (Config.Dir, --data-dir)", c.dir)
	}
	if err != nil {
		return fmt.Errorf("lock data directory %s (Config.Dir, --data-dir): %w", c.dir, err)
	}
	return nil
}

// startMembers launches all members, with new ports after a lost race.
func (c *Cluster) startMembers(ctx context.Context) error {
	var err error
	for range startAttempts {
		if err = c.plan(); err != nil {
			return err
		}
		if err = c.launchAll(); err == nil {
			break
		}
		if failedOn(err, c.cfg.ClientAddr) || !addrInUse(err) {
			return err
		}
		if err := c.forget(); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	for _, m := range c.members {
		if err := m.awaitReady(ctx); err != nil {
			return err
		}
	}
	_, err = c.WaitLeader(ctx)
	return err
}

// plan chooses addresses and makes the members, none of them running.
func (c *Cluster) plan() error {
	addrs, err := c.choose(2 * c.cfg.Members)
	if err != nil {
		return err
	}
	c.members = nil
	for i := range c.cfg.Members {
		m := &Member{c: c, name: fmt.Sprintf("m%d", i+1), clientAddr: addrs[2*i], peerAddr: addrs[2*i+1]}
		if i == 0 && c.cfg.ClientAddr != "" {
			m.clientAddr = atPort(c.cfg.ClientAddr, m.clientAddr)
		}
		c.members = append(c.members, m)
	}
	return nil
}

// launchAll starts members one after the other: a member that starts asks
// its peers for the cluster, and one that listens but does not serve yet
// would keep it waiting.
func (c *Cluster) launchAll() error {
	for _, m := range c.members {
		if err := m.launch(); err != nil {
			c.killAll()
			return err
		}
	}
	return nil
}

// forget removes what a failed attempt wrote: its peer addresses are in it.
// A single member does not care about them, and its data may be the user's.
func (c *Cluster) forget() error {
	if c.cfg.Members == 1 {
		return nil
	}
	for _, m := range c.members {
		if err := os.RemoveAll(m.dir()); err != nil {
			return fmt.Errorf("remove the data of an attempt: %w", err)
		}
	}
	return nil
}

// Endpoints returns one client URL per member, running or not, in the order
// of Members.
func (c *Cluster) Endpoints() []string {
	eps := make([]string, 0, len(c.members))
	for _, m := range c.members {
		eps = append(eps, m.Endpoint())
	}
	return eps
}

// Members returns all members, running or not.
func (c *Cluster) Members() []*Member { return append([]*Member(nil), c.members...) }

// Dir returns the data directory. It no longer exists after Close if it was
// temporary.
func (c *Cluster) Dir() string { return c.dir }

// Leader returns the running member that takes itself for the leader, the one
// of the highest term if a cut left two, or nil if there is none. The answer
// may be stale when it arrives; see WaitLeader.
func (c *Cluster) Leader() *Member {
	var leader *Member
	var term uint64
	for _, m := range c.members {
		s := m.Server()
		if s == nil || s.Leader() != s.MemberID() {
			continue
		}
		if t := s.Term(); leader == nil || t > term {
			leader, term = m, t
		}
	}
	return leader
}

// WaitLeader blocks until more than half of all members run and agree on one
// of them as leader, and returns it. It fails when ctx ends or the cluster is
// closed.
func (c *Cluster) WaitLeader(ctx context.Context) (*Member, error) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if m := c.agreedLeader(); m != nil {
			return m, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for a leader: %w", context.Cause(ctx))
		case <-c.end:
			return nil, fmt.Errorf("wait for a leader: %w", ErrClosed)
		case <-tick.C:
		}
	}
}

func (c *Cluster) agreedLeader() *Member {
	l := c.Leader()
	if l == nil {
		return nil
	}
	ls := l.Server()
	if ls == nil {
		return nil
	}
	votes := 0
	for _, m := range c.members {
		if s := m.Server(); s != nil && s.Leader() == ls.MemberID() && s.Term() == ls.Term() {
			votes++
		}
	}
	if 2*votes <= len(c.members) {
		return nil
	}
	return l
}

// MoveLeader hands leadership over to member to and blocks until it has it
// or ctx ends. It is an error if there is no leader or to does not run.
func (c *Cluster) MoveLeader(ctx context.Context, to *Member) error {
	from, err := c.WaitLeader(ctx)
	if err != nil {
		return fmt.Errorf("move leader to %s: %w", to.name, err)
	}
	fs, ts := from.Server(), to.Server()
	if fs == nil || ts == nil {
		return fmt.Errorf("move leader from %s to %s: %w", from.name, to.name, errNotRunning)
	}
	if from == to {
		return nil
	}
	if err := fs.MoveLeader(ctx, uint64(fs.MemberID()), uint64(ts.MemberID())); err != nil {
		return fmt.Errorf("move leader from %s to %s: %w", from.name, to.name, err)
	}
	return nil
}

// applyCuts brings the transports of all running members in line with the
// cut flags. It must be called with c.mu held.
func (c *Cluster) applyCuts() {
	for _, a := range c.members {
		for _, b := range c.members {
			as, bs := a.Server(), b.Server()
			if a == b || as == nil || bs == nil {
				continue
			}
			// The pair is visited from both ends, so traffic stops both ways.
			if a.cut || b.cut {
				as.CutPeer(bs.MemberID())
			} else {
				as.MendPeer(bs.MemberID())
			}
		}
	}
}

func (c *Cluster) killAll() {
	var wg sync.WaitGroup
	for _, m := range c.members {
		wg.Go(m.Kill)
	}
	wg.Wait()
}

// Close stops all members and releases the data directory, which it removes
// if it was temporary. It aborts starts and waits that are under way, blocks
// until everything has ended, and may be called again: later calls wait for
// the first and return the same error.
func (c *Cluster) Close() error {
	c.closeOnce.Do(func() {
		close(c.end)
		c.killAll()
		if c.lock != nil {
			c.closeErr = c.lock.Close()
		}
		if c.tempDir {
			c.closeErr = errors.Join(c.closeErr, os.RemoveAll(c.dir))
		}
	})
	return c.closeErr
}
