package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/keyspace"
	"github.com/leasekit/leasekit/internal/leasectl/contexts"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

// Settings are the values of the global flags, from the command line, the environment, the context or the defaults.
type Settings struct {
	Context      string
	Identity     string // "" is the host's name
	Endpoints    string
	Root         string
	cacert       string
	cert         string
	key          string
	User         string
	PasswordFile string
	DialTimeout  time.Duration
	Output       string
	jq           string
	Colour       string

	// origin names where each value that is not a default came from, by flag name: "--root", "LEASECTL_ROOT",
	// "context prod"...
	Origin map[string]string

	// Chosen is the context in use; ContextErr says why it cannot be used, and matters to those who need it.
	Chosen     contexts.Context
	ContextErr error

	// Dialing are more options of every connection; tests count requests by them.
	Dialing []grpc.DialOption

	// Shape is what --jq or a template makes of JSON; nil leaves it as it is.
	Shape *output.Shape

	// Ask asks a person for the password of a user; nil where nobody can be asked.
	Ask func(ctx context.Context, user string) (string, error)
}

// What is used where nothing else is said.
const (
	DefaultEndpoint = "127.0.0.1:2379"
	DefaultRoot     = "/leasekit/"
)

// globalFlag is a global flag and where else its value can come from: a flag on the command line wins over our
// variable, that one over the context, and that one over etcdctl's variable. Empty values count as not set.
type globalFlag struct {
	Flag    string
	env     string
	field   string // of a context
	etcdctl string
}

// GlobalFlags are all of them but --context and --jq.
var GlobalFlags = []globalFlag{
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

// AddFlags declares the global flags.
func (s *Settings) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&s.Context, "context", "", "use the context `NAME` of leasectl config; "+noContext+" is to use none")
	f.StringVar(&s.Endpoints, "endpoints", "", "reach etcd at `URL`[,URL...] (default http://"+DefaultEndpoint+")")
	f.StringVar(&s.Root, "root", DefaultRoot, "work under the key `PREFIX` of one tenant or environment")
	f.StringVar(&s.Identity, "as", "", "be `NAME` for others and for roles: sessions and lanes begin with it (default the host's name)")
	f.StringVar(&s.cacert, "cacert", "", "trust the servers whose certificates are signed by those in `FILE`")
	f.StringVar(&s.cert, "cert", "", "show the client certificate in `FILE`; needs --key")
	f.StringVar(&s.key, "key", "", "the key of --cert, in `FILE`")
	f.StringVar(&s.User, "user", "", "log in as `NAME`, with LEASECTL_PASSWORD or --password-file")
	f.StringVar(&s.PasswordFile, "password-file", "", "read the password of --user from `FILE`")
	f.DurationVar(&s.DialTimeout, "dial-timeout", 5*time.Second, "wait at most `TIME` for etcd to answer at all")
	f.StringVarP(&s.Output, "output", "o", "", "print as `FORMAT`: table, wide, json, jsonl, yaml, name, csv, svg or go-template=TEXT, as the command offers")
	f.StringVar(&s.Colour, "color", output.ColourAuto, "colour states `WHEN`: auto is on a terminal without NO_COLOR; or always, never")
	f.StringVar(&s.jq, "jq", "", "print what the jq program `EXPR` makes of the JSON that -o json or jsonl prints")
}

// Load fills in from the environment and the context what the command line left open.
func (s *Settings) Load(f *pflag.FlagSet, getenv func(string) string) error {
	s.Origin = map[string]string{}
	s.loadContext(f.Changed("context"), getenv)
	for _, g := range GlobalFlags {
		if f.Changed(g.Flag) {
			s.Origin[g.Flag] = "--" + g.Flag
			continue
		}
		value, origin := s.beside(g, getenv)
		if value == "" {
			continue
		}
		if err := f.Set(g.Flag, value); err != nil {
			try := "unset " + origin
			if origin == s.ContextName() {
				try = "leasectl config set " + escape.Shell(s.Context) + " " + g.field + "=..."
			}
			return exit.Usagef(try, "value %q of %s is not valid for --%s: want %s", value, origin, g.Flag, WantedBy(f.Lookup(g.Flag)))
		}
		s.Origin[g.Flag] = origin
	}
	if f.Changed("endpoints") && s.Endpoints == "" {
		return exit.Usagef(tryEndpoint, "--endpoints is empty: a name that a script forgot would be another cluster")
	}
	if f.Changed("as") && s.Identity == "" {
		return exit.Usagef("--as NAME, or no --as at all", "--as is empty: a name that a script forgot would be the host's")
	}
	if s.Identity != "" {
		if err := keyspace.ValidateName("as", s.Identity); err != nil {
			return err
		}
	}
	if s.DialTimeout <= 0 {
		return exit.Usagef("--dial-timeout 5s", "%s is %v: it must be positive", s.Source("dial-timeout"), s.DialTimeout)
	}
	if f.Changed("jq") && s.jq == "" {
		return exit.Usagef("--jq .", "--jq is empty: a program that a script forgot would print everything")
	}
	err := s.checkColour()
	if err != nil {
		return err
	}
	s.Shape, err = output.ParseShape(s.jq, s.Output, s.Source("output"))
	return err
}

