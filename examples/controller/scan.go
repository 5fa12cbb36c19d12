package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/workqueue"
)

// scanner is the handler: it scans the images of a Deployment.
type scanner struct{ takes time.Duration }

// Handle writes the result in the Txn that ends the job, under the claim's fence: whoever has lost the job meanwhile can
// write nothing, and there is no moment in which the job is done and its result is not there.
func (s scanner) Handle(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
	var o order
	if err := json.Unmarshal(c.Job().Payload, &o); err != nil {
		return nil, workqueue.Permanent(err)
	}
	select {
	case <-time.After(s.takes): // the real work goes here
	case <-ctx.Done():
		return nil, context.Cause(ctx) // the worker stops: it gives the job back, uncounted
	}
	result := fmt.Sprintf("%s by %s, token %s", strings.Join(o.Images, " "), c.Job().Owner, c.Token())
	return nil, c.CompleteWith(ctx, []byte(result), clientv3.OpPut(keyOf(o.UID, o.Generation), result))
}
