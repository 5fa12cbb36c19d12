package etcdkv

import (
	"fmt"
	"reflect"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasekit/leasekit/internal/fault"
)

// checkClient refuses a client that cannot work: one that lacks a part, or whose reads
// and watches are of different keys: with such a one, a wait for a change never ends.
func checkClient(client *clientv3.Client) error {
	switch {
	case client == nil:
		return &fault.InputError{Field: "client", Value: "nil", Reason: "pass an open etcd client"}
	case client.KV == nil || client.Watcher == nil || client.Lease == nil || client.ActiveConnection() == nil:
		return &fault.InputError{Field: "client", Value: "incomplete", Reason: "make it with clientv3.New"}
	case client.Ctx().Err() != nil:
		return fault.ErrClientClosed
	}
	kv, watcher := namespaceOf(reflect.ValueOf(client.KV)), namespaceOf(reflect.ValueOf(client.Watcher))
	if kv != watcher {
		return &fault.InputError{Field: "client", Value: fmt.Sprintf("KV in %q, Watcher in %q", kv, watcher), Reason: "wrap both in the same namespace, or neither"}
	}
	return nil
}

// namespaceOf is the prefix that etcd's package namespace puts before all keys, or "".
// Its types are not exported, and tell nothing of themselves.
func namespaceOf(part reflect.Value) (prefix string) {
	for part.Kind() == reflect.Interface || part.Kind() == reflect.Pointer {
		part = part.Elem()
	}
	if part.Kind() != reflect.Struct || !strings.HasSuffix(part.Type().PkgPath(), "/client/v3/namespace") {
		return ""
	}
	for i := range part.NumField() {
		switch f := part.Field(i); f.Kind() {
		case reflect.Interface: // what it wraps puts its own prefix before this one
			prefix = namespaceOf(f) + prefix
		case reflect.String:
			prefix += f.String()
		}
	}
	return prefix
}
