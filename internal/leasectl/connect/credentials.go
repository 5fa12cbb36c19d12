package connect

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

	"github.com/leasekit/leasekit/internal/escape"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
)

// tlsConfig reads the TLS files. It returns nil when none is given.
func (s *Settings) tlsConfig() (*tls.Config, error) {
	if (s.cert == "") != (s.key == "") {
		given, missing := "cert", "key"
		if s.cert == "" {
			given, missing = missing, given
		}
		return nil, exit.Usagef("--cert FILE --key FILE", "%s is given without --%s", s.Source(given), missing)
	}
	if s.cert == "" && s.cacert == "" {
		return nil, nil
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.cacert != "" {
		pem, err := os.ReadFile(s.cacert)
		if err != nil {
			return nil, FileError(s.Source("cacert"), err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, exit.Usagef("", "%s %s holds no PEM certificate", s.Source("cacert"), s.cacert)
		}
	}
	if s.cert != "" {
		for flag, path := range map[string]string{"cert": s.cert, "key": s.key} {
			if _, err := os.Stat(path); err != nil {
				return nil, FileError(s.Source(flag), err)
			}
		}
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return nil, exit.Usagef("", "%s and %s do not make a key pair: %v", s.Source("cert"), s.Source("key"), err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// FileError is the error of a file that cannot be read, as one of usage.
func FileError(source string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return exit.Usagef("", "%s %s: %v", source, p.Path, p.Err)
	}
	return exit.Usagef("", "%s: %v", source, err)
}

// credentials returns user and password, both empty when none is wanted. It may run the context's command or ask a
// person.
func (s *Settings) credentials(ctx context.Context, getenv func(string) string) (user, password string, err error) {
	if s.User == "" {
		if s.PasswordFile != "" {
			return "", "", exit.Usagef("--user NAME", "%s is given without a user", s.Source("password-file"))
		}
		return "", "", nil // a password alone is left over from another call
	}
	user, inline, hasInline := strings.Cut(s.User, ":")
	switch {
	case user == "":
		return "", "", exit.Usagef("--user NAME", "%s has no user name", s.Source("user"))
	case hasInline && s.Source("user") == "--user":
		return "", "", exit.Usagef("LEASECTL_PASSWORD or --password-file",
			"--user takes a name only: a password on the command line is readable by every user of this machine")
	case hasInline && s.Source("user") == s.ContextName():
		return "", "", exit.Usagef("leasectl config set "+escape.Shell(s.Context)+" user="+escape.Shell(user)+" password_file=FILE",
			"the user of %s holds a password: a context takes a name only", s.ContextName())
	}
	password, err = s.password(ctx, user, inline, getenv)
	if err == nil && password == "" {
		err = exit.Usagef("LEASECTL_PASSWORD or --password-file", "%s %s has no password", s.Source("user"), user)
	}
	return user, password, err
}

// password returns the password of a user, from the place that is nearest to this call. There is no flag for it: a
// command line is readable by every user. A context's password is only for the context's user.
func (s *Settings) password(ctx context.Context, user, inline string, getenv func(string) string) (string, error) {
	ours := s.Source("user") == s.ContextName()
	switch {
	case s.PasswordFile != "":
		return s.readPassword(s.PasswordFile, s.Source("password-file"))
	case inline != "":
		return inline, nil
	case getenv("LEASECTL_PASSWORD") != "":
		return getenv("LEASECTL_PASSWORD"), nil
	case ours && s.Chosen.PasswordFile != "":
		return s.readPassword(s.Chosen.PasswordFile, "password_file of "+s.ContextName())
	case ours && s.Chosen.PasswordCommand != "":
		return s.runPasswordCommand(ctx)
	case getenv("ETCDCTL_PASSWORD") != "":
		return getenv("ETCDCTL_PASSWORD"), nil
	case s.Ask != nil:
		return s.Ask(ctx, user)
	}
	return "", nil
}

// runPasswordCommand runs the context's command in a shell; the first line that it prints is the password.
func (s *Settings) runPasswordCommand(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.DialTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", s.Chosen.PasswordCommand)
	cmd.Stderr = os.Stderr
	cmd.WaitDelay = s.DialTimeout // for what it may have left behind
	out, err := cmd.Output()
	if err != nil {
		return "", &exit.Error{Code: exit.Auth, Err: fmt.Errorf("password_command of %s: %w", s.ContextName(), err)}
	}
	line, _, _ := strings.Cut(string(out), "\n")
	if line = strings.TrimSuffix(line, "\r"); line == "" {
		return "", &exit.Error{Code: exit.Auth, Err: fmt.Errorf("password_command of %s printed no password", s.ContextName())}
	}
	return line, nil
}

func (s *Settings) readPassword(path, source string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", FileError(source, err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	if password == "" || strings.Contains(password, "\n") {
		return "", exit.Usagef("", "%s %s does not hold one line", source, path)
	}
	return password, nil
}
