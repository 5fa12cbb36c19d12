package leasectl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"

	"github.com/leasekit/leasekit/internal/leasectl/escape"
)

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
			return nil, fileError(s.source("cacert"), err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, usagef("", "%s %s holds no PEM certificate", s.source("cacert"), s.cacert)
		}
	}
	if s.cert != "" {
		for flag, path := range map[string]string{"cert": s.cert, "key": s.key} {
			if _, err := os.Stat(path); err != nil {
				return nil, fileError(s.source(flag), err)
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

func fileError(source string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return usagef("", "%s %s: %v", source, p.Path, p.Err)
	}
	return usagef("", "%s: %v", source, err)
}

// credentials returns user and password, both empty when none is wanted. It may run the context's command or ask a
// person.
func (s *settings) credentials(ctx context.Context, getenv func(string) string) (user, password string, err error) {
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
	case hasInline && s.source("user") == s.contextName():
		return "", "", usagef("leasectl config set "+escape.Shell(s.context)+" user="+escape.Shell(user)+" password_file=FILE",
			"the user of %s holds a password: a context takes a name only", s.contextName())
	}
	password, err = s.password(ctx, user, inline, getenv)
	if err == nil && password == "" {
		err = usagef("LEASECTL_PASSWORD or --password-file", "%s %s has no password", s.source("user"), user)
	}
	return user, password, err
}

// password returns the password of a user, from the place that is nearest to this call. There is no flag for it: a
// command line is readable by every user. A context's password is only for the context's user.
func (s *settings) password(ctx context.Context, user, inline string, getenv func(string) string) (string, error) {
	ours := s.source("user") == s.contextName()
	switch {
	case s.passwordFile != "":
		return s.readPassword(s.passwordFile, s.source("password-file"))
	case inline != "":
		return inline, nil
	case getenv("LEASECTL_PASSWORD") != "":
		return getenv("LEASECTL_PASSWORD"), nil
	case ours && s.chosen.PasswordFile != "":
		return s.readPassword(s.chosen.PasswordFile, "password_file of "+s.contextName())
	case ours && s.chosen.PasswordCommand != "":
		return s.runPasswordCommand(ctx)
	case getenv("ETCDCTL_PASSWORD") != "":
		return getenv("ETCDCTL_PASSWORD"), nil
	case s.ask != nil:
		return s.ask(ctx, user)
	}
	return "", nil
}

// runPasswordCommand runs the context's command in a shell; the first line that it prints is the password.
func (s *settings) runPasswordCommand(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.dialTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", s.chosen.PasswordCommand)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = s.dialTimeout // for what it may have left behind
	out, err := cmd.Output()
	if err != nil {
		return "", &failure{code: exitAuth, err: fmt.Errorf("password_command of %s: %w", s.contextName(), err)}
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", &failure{code: exitAuth, err: fmt.Errorf("password_command of %s printed no password", s.contextName())}
	}
	return line, nil
}

func (s *settings) readPassword(path, source string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", fileError(source, err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if password == "" || strings.Contains(password, "\n") {
		return "", usagef("", "%s %s does not hold one line", source, path)
	}
	return password, nil
}
