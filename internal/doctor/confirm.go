package doctor

import (
	"context"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// confirm looks a second time, when the window is over, and drops findings of which a key has moved: whoever was to act
// has acted. Without findings nobody waits.
func (e *Exam) confirm(ctx context.Context, r *Report) error {
	var suspects []*Finding
	for _, f := range r.Findings {
		if len(f.still) > 0 {
			suspects = append(suspects, f)
		}
	}
	if len(suspects) == 0 {
		return nil
	}
	if wait := time.Until(e.look.at.Add(e.opts.Window)); wait > 0 {
		if err := pause(ctx, wait); err != nil {
			return err
		}
	}
	moved := map[*Finding]bool{}
	for some := range slices.Chunk(suspects, confirmAtOnce) {
		if err := e.second(ctx, some, moved); err != nil {
			return err
		}
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f *Finding) bool { return moved[f] })
	return nil
}

// confirmAtOnce is how many findings are looked at in one request, which has room for 128 keys.
const confirmAtOnce = 100

func (e *Exam) second(ctx context.Context, some []*Finding, moved map[*Finding]bool) error {
	type question struct {
		f   *Finding
		rev int64
	}
	var gets []clientv3.Op
	var asked []question
	for _, f := range some {
		for key, rev := range f.still {
			gets = append(gets, clientv3.OpGet(key, clientv3.WithKeysOnly()))
			asked = append(asked, question{f, rev})
		}
	}
	resp, err := e.store.Read(ctx, gets...)
	if err != nil {
		return err
	}
	for i, q := range asked {
		now := int64(0)
		if kvs := resp.Responses[i].GetResponseRange().Kvs; len(kvs) > 0 {
			now = kvs[0].ModRevision
		}
		if now != q.rev {
			moved[q.f] = true
		}
	}
	return nil
}
