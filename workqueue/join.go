package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/internal/etcdkv"
	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/lane"
)

// errJoined marks the refusal of a completion for a claim of the caller other than the
// job's, which is still current: it can be closed in another way.
var errJoined = errors.New("a claim that joins the completion is over, the job's is not")

// inTheWay is the fence or the job because of which a Txn with j was refused, where its
// own fence is current; nil means that it is none.
func inTheWay(ctx context.Context, q *Queue, j job.JoinedOps, own etcdkv.Fence, r lane.Result) error {
	if err := r.Refusal(append([]etcdkv.Fence{own}, j.Fences...)...); errors.Is(err, coord.ErrFenced) {
		return fmt.Errorf("%w: %w", errJoined, err)
	}
	i := 1 + len(j.Fences)
	for _, p := range j.Jobs {
		for _, where := range job.JoinedPlaces {
			kv := r.Get(i)
			i++
			if kv == nil {
				continue
			}
			rec, err := job.Decode(kv.Value)
			if err != nil {
				return fmt.Errorf("%w: job %s in queue %s, but it cannot be read: %w", ErrExists, p.ID, p.Queue, err)
			}
			return &ExistsError{Job: view(rec, p.Queue, where, kv.ModRevision, time.Now(), q.core.PresumedAlive(ctx))}
		}
	}
	return nil
}

// fenceOf is a fence as the inner packages know it.
func fenceOf(f coord.Fence) etcdkv.Fence {
	return etcdkv.Fence{Key: f.Key, Token: int64(f.Token), Nonce: f.Nonce}
}

func fencesOf(fences []coord.Fence) []etcdkv.Fence {
	inner := make([]etcdkv.Fence, len(fences))
	for i, f := range fences {
		inner[i] = fenceOf(f)
	}
	return inner
}
