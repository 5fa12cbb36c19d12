package lane

import (
	"context"
	"errors"
	"fmt"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/fault"
)

// maxReplay is how many keys are read together when a batch is resolved.
const maxReplay = 100

// resolve finds out what each unit of a batch did that was applied at revision
// rev by a try whose answer was lost, by reading at that revision: a unit
// succeeded exactly if the key that it always puts has that mod revision there.
func (l *lane) resolve(ctx context.Context, s *etcdkv.Store, units []*unit, rev int64) {
	gets := make([]clientv3.Op, len(units))
	for i, u := range units {
		key := u.evidence
		if key == "" {
			key = l.note(i)
		}
		gets[i] = clientv3.OpGet(key,
			clientv3.WithRev(rev), //mutant:evidence-at-revision
			clientv3.WithKeysOnly())
	}
	found, err := readAll(ctx, s, gets)
	if err != nil {
		failAll(units, fault.Unknown(err)) //mutant:evidence-gone
		return
	}
	replays := make([]replayed, len(units))
	for i, u := range units {
		kvs := found[i].Kvs
		replays[i] = replayed{unit: u, succeeded: len(kvs) == 1 && /*mutant:evidence-revision*/ kvs[0].ModRevision == rev}
	}
	replay(ctx, s, rev, replays)
}

// replayed is a unit of a batch that was applied, of which only is known whether it
// succeeded, not what it read.
type replayed struct {
	unit      *unit
	succeeded bool
}

func (p replayed) branch() []clientv3.Op {
	if p.succeeded {
		return p.unit.txn.Then
	}
	return p.unit.txn.Else
}

// gets are what the branch reads, each as of revision rev, and their places in it.
func (p replayed) gets(rev int64) (gets []clientv3.Op, places []int, err error) {
	for i, op := range p.branch() {
		if !op.IsGet() {
			continue
		}
		at, err := replayRev(p.branch(), i, rev)
		if err != nil {
			return nil, nil, err
		}
		gets = append(gets, getAt(op, at)) //mutant:replay-as-it-was
		places = append(places, i)
	}
	return gets, places, nil
}

// replay settles units of a batch that was applied at revision rev: it reads again
// what the branch that happened has read.
func replay(ctx context.Context, s *etcdkv.Store, rev int64, replays []replayed) {
	var all []clientv3.Op
	var places [][]int
	reading := make([]replayed, 0, len(replays))
	for _, p := range replays {
		gets, at, err := p.gets(rev)
		switch {
		case err != nil:
			p.unreadable(err)
		case len(gets) == 0:
			p.unit.settle(Result{Succeeded: p.succeeded, Revision: rev}, nil)
		default:
			all, places, reading = append(all, gets...), append(places, at), append(reading, p)
		}
	}
	found, err := readAll(ctx, s, all)
	if etcdkv.IsCompacted(err) && !slices.ContainsFunc(reading, func(p replayed) bool { return p.succeeded }) { //mutant:refusal-compacted
		// A fence that was lost stays lost, and whoever tries again compares with what
		// it was told: to a refused unit what is there now says as much.
		all = nil
		for _, p := range reading {
			gets, _, _ := p.gets(0) // as before
			all = append(all, gets...)
		}
		found, err = readAll(ctx, s, all)
	}
	for i, p := range reading {
		if err != nil {
			p.unreadable(err)
			continue
		}
		r := Result{Succeeded: p.succeeded, Revision: rev, gets: make([]*pb.RangeResponse, len(p.branch()))}
		for _, at := range places[i] {
			r.gets[at], found = found[0], found[1:]
		}
		p.unit.settle(r, nil)
	}
}

// unreadable settles a unit whose reads can never be made again. What was refused has
// done nothing, whatever it would have read; what succeeded is of no use without.
func (p replayed) unreadable(err error) {
	if p.succeeded { //mutant:refusal-unread
		p.unit.settle(Result{}, fault.Unknown(err))
	} else {
		p.unit.settle(Result{}, fmt.Errorf("%w: read what was in its way: %w", fault.ErrRefused, err))
	}
}

// getAt is a get of a Txn as one at a revision, 0 for now. Only its first key is
// ever looked at; see Result.Get.
func getAt(op clientv3.Op, rev int64) clientv3.Op {
	if op.Rev() > 0 {
		rev = op.Rev()
	}
	opts := []clientv3.OpOption{clientv3.WithRev(rev), clientv3.WithLimit(1)}
	if end := op.RangeBytes(); len(end) > 0 {
		opts = append(opts, clientv3.WithRange(string(end)))
	}
	if op.IsKeysOnly() {
		opts = append(opts, clientv3.WithKeysOnly())
	}
	if op.IsCountOnly() {
		opts = append(opts, clientv3.WithCountOnly())
	}
	return clientv3.OpGet(string(op.KeyBytes()), opts...)
}

// readAll makes gets, again and again until etcd answers: an outcome hangs on them.
// Where the answer is too much at once, it asks for less.
func readAll(ctx context.Context, s *etcdkv.Store, gets []clientv3.Op) ([]*pb.RangeResponse, error) {
	out := make([]*pb.RangeResponse, 0, len(gets))
	for n := maxReplay; len(gets) > 0; {
		n = min(len(gets), n)
		resp, err := readUntilAnswered(ctx, s, gets[:n])
		if n > 1 && tooMuch(err) { //mutant:replay-in-parts
			n /= 2
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, r := range resp.Responses {
			out = append(out, r.GetResponseRange())
		}
		gets = gets[n:]
	}
	return out, nil
}

// readUntilAnswered gives up when no repeat can help: the revision is compacted
// or, after a restore, of another history.
func readUntilAnswered(ctx context.Context, s *etcdkv.Store, gets []clientv3.Op) (*clientv3.TxnResponse, error) {
	for try := 0; ; try++ {
		resp, err := s.Read(ctx, gets...)
		switch {
		case err == nil:
			return resp, nil
		case etcdkv.TooLargeToReceive(err) || len(gets) > 1 && tooMuch(err):
			return nil, err // fewer at a time may fit
		case etcdkv.NotApplied(err) || etcdkv.IsAuthError(err) || errors.Is(err, fault.ErrHistoryRewound) || ctx.Err() != nil:
			return nil, err
		}
		if perr := etcdkv.Pause(ctx, try); perr != nil {
			return nil, errors.Join(perr, err)
		}
	}
}

// tooMuch tells that an answer may have been too large to come, or to come in time.
func tooMuch(err error) bool {
	return etcdkv.TooLargeToReceive(err) || errors.Is(err, context.DeadlineExceeded) || etcdkv.CodeOf(err) == codes.DeadlineExceeded
}
