package execjob

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// maxResultFile bounds what is read back from a result file. It is above what any queue stores, so the queue's own,
// smaller limit gives the exact message; this one only keeps a runaway file out of memory.
const maxResultFile = 2 << 20

// files is the private directory of one attempt.
type files struct {
	dir        string
	result     string // does not exist until the child writes it
	checkpoint string // empty when there is none
}

func newFiles(tempDir string, job Job) (*files, error) {
	dir, err := os.MkdirTemp(tempDir, "leasectl-job-")
	if err != nil {
		return nil, fmt.Errorf("make the job's directory: %w", err)
	}
	f := &files{dir: dir, result: filepath.Join(dir, "result")}
	if job.Checkpoint == nil {
		return f, nil
	}
	f.checkpoint = filepath.Join(dir, "checkpoint")
	if err := os.WriteFile(f.checkpoint, job.Checkpoint, 0o600); err != nil {
		f.remove()
		return nil, fmt.Errorf("write the checkpoint: %w", err)
	}
	return f, nil
}

// remove deletes the directory. What cannot be deleted stays for the system's own cleaning of temporary files.
func (f *files) remove() { _ = os.RemoveAll(f.dir) }

// readResult returns what the child wrote, and whether it wrote anything: an empty file is an empty result.
func (f *files) readResult() (result []byte, written bool, err error) {
	info, err := os.Stat(f.result)
	if os.IsNotExist(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read the result file: %w", err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return nil, false, fmt.Errorf("read the result file: it is not a regular file (%s)", info.Mode().Type())
	}
	if info.Size() > maxResultFile {
		return nil, false, fmt.Errorf("result file of %d bytes is larger than the limit of %d", info.Size(), maxResultFile)
	}
	file, err := os.Open(f.result)
	if err != nil {
		return nil, false, fmt.Errorf("read the result file: %w", err)
	}
	defer file.Close()
	result, err = io.ReadAll(io.LimitReader(file, maxResultFile))
	if err != nil {
		return nil, false, fmt.Errorf("read the result file: %w", err)
	}
	return result, true, nil
}
