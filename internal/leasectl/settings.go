package leasectl

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

// settings are the values of the global flags, from the command line, the environment, the context or the defaults.
type settings struct {
	context      string
	identity     string // "" is the host's name
	endpoints    string
	root         string
	cacert       string
	cert         string
	key          string
	user         string
	passwordFile string
	dialTimeout  time.Duration
	output       string
	jq           string
	colour       string

	// origin names where each value that is not a default came from, by flag name: "--root", "LEASECTL_ROOT",
	// "context prod"...
	origin map[string]string

	// chosen is the context in use; contextErr says why it cannot be used, and matters to those who need it.
	chosen     contexts.Context
	contextErr error

	// dialing are more options of every connection; tests count requests by them.
	dialing []grpc.DialOption

	// shape is what --jq or a template makes of JSON; nil leaves it as it is.
	shape *shape

	// ask asks a person for the password of a user; nil where nobody can be asked.
	ask func(ctx context.Context, user string) (string, error)
}

const (
	defaultEndpoint = "127.0.0.1:2379"
	defaultRoot     = "/leasekit/"
)

// globalFlag is a global flag and where else its value can come from: a flag on the command line wins over our
// variable, that one over the context, and that one over etcdctl's variable. Empty values count as not set.
type globalFlag struct {
	flag    string
	env     string
	field   string // of a context
	etcdctl string
}

var globalFlags = []globalFlag{
	{"endpoints", "LEASECTL_ENDPOINTS", "endpoints", "ETCDCTL_ENDPOINTS"},
	{"root", "LEASECTL_ROOT", "root", ""},
	{"as", "LEASECTL_AS", "as", ""},
	{"cacert", "LEASECTL_CACERT", "cacert", "ETCDCTL_CACERT"},
	{"cert", "LEASECTL_CERT", "cert", "ETCDCTL_CERT"},
	{"key", "LEASECTL_KEY", "key", "ETCDCTL_KEY"},
	{"user", "LEASECTL_USER", "user", "ETCDCTL_USER"},
	{"password-file", "LEASECTL_PASSWORD_FILE", "", ""}, // a context's belongs to its user: see credentials
	{"dial-timeout", "LEASECTL_DIAL_TIMEOUT", "dial_timeout", "ETCDCTL_DIAL_TIMEOUT"},
	{"output", "LEASECTL_OUTPUT", "output", ""},
	{"color", "LEASECTL_COLOR", "color", ""},
}

// addFlags declares the global flags.
func (s *settings) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.context, "context", "", "use the context `NAME` of leasectl config; "+noContext+" is to use none")
	f.StringVar(&s.endpoints, "endpoints", "", "reach etcd at `URL`[,URL...] (default http://"+defaultEndpoint+")")
	f.StringVar(&s.root, "root", defaultRoot, "work under the key `PREFIX` of one tenant or environment")
	f.StringVar(&s.identity, "as", "", "be `NAME` for others and for roles: sessions and lanes begin with it (default the host's name)")
	f.StringVar(&s.cacert, "cacert", "", "trust the servers whose certificates are signed by those in `FILE`")
	f.StringVar(&s.cert, "cert", "", "show the client certificate in `FILE`; needs --key")
	f.StringVar(&s.key, "key", "", "the key of --cert, in `FILE`")
	f.StringVar(&s.user, "user", "", "log in as `NAME`, with LEASECTL_PASSWORD or --password-file")
	f.StringVar(&s.passwordFile, "password-file", "", "read the password of --user from `FILE`")
	f.DurationVar(&s.dialTimeout, "dial-timeout", 5*time.Second, "wait at most `TIME` for etcd to answer at all")
	f.StringVarP(&s.output, "output", "o", "", "print as `FORMAT`: table, wide, json, jsonl, yaml, name, csv, svg or go-template=TEXT, as the command offers")
	f.StringVar(&s.colour, "color", colourAuto, "colour states `WHEN`: auto is on a terminal without NO_COLOR; or always, never")
	f.StringVar(&s.jq, "jq", "", "print what the jq program `EXPR` makes of the JSON that -o json or jsonl prints")
}

// load fills in from the environment and the context what the command line left open.
func (s *settings) load(f *pflag.FlagSet, getenv func(string) string) error {
	s.origin = map[string]string{}
	s.loadContext(f.Changed("context"), getenv)
	for _, g := range globalFlags {
		if f.Changed(g.flag) {
			s.origin[g.flag] = "--" + g.flag
			continue
		}
		value, origin := s.beside(g, getenv)
		if value == "" {
			continue
		}
		if err := f.Set(g.flag, value); err != nil {
			try := "unset " + origin
			if origin == s.contextName() {
				try = "leasectl config set " + escape.Shell(s.context) + " " + g.field + "=..."
			}
			return usagef(try, "value %q of %s is not valid for --%s: want %s", value, origin, g.flag, wantedBy(f.Lookup(g.flag)))
		}
		s.origin[g.flag] = origin
	}
	if f.Changed("endpoints") && s.endpoints == "" {
		return usagef(tryEndpoint, "--endpoints is empty: a name that a script forgot would be another cluster")
	}
	if f.Changed("as") && s.identity == "" {
		return usagef("--as NAME, or no --as at all", "--as is empty: a name that a script forgot would be the host's")
	}
	if s.identity != "" {
		if err := keyspace.ValidateName("as", s.identity); err != nil {
			return err
		}
	}
	if s.dialTimeout <= 0 {
		return usagef("--dial-timeout 5s", "%s is %v: it must be positive", s.source("dial-timeout"), s.dialTimeout)
	}
	if f.Changed("jq") && s.jq == "" {
		return usagef("--jq .", "--jq is empty: a program that a script forgot would print everything")
	}
	err := s.checkColour()
	if err != nil {
		return err
	}
	s.shape, err = parseShape(s.jq, s.output, s.source("output"))
	return err
}

