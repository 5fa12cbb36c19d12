package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/leasekit/leasekit/internal/leasectl/cli"
	"github.com/leasekit/leasekit/internal/leasectl/exit"
	"github.com/leasekit/leasekit/internal/leasectl/output"
)

var errUnedited = errors.New("the payload was left as it is, nothing changed")

// editor returns the command line of the user's editor, or a usage error where nobody can use one.
func editor(a *cli.App) (string, error) {
	if !output.IsTerminal(a.In) {
		return "", exit.Usagef("PAYLOAD, @FILE, - or a flag such as --priority", "nothing says what to edit")
	}
	for _, name := range []string{"VISUAL", "EDITOR"} {
		if editor := a.Getenv(name); editor != "" {
			return editor, nil
		}
	}
	return "", exit.Usagef("EDITOR=vi, or PAYLOAD, @FILE or -", "nothing says what to edit, and there is no $EDITOR to ask with")
}

// editText lets the user edit text in a file that only they can read, and returns what it is then. It blocks until the
// editor has ended.
func editText(ctx context.Context, a *cli.App, editor string, text []byte) ([]byte, error) {
	dir, err := os.MkdirTemp("", "leasectl-edit-")
	if err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "payload")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	// The shell takes the editor's own arguments apart: EDITOR="code -w".
	cmd := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "editor", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, a.Err, a.Err // stdout is for data
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run %s: %w", editor, err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("edit: %w", err)
	}
	if !bytes.HasSuffix(text, []byte("\n")) { // which editors like to add
		b = bytes.TrimSuffix(b, []byte("\n"))
	}
	return b, nil
}
