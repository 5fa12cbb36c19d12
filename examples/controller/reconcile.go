package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/leasekit/leasekit/workqueue"
)

// order is the payload of a job: what is to be scanned.
type order struct {
	UID        string   `json:"uid"`
	Generation int64    `json:"generation"`
	Images     []string `json:"images"`
}

// reconciler sees to it that each generation of each Deployment is scanned.
type reconciler struct {
	cluster client.Reader
	queue   *workqueue.Queue
	results results
}

func (r *reconciler) setUp(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).For(&appsv1.Deployment{}).Complete(r)
}

// Reconcile looks at what is and not at what happened: where the result for this generation is missing, there has to be
// a job. It may be called any number of times, on every replica at once: the ID names the work, so there is one job.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	var d appsv1.Deployment
	if err := r.cluster.Get(ctx, req.NamespacedName, &d); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // the sweeper takes the results of what is gone
	}
	o := order{UID: string(d.UID), Generation: d.Generation}
	for _, c := range d.Spec.Template.Spec.Containers {
		o.Images = append(o.Images, c.Image)
	}
	if done, err := r.results.has(ctx, o); done || err != nil {
		return reconcile.Result{}, err
	}
	payload, err := json.Marshal(o)
	if err != nil {
		return reconcile.Result{}, err
	}
	// A dead letter counts as there too: somebody has to look at it.
	_, err = r.queue.Enqueue(ctx, workqueue.Params{ID: fmt.Sprintf("%s.%d", o.UID, o.Generation), Payload: payload, Dedup: workqueue.UntilRetained})
	if errors.Is(err, workqueue.ErrExists) {
		err = nil
	}
	return reconcile.Result{}, err
}
