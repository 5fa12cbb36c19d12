package faults

import (
	"context"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// NoSpace raises the alarm that etcd raises when its quota is used up: it refuses
// every put until an operator disarms it, which is what healing does.
type NoSpace struct{}

// Name is "nospace".
func (NoSpace) Name() string { return "nospace" }

// Inject raises the alarm for a random member.
func (f NoSpace) Inject(ctx context.Context, env *Env) (Heal, error) {
	returned, err := borrowAll(env, []string{f.Name()})
	if err != nil {
		return nil, err
	}
	members, err := env.Client.MemberList(ctx)
	if err != nil {
		returned()
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	id := members.Members[env.Rand.IntN(len(members.Members))].ID
	_, err = pb.NewMaintenanceClient(env.Client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: id, Alarm: pb.AlarmType_NOSPACE,
	})
	disarm := func(ctx context.Context) error {
		_, err := env.Client.AlarmDisarm(ctx, (*clientv3.AlarmMember)(&pb.AlarmMember{MemberID: id, Alarm: pb.AlarmType_NOSPACE}))
		return err
	}
	heal := healing(f.Name(), returned, disarm)
	if err != nil {
		// Its answer may be what was lost: the alarm must not stay.
		return nil, fmt.Errorf("%s: %w", f.Name(), joinHeal(ctx, err, heal))
	}
	return heal, nil
}
