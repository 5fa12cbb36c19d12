package connect

import (
	"cmp"
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
	"golang.org/x/net/http2"

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
	if isSecure(endpoint) {
		cfg = cfg.Clone()
		cfg.NextProtos = []string{http2.NextProtoTLS}
		_, _, name := dialAddress(endpoint)
		cfg.ServerName = cmp.Or(cfg.ServerName, name)
	} else {
		cfg = nil
	}
	connected, err := ask(ctx, endpoint, cfg)
	switch {
	case err == nil:
		return examineEtcd(ctx, f, cfg)
	case !connected:
		f.Cause, f.try = dialCause(err)
		return f
	case cfg != nil:
		f.Cause, f.try, f.auth = tlsCause(err)
	}
	if f.Cause == "" && ctx.Err() == nil {
		f.Cause, f.try = schemeCause(ctx, endpoint)
	}
	switch {
	case f.Cause != "":
	case ctx.Err() != nil || isTimeout(err):
		f.Cause, f.waiting = "accepts connections, but does not answer", true
	case hungUp(err):
		f.Cause, f.waiting = "accepts connections and closes them without an answer", true
	default:
		f.Cause, f.try = "answers, but is not etcd's client port", tryHost
	}
	return f
}

// examineEtcd asks the one endpoint, which speaks HTTP/2, about its leader.
func examineEtcd(ctx context.Context, f finding, cfg *tls.Config) finding {
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

// ask connects, in plain text without a cfg, and greets the server. No error means that it speaks HTTP/2, gRPC's carrier.
func ask(ctx context.Context, endpoint string, cfg *tls.Config) (connected bool, err error) {
	network, address, _ := dialAddress(endpoint)
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if cfg == nil {
		return true, greet(conn)
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		return true, err
	}
	return true, greet(secure) // a server refuses a missing client certificate only now
}

// greet opens HTTP/2 and waits until the server does. Where it hangs up, its last words tell more than a failed write.
func greet(conn net.Conn) error {
	framer := http2.NewFramer(conn, conn)
	framer.SetMaxReadFrameSize(1 << 14) // what begins larger is another protocol
	_, _ = io.WriteString(conn, http2.ClientPreface)
	_ = framer.WriteSettings()
	frame, err := framer.ReadFrame()
	if _, ok := frame.(*http2.SettingsFrame); err == nil && !ok {
		err = errors.New("no HTTP/2")
	}
	return err
}

// schemeCause tells a server that speaks TLS where its URL says http, or plain text where it says https. A server may
// just hang up then.
func schemeCause(ctx context.Context, endpoint string) (cause, try string) {
	if isSecure(endpoint) {
		if _, err := ask(ctx, endpoint, nil); err == nil {
			return causePlain, tryPlain
		}
		return "", ""
	}
	// Nothing is sent over this connection: it only shows which protocol the server speaks, so whose certificate it
	// shows does not matter.
	network, address, _ := dialAddress(endpoint)
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(ctx, network, address)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || isAlert(err) {
		return "the server speaks TLS, but the URL says http", "--endpoints https://" + strings.TrimPrefix(endpoint, "http://") + " with --cacert FILE"
	}
	return "", ""
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

// isAlert reports that the server said in TLS what it does not like.
func isAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// hungUp reports that the server closed the connection.
func hungUp(err error) bool {
	var op *net.OpError
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &op)
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
	case isAlert(err), strings.HasPrefix(text, "tls:"):
		return "TLS: " + text, "", false
	}
	return "", "", false
}
