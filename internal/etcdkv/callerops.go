package etcdkv

import (
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/fault"
	"github.com/leasekit/leasekit/internal/keyspace"
)

// maxOps is how many operations a caller may add to one commit or completion.
const maxOps = 60

// CheckOps refuses what a caller must not put into a commit: too many ops, or
// writes under our own root, which only transitions may make. The error wraps
// [fault.ErrInvalid].
func CheckOps(k keyspace.Keyspace, ops []clientv3.Op) error {
	if len(ops) > maxOps {
		return &fault.InputError{Field: "ops", Value: fmt.Sprint(len(ops)), Reason: fmt.Sprintf("at most %d operations can join a commit", maxOps)}
	}
	for _, op := range ops {
		if op.IsTxn() {
			_, then, els := op.Txn()
			if err := errors.Join(CheckOps(k, then), CheckOps(k, els)); err != nil {
				return err
			}
			continue
		}
		key := string(op.KeyBytes())
		if key == "" {
			return &fault.InputError{Field: "ops", Value: key, Reason: "etcd keys are not empty"}
		}
		if !op.IsGet() && reaches(key, string(op.RangeBytes()), k.Root()) { //mutant:commit-outside-root
			return &fault.InputError{Field: "ops", Value: key, Reason: "writes under " + k.Root() + " are made by Leasekit alone; use the methods of jobs, locks and elections"}
		}
	}
	return nil
}

// reaches tells whether a key, or the range from it to end, has something under
// root. End "\x00" means that there is no end.
func reaches(key, end, root string) bool {
	if end == "" || strings.HasPrefix(key, root) {
		return strings.HasPrefix(key, root)
	}
	return key < root && (end == "\x00" || end > root)
}
