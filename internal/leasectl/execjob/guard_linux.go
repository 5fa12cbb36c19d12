package execjob

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is the path of this program, also of one that was replaced or deleted since it was started.
func self() string {
	const running = "/proc/self/exe"
	if _, err := os.Stat(running); err == nil {
		return running
	}
	path, _ := os.Executable()
	return path
}

// procAttr gives the command a process group of its own and lets the kernel kill it when the guard dies.
func procAttr(foreground bool) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Foreground: foreground, Ctty: 0, Pdeathsig: syscall.SIGKILL}
}

// seesOrphans tells that what the command's descendants leave behind becomes a child of the guard.
const seesOrphans = true

// adoptOrphans makes orphans among the command's descendants children of this process.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// children lists the children of this process that can be seen.
func children() (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	me := []byte(strconv.Itoa(os.Getpid()))
	for _, stat := range stats {
		b, err := os.ReadFile(stat)
		if err != nil {
			continue // it has ended
		}
		fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // state, parent...
		if len(fields) < 2 || !bytes.Equal(fields[1], me) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(stat))); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func dup2(from, to int) error { return unix.Dup2(from, to) }
