package main

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/leasekit/leasekit/election"
)

// scans is where the results lie. Each generation has a key of its own, so an old one overwrites no newer one.
const scans = "/scans/"

func keyOf(uid string, generation int64) string {
	return fmt.Sprintf("%s%s/%d", scans, uid, generation)
}

// results reads what was written under the fences of jobs.
type results struct{ client *clientv3.Client }

func (r results) has(ctx context.Context, o order) (bool, error) {
	resp, err := r.client.Get(ctx, keyOf(o.UID, o.Generation), clientv3.WithCountOnly())
	if err != nil {
		return false, err
	}
	return resp.Count > 0, nil
}

// sweeper deletes results that no Deployment has any more. One replica at a time is enough for that.
type sweeper struct {
	cluster client.Reader
	results results
	log     *zap.Logger
}

const sweepEvery = time.Minute

// lead is one term. What goes wrong is tried again with the next tick.
func (s sweeper) lead(ctx context.Context, term *election.Term) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		if err := s.sweep(ctx, term); err != nil && ctx.Err() == nil {
			s.log.Warn("sweep", zap.Error(err))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sweep deletes under the term's fence: a leader that was replaced deletes nothing.
func (s sweeper) sweep(ctx context.Context, term *election.Term) error {
	// The results first, and then what the API server has and no cache: so the Deployment of each is seen, if it is there.
	resp, err := s.results.client.Get(ctx, scans, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return err
	}
	var all appsv1.DeploymentList
	if err := s.cluster.List(ctx, &all); err != nil {
		return err
	}
	wanted := map[string]bool{}
	for _, d := range all.Items {
		wanted[keyOf(string(d.UID), d.Generation)] = true
	}
	for _, kv := range resp.Kvs {
		if key := string(kv.Key); !wanted[key] {
			if _, err := term.Commit(ctx, clientv3.OpDelete(key)); err != nil {
				return err
			}
		}
	}
	return nil
}
