// Package clitest is what the tests of leasectl's packages share.
package clitest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/leasekit/leasekit/internal/embedetcd"
)

// Patience is how long anything may take on a busy machine, with the race detector. No test measures by it.
const Patience = 2 * time.Minute

// Run runs the tests of a package and returns the exit code. A run that passed but left goroutines behind has failed.
func Run(m interface{ Run() int }) int {
	code := m.Run()
	leak := goleak.Find()
	for end := time.Now().Add(10 * time.Second); leak != nil && time.Now().Before(end); {
		leak = goleak.Find() // an etcd server's last goroutines end a while after Close
	}
	if leak != nil && code == 0 {
		fmt.Fprintln(os.Stderr, leak)
		code = 1
	}
	return code
}

// StartEtcd runs a cluster for the length of a test.
func StartEtcd(t *testing.T, cfg embedetcd.Config) *embedetcd.Cluster {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Patience)
	defer cancel()
	c, err := embedetcd.Start(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Log keeps what a process writes and tells when a text has appeared. Its methods may be called at the same time.
type Log struct {
	mu    sync.Mutex
	text  bytes.Buffer
	waits map[string]chan struct{}
}

// NewLog returns an empty Log.
func NewLog() *Log { return &Log{waits: map[string]chan struct{}{}} }

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(p)
	for text, seen := range l.waits {
		if strings.Contains(l.text.String(), text) {
			close(seen)
			delete(l.waits, text)
		}
	}
	return len(p), nil
}

// When returns a channel that is closed once the text has been written.
func (l *Log) When(text string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	seen := make(chan struct{})
	if strings.Contains(l.text.String(), text) {
		close(seen)
	} else {
		l.waits[text] = seen
	}
	return seen
}

// String is what has been written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
