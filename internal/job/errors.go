package job

import (
	"errors"
	"fmt"
)

// What a record, or a transition of it, may meet. Users know them under these names.
var (
	ErrNotApplicable = errors.New("not applicable to a job in this state")
	ErrUndecodable   = errors.New("undecodable job record")
	ErrNewer         = fmt.Errorf("%w: newer than this program", ErrUndecodable)
	ErrNotFound      = errors.New("no such job")
	ErrExists        = errors.New("the job exists")
	ErrConflict      = errors.New("changed meanwhile")
	ErrBacklogFull   = errors.New("backlog full: etcd's database nears its quota")
)
