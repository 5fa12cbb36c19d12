package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// endpointTimeout is how long one endpoint may take to tell its state.
const endpointTimeout = 2 * time.Second

// endpoint is one address and what it said.
type endpoint struct {
	url    string
	given  bool // in the client's configuration, and not only in the cluster's list of members
	status *clientv3.StatusResponse
	err    error
}

// cluster is the state of etcd itself.
type cluster struct {
	endpoints []endpoint
	// answered tells that a linearizable read was answered: etcd has a leader with a quorum.
	answered bool
}

// healthy lists the states of the endpoints that told theirs.
func (c cluster) healthy() (found []*clientv3.StatusResponse) {
	for _, e := range c.endpoints {
		if e.status != nil {
			found = append(found, e.status)
		}
	}
	return found
}

// askCluster asks all endpoints at once, and those of members that none of them is.
func askCluster(ctx context.Context, client *clientv3.Client) (cluster, error) {
	var c cluster
	for _, url := range client.Endpoints() {
		c.endpoints = append(c.endpoints, endpoint{url: url, given: true})
	}
	askAll(ctx, client, c.endpoints)
	if len(c.healthy()) == 0 {
		return c, fmt.Errorf("%w: %w", ErrUnreachable, c.endpoints[0].err)
	}
	others := c.otherMembers(ctx, client)
	askAll(ctx, client, others)
	c.endpoints = append(c.endpoints, others...)

	ctx, cancel := context.WithTimeout(ctx, 2*endpointTimeout)
	defer cancel()
	_, err := client.Get(ctx, "leasekit-doctor", clientv3.WithKeysOnly()) // need not exist, nor be permitted
	c.answered = err == nil || isDenied(err)
	return c, nil
}

func askAll(ctx context.Context, client *clientv3.Client, endpoints []endpoint) {
	var wait sync.WaitGroup
	for i := range endpoints {
		wait.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
			defer cancel()
			endpoints[i].status, endpoints[i].err = client.Status(ctx, endpoints[i].url)
			if endpoints[i].err != nil {
				endpoints[i].status = nil
			}
		})
	}
	wait.Wait()
}

// otherMembers lists the addresses of members that are none of the endpoints.
func (c cluster) otherMembers(ctx context.Context, client *clientv3.Client) (others []endpoint) {
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	list, err := client.MemberList(ctx, clientv3.WithSerializable())
	if err != nil {
		return nil // what is configured is looked at all the same
	}
	for _, m := range list.Members {
		if len(m.ClientURLs) > 0 && !c.covers(m) {
			others = append(others, endpoint{url: m.ClientURLs[0]})
		}
	}
	return others
}

func (c cluster) covers(m *etcdserverpb.Member) bool {
	return slices.ContainsFunc(c.endpoints, func(e endpoint) bool {
		return e.status != nil && e.status.Header.MemberId == m.ID || slices.Contains(m.ClientURLs, e.url) ||
			slices.ContainsFunc(m.ClientURLs, func(u string) bool { return bare(u) == bare(e.url) })
	})
}

// bare is an address without its scheme.
func bare(url string) string {
	if _, rest, ok := strings.Cut(url, "://"); ok {
		return rest
	}
	return url
}
