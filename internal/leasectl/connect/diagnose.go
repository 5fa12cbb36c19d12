package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// finding is what is wrong with one endpoint.
type finding struct {
	endpoint string
	Cause    string // empty: nothing was found
	try      string
	auth     bool // a matter of credentials, not of reachability
	waiting  bool // it may still answer
}

// findings are those of all endpoints, in their order.
type findings []finding

// diagnose examines all endpoints at once. It blocks until all are examined or ctx ends.
func diagnose(ctx context.Context, t *Target) findings {
	found := make(findings, len(t.Endpoints))
	var wait sync.WaitGroup
	for i, endpoint := range t.Endpoints {
		wait.Go(func() { found[i] = Examine(ctx, endpoint, t.tlsNow()) })
	}
	wait.Wait()
	return found
}

// hopeless reports that waiting can help at no endpoint.
func (f findings) hopeless() bool {
	for _, one := range f {
		if one.waiting || one.Cause == "" {
			return false
		}
	}
	return true
}

// failure makes the error of a connection that did not come about in d.
func (f findings) failure(d time.Duration) error {
	causes := make([]string, len(f))
	code, try := exit.Auth, ""
	for i, one := range f {
		if one.Cause == "" {
			one.Cause = fmt.Sprintf("accepts connections, but has not answered within %v", d)
		}
		if !one.auth {
			code = exit.Unreachable
		}
		if try == "" {
			try = one.try
		}
		causes[i] = one.endpoint + ": " + one.Cause
	}
	if try == "" {
		try = exit.TryWait
	}
	return &exit.Error{Code: code, Err: errors.New(strings.Join(causes, ", ")), Try: try}
}

const (
	tryStart   = "leasectl dev to start an etcd here, or --endpoints URL of a running one"
	tryHost    = "check the host in --endpoints"
	tryNetwork = "check the host and port in --endpoints and the firewalls between"
	tryCert    = "--cert FILE --key FILE"
	tryPlain   = "--endpoints http://..."
	causePlain = "the URL says https, but the server speaks plain text"
)

// Examine finds out what an endpoint does: does it listen, does it speak TLS as its URL says, is it an etcd with a
// leader.
func Examine(ctx context.Context, endpoint string, cfg *tls.Config) finding {
	f := finding{endpoint: endpoint}
	conn, err := open(ctx, endpoint)
	if err != nil {
		f.Cause, f.try = dialCause(err)
		return f
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if isSecure(endpoint) {
		return examineTLS(ctx, conn, f, cfg)
	}
	reply, err := greet(conn)
	switch {
	case speaksTLS(ctx, endpoint, reply, err):
		f.Cause = "the server speaks TLS, but the URL says http"
		f.try = "--endpoints https://" + strings.TrimPrefix(endpoint, "http://") + " with --cacert FILE"
		return f
	case err != nil:
		f.Cause, f.waiting = silence(ctx, err)
		return f
	}
	return examineEtcd(ctx, reply, f, nil)
}

func examineTLS(ctx context.Context, conn net.Conn, f finding, cfg *tls.Config) finding {
	_, _, serverName := dialAddress(f.endpoint)
	cfg = cfg.Clone()
	cfg.NextProtos = []string{"h2"}
	if cfg.ServerName == "" {
		cfg.ServerName = serverName
	}
	secure := tls.Client(conn, cfg)
	err := secure.HandshakeContext(ctx)
	var reply []byte
	if err == nil {
		reply, err = greet(secure) // a server refuses a missing client certificate only now
	}
	if err == nil {
		return examineEtcd(ctx, reply, f, cfg)
	}
	if f.Cause, f.try, f.auth = tlsCause(err); f.Cause != "" {
		return f
	}
	if speaksPlain(ctx, f.endpoint) {
		f.Cause, f.try = causePlain, tryPlain
		return f
	}
	f.Cause, f.waiting = silence(ctx, err)
	return f
}

// examineEtcd looks at the answer to greet, and asks the one endpoint about its leader.
func examineEtcd(ctx context.Context, reply []byte, f finding, cfg *tls.Config) finding {
	if strings.HasPrefix(string(reply), "HTTP/") {
		f.Cause, f.try = "answers, but is not etcd's client port", tryHost
		return f
	}
	f.waiting = true
	client, err := clientv3.New(clientv3.Config{Context: ctx, Endpoints: []string{f.endpoint}, TLS: cfg, Logger: zap.NewNop()})
	if err != nil {
		return f
	}
	defer client.Close()
	if leaderless(ctx, client, f.endpoint) {
		f.Cause = "is up, but its cluster has no leader: most of its members are down or cut off"
		f.try = "etcdctl endpoint status --cluster"
	}
	return f
}

// leaderless asks a server, which answers this from its own memory, until it says that it knows no leader or ctx ends:
// a server that has just lost its leader takes an election timeout to notice.
func leaderless(ctx context.Context, client *clientv3.Client, endpoint string) bool {
	tick := time.NewTicker(diagnoseAfter)
	defer tick.Stop()
	for {
		status, err := client.Status(ctx, endpoint)
		if err != nil {
			return false
		}
		if status.Leader == 0 {
			return true
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return false
		}
	}
}

func open(ctx context.Context, endpoint string) (net.Conn, error) {
	network, address, _ := dialAddress(endpoint)
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

// greeting opens an HTTP/2 connection, gRPC's carrier, with empty settings.
const greeting = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00"

// greet returns the first bytes that the server answers with.
func greet(conn net.Conn) ([]byte, error) {
	if _, err := io.WriteString(conn, greeting); err != nil {
		return nil, err
	}
	reply := make([]byte, 9)
	n, err := io.ReadFull(conn, reply)
	if n > 0 {
		err = nil
	}
	return reply[:n], err
}

// speaksTLS tells a server that expects TLS where it was greeted in plain text: by its alert, or, when it just hung up,
// by its answer to a handshake.
func speaksTLS(ctx context.Context, endpoint string, reply []byte, err error) bool {
	if err == nil {
		return len(reply) > 1 && reply[0] == 0x15 && reply[1] == 0x03 // a TLS alert record
	}
	if ctx.Err() != nil {
		return false
	}
	conn, err := open(ctx, endpoint)
	if err != nil {
		return false
	}
	defer conn.Close()
	// Nothing is sent over this connection: it only shows which protocol the server speaks, so whose certificate it
	// shows does not matter.
	err = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}).HandshakeContext(ctx)
	var alert tls.AlertError
	return err == nil || errors.As(err, &alert)
}

