package simulate

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/workqueue"
)

// dispatcher is a process that stands for dispatcher.
type dispatcher struct {
	n *node
	q *workqueue.Queue
	d *workqueue.Dispatcher
}

// hireDispatchers starts the scenario's dispatchers one after the other, so that the
// first leads. They stop when ctx ends, and parties joins them.
func (t *trial) hireDispatchers(ctx context.Context, parties *sync.WaitGroup) error {
	if t.mode != Dispatch {
		return nil
	}
	for k := range 1 + t.scenario.standbys {
		d, err := t.hireDispatcher(ctx, k)
		if err != nil {
			return err
		}
		t.dispatchers = append(t.dispatchers, d)
		parties.Go(func() { d.live(ctx, t.sim) })
		if err := t.story.until(ctx, func() bool { return len(t.story.leaders) > 0 }); err != nil {
			return fmt.Errorf("wait for a dispatcher: %w", err)
		}
	}
	return nil
}

func (t *trial) hireDispatcher(ctx context.Context, k int) (*dispatcher, error) {
	name := fmt.Sprintf("dispatcher-%d", k+1)
	n, err := t.newNode(ctx, name, grpc.WithChainUnaryInterceptor(t.timeAssignments(k)))
	if err != nil {
		return nil, err
	}
	q, err := t.openQueue(ctx, n.client, name)
	if err != nil {
		n.close()
		return nil, err
	}
	d, err := workqueue.NewDispatcher(q, workqueue.DispatcherConfig{TTL: t.s.scaled(t.s.Lease), Identity: name})
	if err != nil {
		_ = q.Close()
		n.close()
		return nil, err
	}
	return &dispatcher{n: n, q: q, d: d}, nil
}

// live dispatches until the trial ends or the node dies, and leaves nothing behind; after
// a death, a while later.
func (d *dispatcher) live(trial context.Context, sim *simulation) {
	ctx, stop := context.WithCancel(trial)
	defer stop()
	dispatched := make(chan error, 1)
	go func() { dispatched <- d.d.Run(ctx) }()
	select {
	case <-dispatched: // only when the trial ended: its configuration is valid
		_ = d.q.Close()
		d.n.close()
	case <-d.n.dead:
		stop()
		sim.behind(func() {
			var remains sync.WaitGroup
			remains.Go(func() { <-dispatched })
			_ = d.q.Close()
			remains.Wait()
			<-trial.Done() // until then the proxy keeps what the dead one sent
			d.n.close()
		})
	}
}

// timeAssignments measures how long dispatcher k's Txns take that assign jobs, and
// springs the trap where one is set.
func (t *trial) timeAssignments(k int) grpc.UnaryClientInterceptor {
	inboxes := []byte(t.keys.Queue(queueName).Prefix() + "assigned/")
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		txn, ok := req.(*pb.TxnRequest)
		if !ok || assignments(txn, inboxes) == 0 {
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		jobs := assignments(txn, inboxes)
		began := time.Now()
		t.story.do(func() {
			t.assigning += jobs
			if t.trap {
				t.trap, t.caught = false, t.dispatchers[k]
				t.caught.n.proxy.PauseRequests()
			}
		})
		err := invoke(ctx, method, req, reply, cc, opts...)
		t.story.do(func() {
			t.assigning -= jobs
			if err == nil {
				t.story.claimTime += time.Duration(jobs) * time.Since(began)
			}
		})
		return err
	}
}

// assignments counts the inbox entries that a Txn may put.
func assignments(txn *pb.TxnRequest, inboxes []byte) (n int) {
	for _, op := range txn.GetSuccess() {
		if put := op.GetRequestPut(); put != nil && bytes.HasPrefix(put.GetKey(), inboxes) {
			n++
		}
		if nested := op.GetRequestTxn(); nested != nil {
			n += assignments(nested, inboxes)
		}
	}
	return n
}
