package embedetcd

import (
	"fmt"
	"net"
	"strconv"
	"time"

	"go.uber.org/zap"
)

// DefaultCompactAfter is how much history is kept when Config.CompactAfter is
// zero. Up to twice as much exists just before a compaction runs.
const DefaultCompactAfter = time.Minute

// Config says how to run a Cluster. The zero value is one member on free
// loopback ports with a temporary data directory.
type Config struct {
	// Dir holds the data of all members. It is created when missing. "" means
	// a temporary directory that Close removes. One member may be started on a
	// directory that already holds its data; three need an empty directory,
	// because their peer addresses change with every start.
	Dir string
	// Members is 1 or 3; 0 means 1.
	Members int
	// ClientAddr is the host:port that the first member serves clients on.
	// "" means a free loopback port, as does port 0; an empty host means
	// 127.0.0.1. The host must be an IP address or localhost.
	ClientAddr string
	// Fast runs raft with a tick of 50 ms and an election timeout of 500 ms,
	// half of etcd's defaults. With it, leases of 1 s are granted as asked;
	// without it, the shortest lease is 2 s.
	Fast bool
	// CompactAfter is how long history is kept before it is compacted;
	// 0 means DefaultCompactAfter, negative means never.
	CompactAfter time.Duration
	// QuotaBackendBytes limits each member's storage; 0 means etcd's default
	// of 2 GiB.
	QuotaBackendBytes int64
	// AuthTokenTTL is how long a simple auth token lives, in whole seconds;
	// 0 means etcd's default of 5 minutes.
	AuthTokenTTL time.Duration
	// TLS, when not nil, makes all members serve clients over TLS only. Peers
	// talk in plain text on loopback.
	TLS *TLS
	// Logger receives the servers' logs; nil means none. Whatever it is, a
	// fatal log entry panics instead of ending the process silently.
	Logger *zap.Logger
}

// TLS names the files that a member serves clients with.
type TLS struct {
	// CertFile and KeyFile are the server's certificate and key, PEM.
	CertFile, KeyFile string
	// CAFile, PEM, is what client certificates are checked against. Needed
	// only with ClientCertAuth.
	CAFile string
	// ClientCertAuth refuses clients without a certificate signed by CAFile.
	ClientCertAuth bool
}

// withDefaults returns a copy with zero values filled in.
func (c Config) withDefaults() (Config, error) {
	if c.Members == 0 {
		c.Members = 1
	}
	if c.CompactAfter == 0 {
		c.CompactAfter = DefaultCompactAfter
	}
	if err := c.validate(); err != nil {
		return c, err
	}
	// validate has checked the form.
	if host, port, err := net.SplitHostPort(c.ClientAddr); err == nil && host == "" {
		c.ClientAddr = net.JoinHostPort(loopback, port)
	}
	return c, nil
}

func (c Config) validate() error {
	if c.Members != 1 && c.Members != 3 {
		return fmt.Errorf("members is %d: want 1 or 3", c.Members)
	}
	if c.AuthTokenTTL < 0 || c.AuthTokenTTL%time.Second != 0 {
		return fmt.Errorf("auth token TTL %v: want whole seconds", c.AuthTokenTTL)
	}
	if c.TLS != nil && (c.TLS.CertFile == "" || c.TLS.KeyFile == "") {
		return fmt.Errorf("TLS: want CertFile and KeyFile")
	}
	if c.ClientAddr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.ClientAddr)
	if err != nil {
		return fmt.Errorf("client address %q: want host:port: %w", c.ClientAddr, err)
	}
	if host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return fmt.Errorf("client address %q: the host must be an IP address or localhost", c.ClientAddr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("client address %q: port %q is not a number from 0 to 65535", c.ClientAddr, port)
	}
	return nil
}