// speaksPlain tells a server that hung up on a TLS handshake but answers in plain text, as etcd does.
func speaksPlain(ctx context.Context, endpoint string) bool {
	conn, err := open(ctx, endpoint)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	reply, err := greet(conn)
	const settingsFrame = 4
	return err == nil && len(reply) > 3 && reply[3] == settingsFrame
}

// dialCause explains why no connection came about.
func dialCause(err error) (cause, try string) {
	var dns *net.DNSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused: nothing listens there", tryStart
	case errors.Is(err, syscall.ENOENT):
		return "there is no such socket", tryStart
	case errors.As(err, &dns):
		return "the host name " + dns.Name + " does not resolve", tryHost
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT), isTimeout(err):
		return "no answer to the connection attempt: the host is down or a firewall drops it", tryNetwork
	default:
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return "cannot connect: " + err.Error(), tryNetwork
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// tlsCause explains a TLS error; an empty cause means that it is none.
func tlsCause(err error) (cause, try string, auth bool) {
	var (
		record    tls.RecordHeaderError
		authority x509.UnknownAuthorityError
		invalid   x509.CertificateInvalidError
		host      x509.HostnameError
	)
	switch {
	case errors.As(err, &record):
		return causePlain, tryPlain, false
	case errors.As(err, &authority):
		return "the server's certificate is signed by an unknown authority", "--cacert FILE with that authority", false
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "the server's certificate is not valid now: " + invalid.Detail, "renew it, or set the clocks", false
	case errors.As(err, &host):
		return "the server's certificate is for another name: " + host.Error(), tryHost, false
	case errors.As(err, &invalid):
		return "the server's certificate is not valid: " + invalid.Error(), "", false
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "certificate required"), strings.Contains(text, "handshake failure"):
		return "the server demands a client certificate", tryCert, true
	case strings.Contains(text, "no application protocol"):
		return "speaks TLS, but is not etcd's client port", tryHost, false
	case strings.Contains(text, "bad certificate"), strings.Contains(text, "unknown certificate authority"),
		strings.Contains(text, "expired certificate"):
		return "the server refuses the client certificate: " + text, tryCert, true
	case strings.Contains(text, "remote error: tls:"), strings.HasPrefix(text, "tls:"):
		return "TLS: " + text, "", false
	}
	return "", "", false
}

// silence explains a server that took the connection and gave no answer.
func silence(ctx context.Context, err error) (cause string, waiting bool) {
	if ctx.Err() != nil || isTimeout(err) {
		return "accepts connections, but does not answer", true
	}
	return "accepts connections and closes them without an answer", true
}
