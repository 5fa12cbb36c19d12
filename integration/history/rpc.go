package history

import "google.golang.org/grpc"

// RPCs watches what a client sends, for what must never be sent: calls without a
// deadline, Txns with compares and no reads or writes, and sorted or filtered reads of
// ranges. The zero value is ready. Safe for concurrent use, by several clients.
type RPCs struct{}

// DialOptions returns the interceptors to give to a client.
func (r *RPCs) DialOptions() []grpc.DialOption { panic("not yet") }

// Err tells what was sent that must not be; nil when nothing was.
func (r *RPCs) Err() error { panic("not yet") }
