package faults_test

import (
	"context"
	"errors"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/integration/faults"
)

// planned is a stage with clients that can be denied.
func planned(t testing.TB) (s *stage, a, b *clientv3.Client) {
	t.Helper()
	s = newStage(t, shared(t))
	for _, cl := range []**clientv3.Client{&a, &b} {
		plan := &etcdtest.Plan{}
		s.Plans = append(s.Plans, plan)
		*cl = s.Cluster.Client(t, plan.DialOptions()...)
	}
	return s, a, b
}

// put is one Txn that puts a key; several, of so many Txns within.
func put(ctx context.Context, cl *clientv3.Client, key string, within int) error {
	op := clientv3.OpPut(key, "")
	ops := []clientv3.Op{op}
	if within > 0 {
		ops = nil
	}
	for i := range within {
		ops = append(ops, clientv3.OpTxn(nil, []clientv3.Op{clientv3.OpPut(key+string(rune('a'+i)), "")}, nil))
	}
	_, err := cl.Txn(ctx).Then(ops...).Commit()
	return err
}

// injectBehind injects a fault that lies in wait for a write.
func injectBehind(t testing.TB, s *stage, f faults.Fault, write func() error) (faults.Heal, error) {
	t.Helper()
	healed := make(chan faults.Heal, 1)
	go func() {
		defer close(healed)
		if heal, err := f.Inject(bounded(t), s.Env); err == nil {
			healed <- heal
		}
	}()
	for { // until it lies there
		err := write()
		if err != nil {
			return <-healed, err
		}
		if bounded(t).Err() != nil {
			t.Fatalf("%s hits nothing", f.Name())
		}
	}
}

// The first write is applied and its answer lost; what follows is refused, as far as it
// is what would be; and another client hears nothing of it.
func TestDeny(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		fault  faults.Deny
		want   error
		within int
	}{
		{faults.Deny{Denial: faults.Permission}, rpctypes.ErrPermissionDenied, 0},
		{faults.Deny{Denial: faults.Permission, Part: "/leader"}, rpctypes.ErrPermissionDenied, 0},
		{faults.Deny{Denial: faults.Space}, rpctypes.ErrNoSpace, 0},
		{faults.Deny{Denial: faults.Size}, rpctypes.ErrRequestTooLarge, 2},
	} {
		t.Run(tc.fault.Name(), func(t *testing.T) {
			s, a, b := planned(t)
			key := s.Root + "leader"
			heal, err := injectBehind(t, s, tc.fault, func() error { return put(bounded(t), a, key, 0) })
			if status.Code(err) != codes.Unavailable {
				t.Errorf("the first write: %v", err)
			}
			if resp, err := s.Client.Get(bounded(t), key); err != nil || len(resp.Kvs) != 1 {
				t.Errorf("the first write is not there: %v, %v", resp, err)
			}
			if err := put(bounded(t), a, key, tc.within); !errors.Is(rpctypes.Error(err), tc.want) {
				t.Errorf("the second write: got %v, want %v", err, tc.want)
			}
			if err := put(bounded(t), b, key, tc.within); err != nil {
				t.Errorf("another client: %v", err)
			}
			if tc.fault.Part != "" || tc.within > 0 {
				if err := put(bounded(t), a, s.key(), 0); err != nil {
					t.Errorf("a write that it is not about: %v", err)
				}
			}
			wantNotHere(t, tc.fault, s.Env) // the clients are borrowed
			mend(t, heal)
			if err := put(bounded(t), a, key, tc.within); err != nil {
				t.Errorf("a write of a client that is well: %v", err)
			}
		})
	}
}

func TestDenyWithoutWrites(t *testing.T) {
	t.Parallel()
	s, _, _ := planned(t)
	wantNotHere(t, faults.Deny{}, s.Env)
	s.Plans = nil
	wantNotHere(t, faults.Deny{}, s.Env)
	wantNotHere(t, faults.Demote{}, s.Env)
}

func TestDemote(t *testing.T) {
	t.Parallel()
	s := newStage(t, etcdtest.New(t, etcdtest.Config{}))
	s.Role, s.Grants = "worker", []faults.Grant{{Key: s.Root + "a/", End: s.Root + "a0"}}
	others := faults.Grant{Key: s.Root + "b/", End: s.Root + "b0"}
	ctx := bounded(t)
	readWrite := clientv3.PermissionType(clientv3.PermReadWrite)
	for _, step := range []func() error{
		func() error { _, err := s.Client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := s.Client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := s.Client.UserAdd(ctx, "w", "secret"); return err },
		func() error { _, err := s.Client.RoleAdd(ctx, s.Role); return err },
		func() error { _, err := s.Client.UserGrantRole(ctx, "w", s.Role); return err },
		func() error {
			_, err := s.Client.RoleGrantPermission(ctx, s.Role, s.Grants[0].Key, s.Grants[0].End, readWrite)
			return err
		},
		func() error {
			_, err := s.Client.RoleGrantPermission(ctx, s.Role, others.Key, others.End, readWrite)
			return err
		},
		func() error { _, err := s.Client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	s.Client = authClient(t, s.Cluster, "root")
	worker := authClient(t, s.Cluster, "w")
	heal := inject(t, faults.Demote{}, s.Env)
	if err := put(ctx, worker, s.Root+"a/k", 0); !errors.Is(rpctypes.Error(err), rpctypes.ErrPermissionDenied) {
		t.Errorf("what was taken: %v", err)
	}
	if err := put(ctx, worker, s.Root+"b/k", 0); err != nil {
		t.Errorf("what was left: %v", err)
	}
	wantNotHere(t, faults.Demote{}, s.Env)
	mend(t, heal)
	if err := put(ctx, worker, s.Root+"a/k", 0); err != nil {
		t.Errorf("what was given back: %v", err)
	}
}
