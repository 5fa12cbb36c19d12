package doctor

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leasekit/leasekit/internal/keyspace"
)

var s3DuplicateIdentity = &Check{
	Code: "S3", Severity: Warning,
	Means: "sessions of one identity live on several hosts: people cannot tell them apart, and a role that is given to the identity holds for all of them. Several on one host are normal",
	needs: []string{dirSessions},
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		hosts, last := map[string]map[string]bool{}, map[string]*session{}
		for _, s := range e.look.sessionsOf() {
			if s.Host == "" {
				continue
			}
			identity := keyspace.IdentityOf(s.id)
			if hosts[identity] == nil {
				hosts[identity] = map[string]bool{}
			}
			hosts[identity][s.Host] = true
			last[identity] = s
		}
		var found []*Finding
		for _, identity := range slices.Sorted(maps.Keys(hosts)) {
			if len(hosts[identity]) < 2 {
				continue
			}
			var names []string
			for _, host := range slices.Sorted(maps.Keys(hosts[identity])) {
				names = append(names, named(host))
			}
			s := last[identity]
			found = append(found, &Finding{
				Severity: Warning, What: fmt.Sprintf("identity %s used on %d hosts", identity, len(names)), Subject: "identity/" + identity,
				Detail: strings.Join(names, ", "), Advice: "give each host's workers an identity of their own",
				still: map[string]int64{string(s.kv.Key): s.written},
			})
		}
		return "", found, nil
	},
}