// Source names where a flag's value came from, for messages.
func (s *Settings) Source(flag string) string {
	if o := s.Origin[flag]; o != "" {
		return o
	}
	return "--" + flag
}

// beside returns the value of a flag that is not on the command line, and where it came from.
func (s *Settings) beside(g globalFlag, getenv func(string) string) (value, origin string) {
	if v := getenv(g.env); v != "" {
		return v, g.env
	}
	if v := s.Chosen.Value(g.field); v != "" {
		return v, s.ContextName()
	}
	if g.etcdctl != "" {
		return getenv(g.etcdctl), g.etcdctl
	}
	return "", ""
}

// noContext is the name that stands for using no context, also where one is current.
const noContext = contexts.None

// loadContext chooses the context: the flag, the variable, or the current one of the file.
func (s *Settings) loadContext(flag bool, getenv func(string) string) {
	s.Origin["context"] = "--context"
	if !flag {
		if s.Context = getenv("LEASECTL_CONTEXT"); s.Context != "" {
			s.Origin["context"] = "LEASECTL_CONTEXT"
		}
	}
	if s.Context == noContext {
		s.Context = ""
		return
	}
	path, err := contexts.Path(getenv)
	if err != nil {
		if s.Context != "" {
			s.ContextErr = exit.Usagef("", "%s is %q, but there is no place for contexts: %w", s.Source("context"), s.Context, err)
		}
		return
	}
	file, err := contexts.Load(path)
	if err == nil && s.Context == "" {
		if s.Context = file.Current; s.Context == "" {
			return
		}
		s.Origin["context"] = path
	}
	if err == nil {
		s.Chosen, err = file.Get(s.Context)
	}
	if err != nil {
		s.ContextErr = &exit.Error{Code: exit.Usage, Err: fmt.Errorf("%s: %w", s.Source("context"), err), Try: "leasectl config get-contexts, or --context " + noContext}
	}
}

// ContextName is how messages name the context in use.
func (s *Settings) ContextName() string { return "context " + s.Context }

// Named reports whether somebody named a value for this call, in a flag or in the environment.
func (s *Settings) Named(flag string) bool {
	return s.Origin[flag] != "" && s.Origin[flag] != s.ContextName()
}

// Target is where to connect and how, checked as far as it can be without a connection.
type Target struct {
	Endpoints []string // with scheme
	TLS       *tls.Config
	files     *tlsFiles // where tls was read; nil when it was not
	User      string
	Password  string
	Root      string
	Timeout   time.Duration
	Context   string // its name, if there is one
	dialing   []grpc.DialOption
}

// Target checks the settings of a connection; its errors are usage errors.
func (s *Settings) Target(ctx context.Context, getenv func(string) string) (*Target, error) {
	if s.ContextErr != nil {
		return nil, s.ContextErr
	}
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	endpoints, err := ParseEndpoints(s.Endpoints, s.Source("endpoints"), cfg != nil)
	if err != nil {
		return nil, err
	}
	user, password, err := s.credentials(ctx, getenv)
	if err != nil {
		return nil, err
	}
	secure := isSecure(endpoints[0])
	if cfg != nil && !secure {
		return nil, exit.Usagef("https:// endpoints", "TLS files are given but %s would be spoken to in plain text", endpoints[0])
	}
	if secure && cfg == nil {
		cfg = &tls.Config{MinVersion: tls.VersionTLS12} // the system's certificates
	}
	var files *tlsFiles
	if s.cacert != "" || s.cert != "" {
		files = &tlsFiles{read: s.tlsConfig, last: cfg}
	}
	if s.Root == "" {
		return nil, exit.Usagef("--root "+DefaultRoot, "%s is empty", s.Source("root"))
	}
	t := &Target{Endpoints: endpoints, TLS: cfg, files: files, User: user, Password: password, Root: s.Root, Timeout: s.DialTimeout, Context: s.Context, dialing: s.Dialing}
	return t, nil
}

// checkColour refuses a mode that there is not.
func (s *Settings) checkColour() error {
	if !slices.Contains(output.ColourModes, s.Colour) {
		return exit.Usagef("--color "+output.ColourAuto, "%s is %q: want one of auto, always, never", s.Source("color"), s.Colour)
	}
	return nil
}

// WantedBy says what a flag takes, in place of what Go's parsers say of what they did not get.
func WantedBy(f *pflag.Flag) string {
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

// ChildEnv is the environment in which a child of this program reaches the same
// etcd. Passwords stay off its command line.
func (s *Settings) ChildEnv(endpoints string) []string {
	return []string{
		"LEASECTL_CONTEXT=" + noContext,
		"LEASECTL_ENDPOINTS=" + endpoints, "LEASECTL_CACERT=" + s.cacert, "LEASECTL_CERT=" + s.cert,
		"LEASECTL_KEY=" + s.key, "LEASECTL_USER=" + s.User, "LEASECTL_PASSWORD_FILE=" + s.PasswordFile,
		"LEASECTL_DIAL_TIMEOUT=" + s.DialTimeout.String(), "LEASECTL_OUTPUT=",
	}
}
