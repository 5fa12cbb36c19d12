package execjob

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
)

// LookError says that a command cannot be run, before any job was claimed for it.
type LookError struct {
	Name string
	Code int // what a shell would exit with: 127 not found, 126 found but not executable
	Err  error
}

// Error names the command and the reason.
func (e *LookError) Error() string {
	if e.Code == 127 {
		return fmt.Sprintf("command %q not found", e.Name)
	}
	return fmt.Sprintf("command %q cannot be executed: %v", e.Name, e.Err)
}

// Unwrap returns the cause.
func (e *LookError) Unwrap() error { return e.Err }

// Look finds the program of argv as a shell would, so that a typing error is found before a job is claimed. It returns
// argv with the program's path in place of its name; the error is a *LookError.
func Look(argv []string) ([]string, error) {
	if len(argv) == 0 || argv[0] == "" {
		return nil, &LookError{Code: 127, Err: exec.ErrNotFound}
	}
	path, err := exec.LookPath(argv[0])
	if err != nil {
		code := 126
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			code = 127
		}
		return nil, &LookError{Name: argv[0], Code: code, Err: errors.Unwrap(err)}
	}
	return append([]string{path}, argv[1:]...), nil
}
