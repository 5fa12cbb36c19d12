package integration_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasekit/leasekit/coord"
	"github.com/leasekit/leasekit/election"
	"github.com/leasekit/leasekit/integration/etcdtest"
	"github.com/leasekit/leasekit/internal/faultproxy"
	"github.com/leasekit/leasekit/workqueue"
)

// loopbackPair writes a certificate for loopback that is its own authority.
func loopbackPair(t *testing.T) (certFile, keyFile string, conf *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	mustDo(t, err)
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	mustDo(t, err)
	keyDER, err := x509.MarshalECPrivateKey(key)
	mustDo(t, err)
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	mustDo(t, os.WriteFile(certFile, certPEM, 0o600))
	mustDo(t, os.WriteFile(keyFile, keyPEM, 0o600))
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	mustDo(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

// dialWith makes a client; it is closed in t's cleanup.
func dialWith(t *testing.T, cfg clientv3.Config) *clientv3.Client {
	t.Helper()
	cfg.Logger = zap.NewNop()
	cl, err := clientv3.New(cfg)
	mustDo(t, err)
	t.Cleanup(func() { _ = cl.Close() })
	return cl
}

// Everything works over TLS with client certificates, and nothing without one.
func TestSecurityTLS(t *testing.T) {
	t.Parallel()
	cert, key, conf := loopbackPair(t)
	c := etcdtest.New(t, etcdtest.Config{TLS: &etcdtest.TLS{CertFile: cert, KeyFile: key, CAFile: cert, ClientCertAuth: true}})
	root := etcdtest.Root(t)
	cl := dialWith(t, clientv3.Config{Endpoints: c.Endpoints(), TLS: conf})
	useQueue(t, cl, root, "claim")
	useQueue(t, cl, root, "dispatch")
	useLocks(t, cl, root)
	for name, conf := range map[string]*tls.Config{
		"no client certificate": {RootCAs: conf.RootCAs},
		"no known authority":    {Certificates: conf.Certificates},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		stranger := dialWith(t, clientv3.Config{Endpoints: c.Endpoints(), TLS: conf})
		if s, err := coord.OpenSession(ctx, stranger, coord.SessionConfig{Root: root}); err == nil {
			t.Errorf("%s: got session %s", name, s.ID())
		}
		if _, err := workqueue.Open(ctx, stranger, workqueue.Config{Queue: "q", Root: root}); err == nil {
			t.Errorf("%s: opened a queue", name)
		}
	}
}

// secured is an etcd with two users, each with what a worker of one queue needs and
// no more.
type secured struct {
	admin *clientv3.Client
	root  string
	eps   []string
}

func secure(t *testing.T) *secured {
	t.Helper()
	c := etcdtest.New(t, etcdtest.Config{})
	s := &secured{root: etcdtest.Root(t), eps: c.Endpoints()}
	setup := c.Client(t)
	ctx := bounded(t)
	_, err := setup.UserAdd(ctx, "root", "root-pw")
	mustDo(t, err)
	_, err = setup.RoleAdd(ctx, "root")
	mustDo(t, err)
	_, err = setup.UserGrantRole(ctx, "root", "root")
	mustDo(t, err)
	for name, queue := range map[string]string{"ana": "a", "ben": "b"} {
		s.grant(t, setup, name, queue)
	}
	_, err = setup.AuthEnable(ctx)
	mustDo(t, err)
	s.admin = dialWith(t, clientv3.Config{Endpoints: s.eps, Username: "root", Password: "root-pw"})
	return s
}

// grant makes a user whose identity is its name, for one queue: its lock and its
// election are named like the queue.
func (s *secured) grant(t *testing.T, cl *clientv3.Client, name, queue string) {
	t.Helper()
	ctx := bounded(t)
	_, err := cl.UserAdd(ctx, name, name+"-pw")
	mustDo(t, err)
	_, err = cl.RoleAdd(ctx, name)
	mustDo(t, err)
	_, err = cl.UserGrantRole(ctx, name, name)
	mustDo(t, err)
	rw, ro := clientv3.PermissionType(clientv3.PermReadWrite), clientv3.PermissionType(clientv3.PermRead)
	one := func(key string, p clientv3.PermissionType) {
		_, err := cl.RoleGrantPermission(ctx, name, key, "", p)
		mustDo(t, err)
	}
	all := func(prefix string, p clientv3.PermissionType) {
		_, err := cl.RoleGrantPermission(ctx, name, prefix, clientv3.GetPrefixRangeEnd(prefix), p)
		mustDo(t, err)
	}
	one(s.root+"meta", ro) // whoever writes it can lock everybody out
	all(s.root+"sessions/", ro)
	all(s.root+"sessions/"+name+".", rw)
	all(s.root+"lanes/"+name+".", rw)
	one(s.root+"queues/"+queue+"/config", rw)
	for _, dir := range []string{"jobs", "payloads", "progress", "done", "dead", "assigned", "refused"} {
		all(s.root+"queues/"+queue+"/"+dir+"/", rw)
	}
	all(s.root+"queues/"+queue+"/workers/", ro)
	all(s.root+"queues/"+queue+"/workers/"+name+".", rw)
	all(s.root+"elections/dispatcher%3A"+queue+"/", rw)
	all(s.root+"locks/"+queue+"/", rw)
	all("/results/"+queue+"/", rw)
}

func (s *secured) login(t *testing.T, name string) *clientv3.Client {
	t.Helper()
	return dialWith(t, clientv3.Config{Endpoints: s.eps, Username: name, Password: name + "-pw"})
}

// denied tells that etcd refused for lack of permission.
func denied(err error) bool {
	return err != nil && strings.Contains(err.Error(), rpctypes.ErrPermissionDenied.Error())
}

// A role for one queue is enough to do everything there, in both modes, and reaches
// nothing else: not another queue, nor another's session, lane, lock or lease.
func TestSecurityRoles(t *testing.T) {
	t.Parallel()
	s := secure(t)
	ana, ben := s.login(t, "ana"), s.login(t, "ben")
	for _, mode := range []string{"claim", "dispatch"} {
		s.works(t, ana, mode)
	}
	victim, err := coord.OpenSession(bounded(t), ben, coord.SessionConfig{Root: s.root, Identity: "ben", TTL: time.Minute})
	mustDo(t, err)
	defer func() { mustDo(t, victim.Close(bounded(t))) }()
	hold, err := coord.NewLock(victim, "b").Acquire(bounded(t))
	mustDo(t, err)
	defer func() { mustDo(t, hold.Release(bounded(t))) }()
	mine, err := coord.OpenSession(bounded(t), ana, coord.SessionConfig{Root: s.root, Identity: "ana", TTL: time.Minute})
	mustDo(t, err)
	defer func() { mustDo(t, mine.Close(bounded(t))) }()
	for name, try := range map[string]func(ctx context.Context) error{
		"open another queue": func(ctx context.Context) error {
			q, err := workqueue.Open(ctx, ana, workqueue.Config{Queue: "b", Root: s.root, Identity: "ana"})
			if err == nil {
				defer q.Close()
				_, err = q.Enqueue(ctx, workqueue.Params{})
			}
			return err
		},
		"be another": func(ctx context.Context) error {
			_, err := coord.OpenSession(ctx, ana, coord.SessionConfig{Root: s.root, Identity: "ben"})
			return err
		},
		"take another's lock": func(ctx context.Context) error {
			_, err := coord.NewLock(mine, "b").Acquire(ctx)
			return err
		},
		"write elsewhere under a fence": func(ctx context.Context) error {
			_, err := mine.Commit(ctx, nil, clientv3.OpPut("/results/b/x", ""))
			return err
		},
		"delete another's session": func(ctx context.Context) error {
			_, err := ana.Delete(ctx, s.root+"sessions/"+victim.ID())
			return err
		},
		"revoke another's lease": func(ctx context.Context) error {
			_, err := ana.Revoke(ctx, victim.Lease())
			return err
		},
		"write another's lane": func(ctx context.Context) error {
			_, err := ana.Put(ctx, s.root+"lanes/"+victim.ID()+"/0", "")
			return err
		},
		"take another's registration away": func(ctx context.Context) error {
			_, err := ana.Delete(ctx, s.root+"queues/a/workers/"+victim.ID())
			return err
		},
		"register for another": func(ctx context.Context) error {
			_, err := ana.Put(ctx, s.root+"queues/a/workers/"+victim.ID(), "{}")
			return err
		},
		"read another queue": func(ctx context.Context) error {
			_, err := ana.Get(ctx, s.root+"queues/b/", clientv3.WithPrefix())
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := try(ctx); !denied(err) || ctx.Err() != nil {
			t.Errorf("%s: got %v, want to be denied at once", name, err)
		}
		cancel()
	}
	if err := victim.Err(); err != nil {
		t.Errorf("the neighbour's session: %v", err)
	}
	mustDo(t, hold.Verify(bounded(t)))
	// A producer that may not read the schema enqueues without.
	_, err = s.admin.RoleRevokePermission(bounded(t), "ana", s.root+"meta", "")
	mustDo(t, err)
	q, err := workqueue.Open(bounded(t), ana, workqueue.Config{Queue: "a", Root: s.root, Identity: "ana"})
	mustDo(t, err)
	defer func() { mustDo(t, q.Close()) }()
	add(t, q, workqueue.Params{ID: "blind"})
}

// works uses the queue "a" with what ana has.
func (s *secured) works(t *testing.T, cl *clientv3.Client, mode string) {
	t.Helper()
	q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "a", Root: s.root, Identity: "ana"})
	mustDo(t, err)
	defer func() { mustDo(t, q.Close()) }()
	mustDo(t, q.SetMode(bounded(t), mode, workqueue.By{Actor: "ana"}))
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		if err := c.Checkpoint(ctx, []byte("here")); err != nil {
			return nil, err
		}
		if c.Job().Kind == "fail" {
			return nil, workqueue.Permanent(errors.New("no"))
		}
		return nil, c.CompleteWith(ctx, []byte("r"), clientv3.OpPut("/results/a/"+c.Job().ID, "r"))
	}), workqueue.WorkerConfig{StandForDispatcher: true, SessionTTL: 20 * time.Second})
	mustDo(t, err)
	ctx, stop := context.WithCancel(bounded(t))
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	add(t, q, workqueue.Params{ID: mode, Payload: make([]byte, 4<<10)})
	add(t, q, workqueue.Params{ID: mode + "-fail", Kind: "fail"})
	for id, want := range map[string]workqueue.State{mode: workqueue.StateDone, mode + "-fail": workqueue.StateDead} {
		if j, err := q.Wait(bounded(t), id); err != nil || j.State != want {
			t.Errorf("%s: got %+v, %v, want %s", id, j, err, want)
		}
	}
	e, err := election.New(cl, election.Config{Name: q.DispatcherElection(), Root: s.root, Identity: "ana"})
	mustDo(t, err)
	if _, err := e.Candidates(bounded(t)); err != nil {
		t.Error(err)
	}
	stop()
	mustDo(t, <-ran)
}

