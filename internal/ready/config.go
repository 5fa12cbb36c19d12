package ready

import (
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/job"
	"github.com/leasekit/leasekit/internal/mirror"
)

// Mode is the queue's, as the config mirror shows it.
func (x *Index) Mode() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.config.Mode == job.ModeDispatch {
		return job.ModeDispatch
	}
	return job.ModeClaim
}

// Turn changes when something may have been assigned since it was asked for: by a mode
// dispatch too that is over already.
func (x *Index) Turn() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.turns
}

// wants is what the queue's config says.
type wants struct {
	config    job.QueueConfig
	configRev int64
	turns     int          // grows when the mode is dispatch, or may have been unseen
	set       job.Settings // what the config says of them
}

// FeedConfig takes what a mirror of the queue's config shows.
func (x *Index) FeedConfig() mirror.Sink { return configSink{x} }

type configSink struct{ *Index }

// Reset takes the config, or its absence.
func (s configSink) Reset(kvs []*mvccpb.KeyValue, _ int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	was := x.configRev
	x.config, x.configRev, x.set = job.QueueConfig{}, 0, job.Settings{}
	for _, kv := range kvs {
		x.setConfig(kv)
	}
	if x.configRev != was {
		x.turns++ // a list shows nothing of what was between
	}
	x.wake()
}

// Apply follows the config.
func (s configSink) Apply(events []*clientv3.Event, _ int64) {
	x := s.Index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, ev := range events {
		if ev.Type == clientv3.EventTypePut {
			x.setConfig(ev.Kv)
		} else {
			x.config, x.configRev, x.set = job.QueueConfig{}, 0, job.Settings{}
		}
	}
	x.wake()
}

func (x *Index) setConfig(kv *mvccpb.KeyValue) {
	c, err := job.DecodeConfig(kv.Value)
	if err != nil {
		// Nobody knows what it wants, so nothing is claimed until it is mended.
		c = job.QueueConfig{Paused: true, Reason: "the queue's config cannot be read: " + err.Error()}
	}
	x.config, x.configRev = c, kv.ModRevision
	if c.Mode == job.ModeDispatch {
		x.turns++ //mutant:turn-counted
	}
	x.set, _ = c.Settings() // what is out of bounds says nothing; doctor names it
}

// Settings are those of the queue that its config says.
func (x *Index) Settings() job.Settings {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.set
}
