package leasectl

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// settings are the values of the global flags, from the command line, the environment or the defaults.
type settings struct {
	endpoints    string
	root         string
	cacert       string
	cert         string
	key          string
	user         string
	passwordFile string
	dialTimeout  time.Duration
	output       string

	// origin names where each value that is not a default came from, by flag name: "--root", "LEASECTL_ROOT"...
	origin map[string]string
}

const (
	defaultEndpoint = "127.0.0.1:2379"
	defaultRoot     = "/leasekit/"
)

// globalEnv lists the variables of each global flag; the first that is set and not empty counts. A flag on the command
// line wins over all of them.
var globalEnv = []struct {
	flag string
	vars []string
}{
	{"endpoints", []string{"LEASECTL_ENDPOINTS", "ETCDCTL_ENDPOINTS"}},
	{"root", []string{"LEASECTL_ROOT"}},
	{"cacert", []string{"LEASECTL_CACERT", "ETCDCTL_CACERT"}},
	{"cert", []string{"LEASECTL_CERT", "ETCDCTL_CERT"}},
	{"key", []string{"LEASECTL_KEY", "ETCDCTL_KEY"}},
	{"user", []string{"LEASECTL_USER", "ETCDCTL_USER"}},
	{"password-file", []string{"LEASECTL_PASSWORD_FILE"}},
	{"dial-timeout", []string{"LEASECTL_DIAL_TIMEOUT", "ETCDCTL_DIAL_TIMEOUT"}},
	{"output", []string{"LEASECTL_OUTPUT"}},
}

// passwordVars hold the password itself. There is no flag for it: a command line is readable by every user.
var passwordVars = []string{"LEASECTL_PASSWORD", "ETCDCTL_PASSWORD"}

// addFlags declares the global flags.
func (s *settings) addFlags(f *pflag.FlagSet) {
	f.StringVar(&s.endpoints, "endpoints", "", "reach etcd at `URL`[,URL...] (default http://"+defaultEndpoint+")")
	f.StringVar(&s.root, "root", defaultRoot, "work under the key `PREFIX` of one tenant or environment")
	f.StringVar(&s.cacert, "cacert", "", "trust the servers whose certificates are signed by those in `FILE`")
	f.StringVar(&s.cert, "cert", "", "show the client certificate in `FILE`; needs --key")
	f.StringVar(&s.key, "key", "", "the key of --cert, in `FILE`")
	f.StringVar(&s.user, "user", "", "log in as `NAME`, with LEASECTL_PASSWORD or --password-file")
	f.StringVar(&s.passwordFile, "password-file", "", "read the password of --user from `FILE`")
	f.DurationVar(&s.dialTimeout, "dial-timeout", 5*time.Second, "wait at most `TIME` for etcd to answer at all")
	f.StringVarP(&s.output, "output", "o", "", "print as `FORMAT`: table, wide, json, jsonl, yaml, name or csv, as the command offers")
}

// load fills in from the environment what the command line left open.
func (s *settings) load(f *pflag.FlagSet, getenv func(string) string) error {
	s.origin = map[string]string{}
	for _, g := range globalEnv {
		if f.Changed(g.flag) {
			s.origin[g.flag] = "--" + g.flag
			continue
		}
		name, value := firstSet(getenv, g.vars)
		if name == "" {
			continue
		}
		if err := f.Set(g.flag, value); err != nil {
			return usagef("unset "+name, "value %q of %s is not valid for --%s", value, name, g.flag)
		}
		s.origin[g.flag] = name
	}
	if s.dialTimeout <= 0 {
		return usagef("--dial-timeout 5s", "%s is %v: it must be positive", s.source("dial-timeout"), s.dialTimeout)
	}
	return nil
}

// source names where a flag's value came from, for messages.
func (s *settings) source(flag string) string {
	if o := s.origin[flag]; o != "" {
		return o
	}
	return "--" + flag
}

func firstSet(getenv func(string) string, vars []string) (name, value string) {
	for _, v := range vars {
		if value := getenv(v); value != "" {
			return v, value
		}
	}
	return "", ""
}

// tlsConfig reads the TLS files. It returns nil when none is given.
func (s *settings) tlsConfig() (*tls.Config, error) {
	if (s.cert == "") != (s.key == "") {
		given, missing := "cert", "key"
		if s.cert == "" {
			given, missing = missing, given
		}
		return nil, usagef("--cert FILE --key FILE", "%s is given without --%s", s.source(given), missing)
	}
	if s.cert == "" && s.cacert == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.cacert != "" {
		pem, err := os.ReadFile(s.cacert)
		if err != nil {
			return nil, s.fileError("cacert", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("", "%s %s holds no PEM certificate", s.source("cacert"), s.cacert)
		}
	}
	if s.cert != "" {
		for flag, path := range map[string]string{"cert": s.cert, "key": s.key} {
			if _, err := os.Stat(path); err != nil {
				return nil, s.fileError(flag, err)
			}
		}
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, usagef("", "%s and %s do not make a key pair: %v", s.source("cert"), s.source("key"), err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

func (s *settings) fileError(flag string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return usagef("", "%s %s: %v", s.source(flag), p.Path, p.Err)
	}
	return usagef("", "%s: %v", s.source(flag), err)
}

// credentials returns user and password, both empty when none is wanted.
func (s *settings) credentials(getenv func(string) string) (user, password string, err error) {
	passwordVar, fromEnv := firstSet(getenv, passwordVars)
	if s.user == "" {
		if s.passwordFile != "" {
			return "", "", usagef("--user NAME", "%s is given without a user", s.source("password-file"))
		}
		return "", "", nil // a password alone is left over from another call
	}
	user, inline, hasInline := strings.Cut(s.user, ":")
	switch {
	case user == "":
		return "", "", usagef("--user NAME", "%s has no user name", s.source("user"))
	case hasInline && s.source("user") == "--user":
		return "", "", usagef("LEASECTL_PASSWORD or --password-file",
			"--user takes a name only: a password on the command line is readable by every user of this machine")
	case s.passwordFile != "":
		password, err = s.readPassword()
		if err != nil {
			return "", "", err
		}
	case hasInline:
		password = inline
	case passwordVar != "":
		password = fromEnv
	}
	if password == "" {
		return "", "", usagef("LEASECTL_PASSWORD or --password-file", "%s %s has no password", s.source("user"), user)
	}
	return user, password, nil
}

func (s *settings) readPassword() (string, error) {
	b, err := os.ReadFile(s.passwordFile)
	if err != nil {
		return "", s.fileError("password-file", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if password == "" || strings.Contains(password, "\n") {
		return "", usagef("", "%s %s does not hold one line", s.source("password-file"), s.passwordFile)
	}
	return password, nil
}

// target is where to connect and how, checked as far as it can be without a connection.
type target struct {
	endpoints []string // with scheme
	tls       *tls.Config
	user      string
	password  string
	root      string
	timeout   time.Duration
}

// target checks the settings of a connection; its errors are usage errors.
func (s *settings) target(getenv func(string) string) (*target, error) {
	cfg, err := s.tlsConfig()
	if err != nil {
		return nil, err
	}
	endpoints, err := parseEndpoints(s.endpoints, s.source("endpoints"), cfg != nil)
	if err != nil {
		return nil, err
	}
	user, password, err := s.credentials(getenv)
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
	if s.root == "" {
		return nil, usagef("--root "+defaultRoot, "%s is empty", s.source("root"))
	}
	t := &target{endpoints: endpoints, tls: cfg, user: user, password: password, root: s.root, timeout: s.dialTimeout}
	return t, nil
}
