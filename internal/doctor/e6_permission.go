package doctor

import (
	"context"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/escape"
)

var e6Permission = &Check{
	Code: "E6", Severity: Error,
	Means: "the user's roles do not suffice for these checks, or for --fix: they need read, or readwrite, on the whole root",
	run: func(_ context.Context, e *Exam) (string, []*Finding, error) {
		root := e.store.Keys().Root()
		whole := span(root, clientv3.GetPrefixRangeEnd(root))
		var lacks []string
		if _, ok := e.allowed.Readable(whole); !ok || e.look != nil && len(e.look.denied) > 0 {
			lacks = append(lacks, "read")
		}
		if e.opts.Writes && !e.allowed.Writable(whole) {
			lacks = append(lacks, "write")
		}
		if len(lacks) == 0 {
			return "", nil, nil
		}
		who := "the user"
		if e.opts.User != "" {
			who = "user " + e.opts.User
		}
		f := &Finding{
			Severity: Error, What: "permission to " + strings.Join(lacks, " and ") + " is missing", Subject: root,
			Detail: fmt.Sprintf("%s may not %s all of %s", who, strings.Join(lacks, " or "), root),
			Advice: "etcdctl role grant-permission ROLE --prefix=true readwrite " + escape.Shell(root),
		}
		if !e.opts.Writes {
			f.Advice = "etcdctl role grant-permission ROLE --prefix=true read " + escape.Shell(root)
		}
		if e.look != nil && len(e.look.denied) > 0 {
			f.Detail += "; not read: " + some(e.look.denied, 3)
		}
		return "", []*Finding{f}, nil
	},
}

// some joins the first n of a list, and counts the others.
func some(list []string, n int) string {
	if len(list) <= n {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s, and %d more", strings.Join(list[:n], ", "), len(list)-n)
}