// source names where a flag's value came from, for messages.
func (s *settings) source(flag string) string {
	if o := s.origin[flag]; o != "" {
		return o
	}
	return "--" + flag
}

// beside returns the value of a flag that is not on the command line, and where it came from.
func (s *settings) beside(g globalFlag, getenv func(string) string) (value, origin string) {
	if v := getenv(g.env); v != "" {
		return v, g.env
	}
	if v := s.chosen.Value(g.field); v != "" {
		return v, s.contextName()
	}
	if g.etcdctl != "" {
		return getenv(g.etcdctl), g.etcdctl
	}
	return "", ""
}

// noContext is the name that stands for using no context, also where one is current.
const noContext = contexts.None

// loadContext chooses the context: the flag, the variable, or the current one of the file.
func (s *settings) loadContext(flag bool, getenv func(string) string) {
	s.origin["context"] = "--context"
	if !flag {
		if s.context = getenv("LEASECTL_CONTEXT"); s.context != "" {
			s.origin["context"] = "LEASECTL_CONTEXT"
		}
	}
	if s.context == noContext {
		s.context = ""
		return
	}
	path, err := contexts.Path(getenv)
	if err != nil {
		if s.context != "" {
			s.contextErr = usagef("", "%s is %q, but there is no place for contexts: %w", s.source("context"), s.context, err)
		}
		return
	}
	file, err := contexts.Load(path)
	if err == nil && s.context == "" {
		if s.context = file.Current; s.context == "" {
			return
		}
		s.origin["context"] = path
	}
	if err == nil {
		s.chosen, err = file.Get(s.context)
	}
	if err != nil {
		s.contextErr = &failure{code: exitUsage, err: fmt.Errorf("%s: %w", s.source("context"), err), try: "leasectl config get-contexts, or --context " + noContext}
	}
}

// contextName is how messages name the context in use.
func (s *settings) contextName() string { return "context " + s.context }

// named reports whether somebody named a value for this call, in a flag or in the environment.
func (s *settings) named(flag string) bool {
	return s.origin[flag] != "" && s.origin[flag] != s.contextName()
}

// target is where to connect and how, checked as far as it can be without a connection.
type target struct {
	endpoints []string // with scheme
	tls       *tls.Config
	files     *tlsFiles // where tls was read; nil when it was not
	user      string
	password  string
	root      string
	timeout   time.Duration
	context   string // its name, if there is one
	dialing   []grpc.DialOption
}

// target checks the settings of a connection; its errors are usage errors.
func (s *settings) target(ctx context.Context, getenv func(string) string) (*target, error) {
	if s.contextErr != nil {
		return nil, s.contextErr
	}
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	endpoints, err := parseEndpoints(s.endpoints, s.source("endpoints"), cfg != nil)
	if err != nil {
		return nil, err
	}
	user, password, err := s.credentials(ctx, getenv)
	if err != nil {
		return nil, err
	}
	secure := isSecure(endpoints[0])
	if cfg != nil && !secure {
		return nil, usagef("https:// endpoints", "TLS files are given but %s would be spoken to in plain text", endpoints[0])
	}
	if secure && cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12} // the system's certificates
	}
	var files *tlsFiles
	if s.cacert != "" || s.cert != "" {
		files = &tlsFiles{read: s.tlsConfig, last: cfg}
	}
	if s.root == "" {
		return nil, usagef("--root "+defaultRoot, "%s is empty", s.source("root"))
	}
	t := &target{endpoints: endpoints, tls: cfg, files: files, user: user, password: password, root: s.root, timeout: s.dialTimeout, context: s.context, dialing: s.dialing}
	return t, nil
}

// checkColour refuses a mode that there is not.
func (s *settings) checkColour() error {
	if !slices.Contains(colourModes, s.colour) {
		return usagef("--color "+colourAuto, "%s is %q: want one of auto, always, never", s.source("color"), s.colour)
	}
	return nil
}

// wantedBy says what a flag takes, in place of what Go's parsers say of what they did not get.
func wantedBy(f *pflag.Flag) string {
	switch f.Value.Type() {
	case "int", "int64":
		return "a whole number, such as 3"
	case "uint64":
		return "a whole number that is not negative, such as 3"
	case "float64":
		return "a number, such as 0.5"
	case "duration":
		return "a time such as 500ms, 10s, 5m or 1h30m, up to 2562047h"
	case "range":
		return "a time such as 200ms, or two, the shorter first, such as 50ms..300ms"
	case "bool":
		return "true or false, or nothing at all"
	case "stringSlice":
		return "values with commas between them, and double quotes around all of one or not at all"
	}
	return "another value"
}

// childEnv is the environment in which a child of this program reaches the same
// etcd. Passwords stay off its command line.
func (s *settings) childEnv(endpoints string) []string {
	return []string{
		"LEASECTL_CONTEXT=" + noContext,
		"LEASECTL_ENDPOINTS=" + endpoints, "LEASECTL_CACERT=" + s.cacert, "LEASECTL_CERT=" + s.cert,
		"LEASECTL_KEY=" + s.key, "LEASECTL_USER=" + s.user, "LEASECTL_PASSWORD_FILE=" + s.passwordFile,
		"LEASECTL_DIAL_TIMEOUT=" + s.dialTimeout.String(), "LEASECTL_OUTPUT=",
	}
}
