// Package local has the verbs to try and measure with: they start what they need on this machine.
package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasekit/leasekit/internal/embedetcd"
	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/connect"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// devOptions are the flags of dev.
type devOptions struct {
	dataDir    string
	ephemeral  bool
	clientAddr string
	fast       bool
}

// devStartTimeout bounds the start of the server: it has to read its data first.
const devStartTimeout = time.Minute

// NewDev is leasectl dev.
func NewDev(a *cli.App) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run an etcd on this machine, for trying and developing",
		Long: `Run a single etcd server in the foreground. When it serves, one line goes to
stdout:

  ready endpoint=http://127.0.0.1:2379 data=/home/ana/.local/state/leasectl/dev

Data is kept between runs, unless --ephemeral is given. SIGINT and SIGTERM stop
the server cleanly. It asks for no password: keep it on loopback.`,
		GroupID: cli.GroupLocal,
		Example: `  leasectl dev
  leasectl dev --ephemeral --client-addr 127.0.0.1:0   # any free port, nothing kept`,
		Args: cli.Takes(),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDev(cmd.Context(), a, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.dataDir, "data-dir", "", "keep the data in `DIR` (default leasectl/dev in $XDG_STATE_HOME or ~/.local/state)")
	f.BoolVar(&o.ephemeral, "ephemeral", false, "keep nothing: use a temporary directory")
	f.StringVar(&o.clientAddr, "client-addr", connect.DefaultEndpoint, "serve on `HOST:PORT`; port 0 is any free one")
	f.BoolVar(&o.fast, "fast", false, "twice the tick rate, so that leases of 1 s are possible")
	return cmd
}

// runDev serves until ctx ends, which is success.
func runDev(ctx context.Context, a *cli.App, o devOptions) error {
	dir, err := o.dir(a.Getenv)
	if err != nil {
		return err
	}
	if err := checkClientAddr(o.clientAddr); err != nil {
		return err
	}
	// What a server that starts or stops logs as errors is its way of doing so: half-known state, closed listeners.
	// A start that really fails says so in Start's error.
	level := zap.NewAtomicLevelAt(zap.FatalLevel)
	startCtx, cancel := context.WithTimeout(ctx, devStartTimeout)
	defer cancel()
	cluster, err := embedetcd.Start(startCtx, embedetcd.Config{Dir: dir, ClientAddr: o.clientAddr, Fast: o.fast, Logger: devLogger(a, level)})
	if exit.Signal(ctx) != nil && err != nil {
		return nil // stopped before it served: stopped all the same
	}
	if err != nil {
		return devStartError(o, err)
	}
	level.SetLevel(zap.ErrorLevel)
	endpoint := cluster.Endpoints()[0]
	devHints(a, o, endpoint)
	_, err = fmt.Fprintf(a.Out, "ready endpoint=%s data=%s\n", endpoint, quoted(cluster.Dir()))
	if err == nil {
		<-ctx.Done()
	}
	level.SetLevel(zap.FatalLevel)
	if closeErr := cluster.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("stop etcd: %w", closeErr))
	}
	return err
}

// dir returns the data directory, empty for a temporary one.
func (o devOptions) dir(getenv func(string) string) (string, error) {
	switch {
	case o.ephemeral && o.dataDir != "":
		return "", exit.Usagef("one of them", "--ephemeral and --data-dir exclude each other")
	case o.ephemeral:
		return "", nil
	case o.dataDir != "":
		return filepath.Abs(o.dataDir)
	}
	// The base directory specification says to ignore a relative path.
	if state := getenv("XDG_STATE_HOME"); filepath.IsAbs(state) {
		return filepath.Join(state, "leasectl", "dev"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", exit.Usagef("--data-dir DIR or --ephemeral", "no place for the data: %v", err)
	}
	return filepath.Join(home, ".local", "state", "leasectl", "dev"), nil
}

func checkClientAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return exit.Usagef("--client-addr "+connect.DefaultEndpoint, "--client-addr %q is not HOST:PORT", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return exit.Usagef("--client-addr "+connect.DefaultEndpoint, "--client-addr %q: want a port from 0 to 65535", addr)
	}
	if host != "" && host != "localhost" && net.ParseIP(host) == nil {
		return exit.Usagef("--client-addr "+connect.DefaultEndpoint, "--client-addr %q: want an IP address or localhost", addr)
	}
	return nil
}

func devStartError(o devOptions, err error) error {
	f := &exit.Error{Code: exit.Failed, Err: err}
	if errors.Is(err, syscall.EADDRINUSE) {
		f.Try = "--client-addr 127.0.0.1:0 for a free port, or use the etcd that is there"
	} else if !o.ephemeral {
		f.Try = "--data-dir DIR or --ephemeral"
	}
	return f
}

// devHints tells people what to do next, and what to mind.
func devHints(a *cli.App, o devOptions, endpoint string) {
	if host, _, err := net.SplitHostPort(o.clientAddr); err == nil && !loopback(host) {
		a.Notef("warning: %s is reachable from other machines, and asks nobody for a password", o.clientAddr)
	}
	if o.ephemeral {
		a.Notef("the data is deleted when this ends")
	}
	a.Notef("in another terminal:  export LEASECTL_ENDPOINTS=%s ETCDCTL_ENDPOINTS=%s", endpoint, endpoint)
	a.Notef("then try:             leasectl work hello -- cat")
	a.Notef("                      leasectl enqueue hello 'a payload' --id first")
	a.Notef("                      leasectl jobs get hello/first -o json")
	a.Notef("stop with Ctrl-C")
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || host == "localhost" || ip != nil && ip.IsLoopback()
}

// devLogger shows the server's errors on stderr; what it says while all is well helps nobody here.
func devLogger(a *cli.App, level zap.AtomicLevel) *zap.Logger {
	enc := zap.NewDevelopmentEncoderConfig()
	enc.CallerKey, enc.StacktraceKey = "", ""
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(a.Err)), level)
	return zap.New(devCore{core})
}

// devCore leaves out an error that every new server logs in its first seconds, until it has a term, and that means
// nothing.
type devCore struct{ zapcore.Core }

const storageVersionNoise = "failed to update storage version"

func (c devCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == storageVersionNoise {
		return checked
	}
	return c.Core.Check(e, checked)
}

func (c devCore) With(fields []zapcore.Field) zapcore.Core { return devCore{c.Core.With(fields)} }

// quoted keeps a value with spaces one word.
func quoted(s string) string {
	if strings.ContainsAny(s, " \t\n\"") {
		return strconv.Quote(s)
	}
	return s
}