// lines is a log that keeps all its bytes. Safe for concurrent use.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) Sync() error { return nil }

// contain returns the first line with text in it.
func (l *lines) contain(text string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.b.String()) {
		if strings.Contains(line, text) {
			return line
		}
	}
	return ""
}

// What jobs carry, and passwords, are in no line of any log, also where everything
// goes wrong: not the payload, result, progress or checkpoint, whole or in part.
func TestSecurityLogsTellNoSecrets(t *testing.T) {
	t.Parallel()
	s := secure(t)
	secrets := []string{"payload-5ecret", "result-5ecret", "progress-5ecret", "checkpoint-5ecret", "ana-pw", "caller-5ecret"}
	log := &lines{}
	logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), log, zapcore.DebugLevel))
	proxy, err := faultproxy.New(s.eps[0])
	mustDo(t, err)
	defer proxy.Close()
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{proxy.Endpoint()}, Username: "ana", Password: "ana-pw", Logger: logger})
	mustDo(t, err)
	defer cl.Close()
	q, err := workqueue.Open(bounded(t), cl, workqueue.Config{Queue: "a", Root: s.root, Identity: "ana", Logger: logger, Backoff: workqueue.Backoff{Initial: time.Millisecond}})
	mustDo(t, err)
	defer func() { mustDo(t, q.Close()) }()
	running := make(chan struct{}, 8)
	w, err := workqueue.NewWorker(q, workqueue.HandlerFunc(func(ctx context.Context, c *workqueue.Claim) ([]byte, error) {
		first := c.Job().Attempt == 1
		_ = c.Progress(ctx, []byte(secrets[2]))
		_ = c.Checkpoint(ctx, []byte(secrets[3]))
		switch c.Job().Kind {
		case "panic":
			if first {
				panic("a handler's own")
			}
		case "huge":
			return bytes.Repeat([]byte(secrets[1]), workqueue.MaxResult/len(secrets[1])+1), nil
		case "elsewhere":
			return nil, c.CompleteWith(ctx, []byte(secrets[1]), clientv3.OpPut("/denied", secrets[5]))
		case "cut":
			if first {
				running <- struct{}{}
				<-ctx.Done()
			}
		case "hang":
			if first {
				running <- struct{}{}
				<-ctx.Done()
				<-time.After(300 * time.Millisecond) // past its grace
			}
		}
		return []byte(secrets[1]), nil
	}), workqueue.WorkerConfig{SessionTTL: 2 * time.Second, Grace: 100 * time.Millisecond, StandForDispatcher: true})
	mustDo(t, err)
	ctx, stop := context.WithCancel(bounded(t))
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	kinds := []string{"", "panic", "huge", "elsewhere", "hang", "cut"}
	for _, kind := range kinds {
		p := workqueue.Params{ID: "j" + kind, Kind: kind, Payload: []byte(secrets[0]), MaxAttempts: 2}
		if kind == "panic" {
			p.Payload = bytes.Repeat(p.Payload, 200) // lies beside
		}
		if kind == "hang" {
			p.Timeout = 100 * time.Millisecond
		}
		add(t, q, p)
	}
	for range 2 {
		<-running
	}
	// The link is silent past the lease, then cut; then a record is broken.
	proxy.Pause()
	<-time.After(3 * time.Second)
	proxy.Refuse()
	proxy.Heal()
	_, err = s.admin.Put(bounded(t), s.root+"queues/a/jobs/00/broken", `{"w":"00000000000000aa","v":1,"id":"broken","payload":"`+secrets[0])
	mustDo(t, err)
	for _, kind := range kinds {
		if _, err := q.Wait(bounded(t), "j"+kind); err != nil {
			t.Error(err)
		}
	}
	if _, err := q.Enqueue(bounded(t), workqueue.Params{Payload: bytes.Repeat([]byte(secrets[0]), 100_000)}); err == nil || strings.Contains(err.Error(), secrets[0]) {
		t.Errorf("a payload that is too large: got %v", err)
	}
	stop()
	if err := <-ran; err != nil {
		t.Log(err) // the hung handler
	}
	if log.contain("session over") == "" {
		t.Error("nothing went wrong, so nothing is shown")
	}
	for _, secret := range secrets {
		if line := log.contain(secret); line != "" {
			t.Errorf("%s is in the log: %.300s", secret, line)
		}
	}
}
