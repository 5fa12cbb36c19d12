package connect

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// tlsFiles are TLS files that are read again for each connection: certificates are replaced on disk before they expire,
// and what runs for long must not need a restart for that. Safe for concurrent use.
type tlsFiles struct {
	read func() (*tls.Config, error)

	mu   sync.Mutex
	last *tls.Config // that was read whole
}

// config is what the files say now. Files that cannot be read, as in the moment between the two of a pair, are as they
// were.
func (f *tlsFiles) config() *tls.Config {
	f.mu.Lock()
	defer f.mu.Unlock()
	if cfg, err := f.read(); err == nil && cfg != nil {
		f.last = cfg
	}
	return f.last
}

// handshakes are credentials whose every handshake is made with the files as they are then.
type handshakes struct {
	credentials.TransportCredentials
	files *tlsFiles
}

func newHandshakes(files *tlsFiles) credentials.TransportCredentials {
	return handshakes{credentials.NewTLS(files.config()), files}
}

// ClientHandshake is that of the credentials of this moment.
func (h handshakes) ClientHandshake(ctx context.Context, authority string, conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return credentials.NewTLS(h.files.config()).ClientHandshake(ctx, authority, conn)
}

// Clone shares the files.
func (h handshakes) Clone() credentials.TransportCredentials {
	return handshakes{h.TransportCredentials.Clone(), h.files}
}

// dialOptions let a client that lives for long read TLS files again.
func (t *Target) dialOptions() []grpc.DialOption {
	if t.files == nil {
		return t.dialing
	}
	return append(slices.Clone(t.dialing), grpc.WithTransportCredentials(newHandshakes(t.files)))
}

// tlsNow is the TLS configuration of a new connection; nil for plain text.
func (t *Target) tlsNow() *tls.Config {
	if t.files == nil {
		return t.TLS
	}
	return t.files.config()
}
